#!/usr/bin/env python3
"""Makes the .npy files beside it: what DGL's and PyG's own layers compute on a tiny sampled graph.

    <peers>/graphbolt/bin/python make_parity.py dgl      DGL 2.1.0, torch 2.2.1
    <peers>/pyg/bin/python       make_parity.py pyg      PyG 2.8.1, torch 2.11.0

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


if __name__ == "__main__":
    made_by = {"dgl": run_dgl, "pyg": run_pyg}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", choices=made_by, help="whose layers compute")
    made_by[parser.parse_args().library]()
