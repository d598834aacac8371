#!/usr/bin/env python3
"""Loads exported models into modules of DGL or PyG and compares their logits with ours.

    build/bench/tests/bench/peers/gnn-exported-models FOLDER
    <dgl>/bin/python tests/bench/peers/compare_logits.py DGL FOLDER
    <pyg>/bin/python tests/bench/peers/compare_logits.py PyG FOLDER

requirements/ has the packages of both environments (DGL: first dgl.txt, then dgl-no-deps.txt with --no-deps). Every file
is loaded by safetensors' own reader, with strict load_state_dict(). Prints a row of a table for each model: the largest
absolute difference of two logits, and the largest logit. Fails if a difference is above 1e-5 of that.
"""

import argparse
import itertools
import os
import sys

import torch
from safetensors.torch import load_file
from torch import nn

CHANNELS, HIDDEN, CLASSES = 17, 32, 5
MODELS = ["graphsage-dgl", "graphsage-pyg", "gcn", "gin-tutorial", "gin", "graphsage-link", "bipartite"]
WITHOUT_COUNTERPART = {("DGL", "gcn")}
LARGEST_DIFFERENCE = 1e-5  # of the largest logit


def edges_of(run, prefix=""):
    """Sources and destinations, from our in-edge lists."""
    indptr, indices = run[prefix + "indptr"], run[prefix + "indices"]
    return indices, torch.repeat_interleave(torch.arange(len(indptr) - 1), indptr[1:] - indptr[:-1])


def perceptron(width, out):
    return nn.Sequential(nn.Linear(width, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, out))


class DglModels:
    """The modules of DGL's tutorials and examples."""

    def __init__(self):
        import dgl
        from dgl.nn.pytorch import GINConv, SAGEConv, SumPooling

        self.dgl, self.gin_conv, self.pooling = dgl, GINConv, SumPooling
        self.sage_conv = lambda width, out: SAGEConv(width, out, "mean")
        self.lists = {"layers": "layers", "gin": "ginlayers", "norms": "batch_norms", "scores": "linear_prediction"}

    def graph(self, run):
        return self.dgl.graph(edges_of(run), num_nodes=len(run["x"]))

    def graphs(self, run):
        graph, offsets = self.graph(run), run["graph_offsets"]
        _, destinations = edges_of(run)
        graph.set_batch_num_nodes(offsets[1:] - offsets[:-1])
        graph.set_batch_num_edges(torch.bincount(torch.bucketize(destinations, offsets[1:], right=True)))
        return graph

    def bipartite(self, run):
        items = len(run["item_indptr"]) - 1
        users = len(run["user_indptr"]) - 1
        return (
            self.dgl.graph(edges_of(run, "item_"), num_nodes=items),
            self.dgl.create_block(edges_of(run, "user_"), num_src_nodes=items, num_dst_nodes=users),
        )

    @staticmethod
    def convolve(conv, graph, x):
        return conv(graph, x)

    def pool(self, graph, h):
        return self.pooling()(graph, h)

    def gin_layer(self, network, learn_eps):
        return self.gin_conv(network, "sum", learn_eps=learn_eps)


class PygModels:
    """The same of PyG's."""

    def __init__(self):
        from torch_geometric.nn import GCN, GINConv, SAGEConv, global_add_pool

        self.gcn, self.gin_conv, self.sum = GCN, GINConv, global_add_pool
        self.sage_conv = SAGEConv
        self.lists = {"layers": "convs", "gin": "convs", "norms": "norms", "scores": "lins"}

    def graph(self, run):
        return torch.stack(edges_of(run))

    def graphs(self, run):
        offsets = run["graph_offsets"]
        self.batch = torch.repeat_interleave(torch.arange(len(offsets) - 1), offsets[1:] - offsets[:-1])
        return self.graph(run)

    def bipartite(self, run):
        return torch.stack(edges_of(run, "item_")), torch.stack(edges_of(run, "user_"))

    @staticmethod
    def convolve(conv, graph, x):
        return conv(x, graph)

    def pool(self, _, h):
        return self.sum(h, self.batch)

    def gin_layer(self, network, learn_eps):
        return self.gin_conv(network, train_eps=learn_eps)


class Sage(nn.Module):
    def __init__(self, library, widths):
        super().__init__()
        self.library = library
        convs = nn.ModuleList(library.sage_conv(a, b) for a, b in itertools.pairwise(widths))
        setattr(self, library.lists["layers"], convs)

    def forward(self, graph, x):
        convs = getattr(self, self.library.lists["layers"])
        for number, conv in enumerate(convs):
            x = self.library.convolve(conv, graph, x)
            x = x if number + 1 == len(convs) else x.relu()
        return x


class TutorialGin(nn.Module):
    """One convolution and a sum: DGL's tutorial "Multi-GPU graph classification"."""

    def __init__(self, library):
        super().__init__()
        self.library = library
        conv = library.gin_layer(nn.Linear(CHANNELS, CLASSES), False)
        if isinstance(library, DglModels):
            self.conv1 = conv
        else:
            self.convs = nn.ModuleList([conv])
        self.conv = [conv]  # not registered a second time

    def forward(self, graph, x):
        return self.library.pool(graph, self.library.convolve(self.conv[0], graph, x))


class Gin(nn.Module):
    """The module of DGL's example of GIN, with the library's names."""

    def __init__(self, library, layers=3):
        super().__init__()
        self.library = library
        names = library.lists
        widths = [CHANNELS] + [HIDDEN] * layers
        gin = nn.ModuleList(library.gin_layer(perceptron(width, HIDDEN), True) for width in widths[:-1])
        setattr(self, names["gin"], gin)
        setattr(self, names["norms"], nn.ModuleList(nn.BatchNorm1d(HIDDEN) for _ in range(layers)))
        setattr(self, names["scores"], nn.ModuleList(nn.Linear(width, CLASSES) for width in widths))

    def forward(self, graph, x):
        convs, norms, scores = (getattr(self, self.library.lists[name]) for name in ("gin", "norms", "scores"))
        total = scores[0](self.library.pool(graph, x))
        for conv, norm, score in zip(convs, norms, scores[1:], strict=True):
            x = norm(self.library.convolve(conv, graph, x)).relu()
            total = total + score(self.library.pool(graph, x))
        return total


class EdgeDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin1, self.lin2 = nn.Linear(2 * HIDDEN, HIDDEN), nn.Linear(HIDDEN, 1)

    def forward(self, pairs):
        return self.lin2(self.lin1(pairs).relu()).view(-1)


class DglLinkSage(Sage):
    """Layers and a predictor in one module, as DGL's example of link prediction has them."""

    def __init__(self, library):
        super().__init__(library, [CHANNELS, HIDDEN, HIDDEN])
        self.predictor = nn.Sequential(nn.Linear(2 * HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))

    def forward(self, graph, x, sources, destinations):
        h = super().forward(graph, x)
        return self.predictor(torch.cat([h[sources], h[destinations]], dim=1)).view(-1)


class PygLinkSage(nn.Module):
    """An encoder and a decoder, as torch_geometric.nn.GAE and PyG's example for Taobao have them."""

    def __init__(self, library):
        super().__init__()
        self.encoder = Sage(library, [CHANNELS, HIDDEN, HIDDEN])
        self.decoder = EdgeDecoder()

    def forward(self, graph, x, sources, destinations):
        h = self.encoder(graph, x)
        return self.decoder(torch.cat([h[sources], h[destinations]], dim=1))


class ItemEncoder(nn.Module):
    def __init__(self, sage):
        super().__init__()
        self.conv1, self.conv2 = sage(HIDDEN, HIDDEN), sage(HIDDEN, HIDDEN)
        self.lin = nn.Linear(HIDDEN, HIDDEN)


class UserEncoder(nn.Module):
    def __init__(self, sage):
        super().__init__()
        self.conv1 = sage(HIDDEN, HIDDEN)
        self.conv2, self.conv3 = (sage((HIDDEN, HIDDEN), HIDDEN) for _ in range(2))
        self.lin = nn.Linear(HIDDEN, HIDDEN)


class Bipartite(nn.Module):
    """The modules of PyG's examples/multi_gpu/taobao.py, written anew for either library."""

    def __init__(self, library, users, items):
        super().__init__()
        self.library = library
        self.user_emb, self.item_emb = nn.Embedding(users, HIDDEN), nn.Embedding(items, HIDDEN)
        self.item_encoder, self.user_encoder = ItemEncoder(library.sage_conv), UserEncoder(library.sage_conv)
        self.decoder = EdgeDecoder()

    def forward(self, graphs, sources, destinations):
        to_items, to_users = graphs
        users, items = self.user_emb.weight, self.item_emb.weight
        convolve, item, user = self.library.convolve, self.item_encoder, self.user_encoder
        z_items = convolve(item.conv1, to_items, items).relu()
        z_items = item.lin(convolve(item.conv2, to_items, z_items).relu())
        of_items = convolve(user.conv1, to_items, items).relu()
        of_users = convolve(user.conv2, to_users, (items, users)).relu()
        z_users = user.lin(convolve(user.conv3, to_users, (of_items, of_users)).relu())
        return self.decoder(torch.cat([z_users[sources], z_items[destinations]], dim=1))


def make_model(library, name, run):
    """The module, and what its forward() takes."""
    if name.startswith("graphsage-") and name != "graphsage-link":
        return Sage(library, [CHANNELS, HIDDEN, HIDDEN, CLASSES]), (library.graph(run), run["x"])
    if name == "gcn":
        return library.gcn(CHANNELS, HIDDEN, 3, CLASSES), (run["x"], library.graph(run))
    if name.startswith("gin"):
        model = TutorialGin(library) if name == "gin-tutorial" else Gin(library)
        return model, (library.graphs(run), run["x"])
    if name == "graphsage-link":
        model = DglLinkSage(library) if isinstance(library, DglModels) else PygLinkSage(library)
        return model, (library.graph(run), run["x"], run["sources"], run["destinations"])
    users, items = len(run["user_indptr"]) - 1, len(run["item_indptr"]) - 1
    return Bipartite(library, users, items), (library.bipartite(run), run["sources"], run["destinations"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", choices=["DGL", "PyG"])
    parser.add_argument("folder", help="what gnn-exported-models wrote")
    arguments = parser.parse_args()
    library = DglModels() if arguments.library == "DGL" else PygModels()
    failed = False
    for name in MODELS:
        if (arguments.library, name) in WITHOUT_COUNTERPART:
            continue
        run = load_file(os.path.join(arguments.folder, f"{name}.run.safetensors"))
        model, inputs = make_model(library, name, run)
        model.load_state_dict(load_file(os.path.join(arguments.folder, f"{name}.{arguments.library}.safetensors")))
        model.eval()
        with torch.no_grad():
            logits = model(*inputs)
        largest = run["logits"].abs().max().item()
        difference = (logits - run["logits"]).abs().max().item()
        failed |= not difference <= LARGEST_DIFFERENCE * largest
        print(f"| {name} | {arguments.library} | {len(model.state_dict())} | {difference:.1e} | {largest:.1f} |")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
