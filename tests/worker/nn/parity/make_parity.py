#!/usr/bin/env python3
"""Makes the .npy files beside it: what DGL's and PyG's own layers compute on a tiny sampled graph.

    <peers>/graphbolt/bin/python make_parity.py dgl      DGL 2.1.0, torch 2.2.1
    <peers>/pyg/bin/python       make_parity.py pyg      PyG 2.8.1, torch 2.11.0
    <peers>/pyg/bin/python       make_parity.py links    the same, for the model of PyG's Taobao example

tests/bench/baselines/run makes both environments. `dgl` also writes the graph and the features, `pyg` reads them.
"""

import argparse
import os

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))

# Seeds 0-1, hop 1 adds 2-5, hop 2 adds 6-11: only nodes below 6 have in-edges. Node 3 has a self-loop, node 4
# no in-edge, node 1 one edge twice.
IN_NEIGHBORS = [[2, 3, 1], [4, 5, 5, 0], [6, 7, 0], [3, 8, 9], [], [10, 11, 2, 6, 1]]
NUM_NODES, IN, HIDDEN, OUT = 12, 5, 7, 3


def save(name, value):
    array = value.detach().numpy() if isinstance(value, torch.Tensor) else value
    np.save(os.path.join(HERE, name + ".npy"), np.ascontiguousarray(array))


def load(name):
    return np.load(os.path.join(HERE, name + ".npy"))


def save_layer(name, layer, out, x):
    """The layer's parameters, its output and the gradient of sum(out^2) with respect to x."""
    for parameter_name, parameter in layer.named_parameters():
        save(f"{name}.{parameter_name}", parameter)
    save(f"{name}.out", out)
    save(f"{name}.grad_x", torch.autograd.grad(out.pow(2).sum(), x)[0])


def run_dgl():
    import dgl
    from dgl.nn.pytorch import GINConv, SAGEConv

    indptr = np.cumsum([0] + [len(n) for n in IN_NEIGHBORS]).astype(np.int64)
    indices = np.array([s for n in IN_NEIGHBORS for s in n], dtype=np.int64)
    save("indptr", indptr)
    save("indices", indices)
    save("x", np.random.RandomState(0).randn(NUM_NODES, IN).astype(np.float32))
    x = torch.from_numpy(load("x")).requires_grad_()
    destinations = torch.repeat_interleave(torch.arange(6), torch.from_numpy(np.diff(indptr)))
    block = dgl.create_block(
        (torch.from_numpy(indices), destinations), num_src_nodes=NUM_NODES, num_dst_nodes=6
    )
    torch.manual_seed(0)
    for name, out in (("dgl_sage_narrow", OUT), ("dgl_sage_wide", HIDDEN)):
        layer = SAGEConv(IN, out, "mean")
        save_layer(name, layer, layer(block, x), x)
    layer = GINConv(torch.nn.Linear(IN, OUT), "sum", init_eps=0.25)
    save_layer("dgl_gin", layer, layer(block, x), x)


def run_pyg():
    from torch_geometric.nn import GCN, GCNConv, GINConv, GraphSAGE, SAGEConv

    indptr, indices = load("indptr"), load("indices")
    x = torch.from_numpy(load("x")).requires_grad_()
    destinations = np.repeat(np.arange(6), np.diff(indptr))
    edge_index = torch.from_numpy(np.stack([indices, destinations]))
    torch.manual_seed(0)
    for name, layer in (
        ("pyg_sage_narrow", SAGEConv(IN, OUT)),
        ("pyg_sage_wide", SAGEConv(IN, HIDDEN)),
        ("pyg_gcn_narrow", GCNConv(IN, OUT)),
        ("pyg_gcn_wide", GCNConv(IN, HIDDEN)),
        ("pyg_gin", GINConv(torch.nn.Linear(IN, OUT), eps=0.25, train_eps=True)),
    ):
        if "gcn" in name:
            torch.nn.init.normal_(layer.bias)
        save_layer(name, layer, layer(x, edge_index)[:6], x)
    # Whole models on the sampled subgraph, as NeighborLoader gives it: the seeds' rows count.
    for name, model in (
        ("pyg_gcn_model", GCN(IN, HIDDEN, 2, OUT)),
        ("pyg_sage_model", GraphSAGE(IN, HIDDEN, 2, OUT)),
    ):
        save_layer(name, model, model(x, edge_index)[:2], x)


def make_link_modules(sage, hidden, out):
    # Classes are made here: their base is only there once torch is.
    class ItemEncoder(torch.nn.Module):
        def __init__(self, sage, hidden, out):
            super().__init__()
            self.conv1, self.conv2 = sage(-1, hidden), sage(hidden, hidden)
            self.lin = torch.nn.Linear(hidden, out)

        def forward(self, items, item_to_item):
            return self.lin(self.conv2(self.conv1(items, item_to_item).relu(), item_to_item).relu())

    class UserEncoder(torch.nn.Module):
        def __init__(self, sage, hidden, out):
            super().__init__()
            self.conv1, self.conv2, self.conv3 = (sage((-1, -1), hidden) for _ in range(3))
            self.lin = torch.nn.Linear(hidden, out)

        def forward(self, users, items, item_to_item, item_to_user):
            users = self.conv2((items, users), item_to_user).relu()
            return self.lin(self.conv3((self.conv1(items, item_to_item).relu(), users), item_to_user).relu())

    class Decoder(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.lin1, self.lin2 = torch.nn.Linear(2 * width, width), torch.nn.Linear(width, 1)

        def forward(self, pairs):
            return self.lin2(self.lin1(pairs).relu()).view(-1)

    return torch.nn.ModuleDict(
        {
            "item_encoder": ItemEncoder(sage, hidden, out),
            "user_encoder": UserEncoder(sage, hidden, out),
            "decoder": Decoder(out),
        }
    )


def run_links():
    """One training step of the modules of PyG's examples/multi_gpu/taobao.py, written anew, in float64 on a whole
    graph: fan-out -1. User 3 and item 4 have no edge, user 0 has one edge twice. Parameters, and the gradients and
    values that Adam's first step leaves, are one vector each, in the order of state_dict()."""
    from torch_geometric.nn import SAGEConv

    users, items, width_of_users, width_of_items, hidden, out = 6, 8, 5, 9, 7, 4
    user_to_item = np.array(
        [[0, 0, 0, 1, 1, 1, 2, 2, 4, 4, 4, 5, 5, 5, 5], [1, 1, 6, 0, 2, 7, 3, 1, 5, 6, 2, 0, 3, 7, 1]], dtype=np.int64
    )
    half = np.array([[0, 0, 1, 1, 2, 3, 5], [2, 7, 3, 6, 7, 7, 6]], dtype=np.int64)
    item_to_item = np.concatenate([half, half[::-1]], axis=1)
    positives = user_to_item[:, [0, 3, 6, 8, 11, 14]]
    negatives = np.array([[3, 0, 5, 2, 1, 0], [2, 4, 6, 0, 1, 7]], dtype=np.int64)
    links = np.concatenate([positives, negatives], axis=1)
    labels = torch.cat([torch.ones(6), torch.zeros(6)]).double()

    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    modules = make_link_modules(SAGEConv, hidden, out)
    tables = {"user": torch.randn(users, width_of_users), "item": torch.randn(items, width_of_items)}
    x = {name: table.requires_grad_() for name, table in tables.items()}
    to_users, to_items = (torch.from_numpy(np.ascontiguousarray(e)) for e in (user_to_item[::-1], item_to_item))

    def forward():
        z_items = modules["item_encoder"](x["item"], to_items)
        z_users = modules["user_encoder"](x["user"], x["item"], to_items, to_users)
        return modules["decoder"](torch.cat([z_users[links[0]], z_items[links[1]]], dim=-1))

    forward()  # gives the lazy layers their widths

    def vector(of):
        return torch.cat([of(p).detach().reshape(-1) for p in modules.parameters()])

    with open(os.path.join(HERE, "pyg_links.names.txt"), "w", encoding="utf-8") as file:
        file.writelines(f"{name}\n" for name in modules.state_dict())
    save("pyg_links.user_to_item", user_to_item)
    save("pyg_links.item_to_item", item_to_item)
    save("pyg_links.links", links)
    save("pyg_links.x_user", x["user"])
    save("pyg_links.x_item", x["item"])
    save("pyg_links.parameters", vector(lambda p: p))
    optimizer = torch.optim.Adam(modules.parameters(), lr=0.001)
    logits = forward()
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)
    loss.backward()
    optimizer.step()
    save("pyg_links.logits", logits)
    save("pyg_links.loss", loss.reshape(1))
    save("pyg_links.gradients", vector(lambda p: p.grad))
    save("pyg_links.grad_user", x["user"].grad)
    save("pyg_links.grad_item", x["item"].grad)
    save("pyg_links.stepped", vector(lambda p: p))


if __name__ == "__main__":
    made_by = {"dgl": run_dgl, "pyg": run_pyg, "links": run_links}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", choices=made_by, help="whose layers compute")
    made_by[parser.parse_args().library]()
