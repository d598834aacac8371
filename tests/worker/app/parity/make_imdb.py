#!/usr/bin/env python3
"""Makes dgl_imdb.json beside it: what DGL's GIN reaches on IMDB-BINARY, by the splits and settings of our samples.

    <peers>/graphbolt/bin/python make_imdb.py .../IMDBBINARY.txt [PROTOCOL ...]     DGL 2.1.0, torch 2.2.1

tests/bench/baselines/run makes the environment. Protocols:
    tutorial      imdb-gin.yaml: the model of DGL's tutorial "Multi-GPU graph classification" in one process, each seed with
                  a split and initial parameters of its own
    folds         imdb-gin-folds.yaml, each fold with initial parameters of its own
    whole-batch   both models, one step an epoch on all training graphs, without dropout: no random numbers but those of the
                  split and the initial parameters; the folds' model by SGD
"""

import argparse
import hashlib
import json
import os
import sys

import dgl
import numpy as np
import torch
from dgl.data.utils import split_dataset
from dgl.dataloading import GraphDataLoader
from dgl.nn.pytorch import GINConv, SumPooling
from torch import nn
from torch.nn import functional

OUTPUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "dgl_imdb.json")
SEEDS, FOLDS = 400, 10
BATCH_SIZE, LEARNING_RATE = 32, 0.01
TUTORIAL_EPOCHS, FOLDS_EPOCHS = 5, 40
WHOLE_BATCH_SEEDS, SGD_LEARNING_RATE = 3, 0.00001
HIDDEN, LAYERS, DROPOUT = 64, 5, 0.5


def read_graphs(path):
    """Graphs and labels of a file in GIN's text format, without its node tags."""
    with open(path) as file:
        lines = iter(file.read().splitlines())
    graphs, classes = [], {}
    for _ in range(int(next(lines))):
        num_nodes, label = (int(word) for word in next(lines).split())
        sources, destinations = [], []
        for node in range(num_nodes):
            neighbours = [int(word) for word in next(lines).split()][2:]
            sources += [node] * len(neighbours)
            destinations += neighbours
        graph = dgl.graph((torch.tensor(sources), torch.tensor(destinations)), num_nodes=num_nodes)
        graphs.append((graph, classes.setdefault(label, len(classes))))
    return graphs


def degree_columns(graphs):
    return int(max(graph.in_degrees().max() for graph, _ in graphs)) + 1


def set_features(graphs, width):
    """The constant 1, or the in-degrees as one-hot rows of that width."""
    for graph, _ in graphs:
        degrees = graph.in_degrees()
        graph.ndata["attr"] = functional.one_hot(degrees, width).float() if width else torch.ones(len(degrees), 1)


class TutorialGin(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = GINConv(nn.Linear(1, 2), "sum")
        self.conv2 = GINConv(nn.Linear(2, 2), "sum")
        self.pool = SumPooling()

    def forward(self, graph, x):
        return self.pool(graph, self.conv2(graph, functional.relu(self.conv1(graph, x))))


class PaperGin(nn.Module):
    """Xu et al. 2019: layers with MLPs and batch norms, and a score of the input's and every layer's pooled output."""

    def __init__(self, width, dropout):
        super().__init__()
        self.dropout = dropout
        widths = [width] + [HIDDEN] * LAYERS
        self.convs = nn.ModuleList(
            GINConv(
                nn.Sequential(nn.Linear(size, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN)), "sum"
            )
            for size in widths[:-1]
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(HIDDEN) for _ in range(LAYERS))
        self.scores = nn.ModuleList(nn.Linear(size, 2) for size in widths)
        self.pool = SumPooling()

    def forward(self, graph, x):
        outputs = [x]
        for conv, norm in zip(self.convs, self.norms, strict=True):
            outputs.append(functional.relu(norm(conv(graph, outputs[-1]))))
        pooled = [self.pool(graph, h) for h in outputs]
        return sum(
            functional.dropout(score(sums), self.dropout, self.training) for score, sums in zip(self.scores, pooled, strict=True)
        )


def train_epoch(model, optimizer, items, batch_size=BATCH_SIZE):
    """The last batch's loss."""
    model.train()
    for graph, labels in GraphDataLoader(items, batch_size=batch_size, shuffle=True):
        loss = functional.cross_entropy(model(graph, graph.ndata["attr"]), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


@torch.no_grad()
def count_correct(model, items):
    model.eval()
    return sum(
        int((model(graph, graph.ndata["attr"]).argmax(1) == labels).sum())
        for graph, labels in GraphDataLoader(items, batch_size=BATCH_SIZE)
    )


def optimizer_of(model):
    return torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)


def tutorial_split(graphs, seed):
    """Training and test set."""
    train, _, test = split_dataset(graphs, [0.8, 0.1, 0.1], shuffle=True, random_state=seed)
    return train, test


def fold_split(graphs, fold, seed):
    """Training and test set, as worker/data/split.cpp deals them."""
    order = np.random.RandomState(seed).permutation(len(graphs))
    order = order[np.argsort([graphs[i][1] for i in order], kind="stable")]
    held_out = np.arange(len(order)) % FOLDS == fold
    return tuple([graphs[i] for i in order[part]] for part in (~held_out, held_out))


def run_tutorial(graphs):
    set_features(graphs, 0)
    correct = []
    for seed in range(SEEDS):
        train, test = tutorial_split(graphs, seed)
        torch.manual_seed(seed)
        model = TutorialGin()
        optimizer = optimizer_of(model)
        for _ in range(TUTORIAL_EPOCHS):
            train_epoch(model, optimizer, train)
        correct.append(count_correct(model, test))
    return {"epochs": TUTORIAL_EPOCHS, "total": len(test), "correctBySeed": correct}


def run_folds(graphs):
    """Each fold's correct answers after every epoch."""
    width = degree_columns(graphs)
    set_features(graphs, width)
    correct = []
    for fold in range(FOLDS):
        train, test = fold_split(graphs, fold, 0)
        torch.manual_seed(fold)
        model = PaperGin(width, DROPOUT)
        optimizer = optimizer_of(model)
        correct.append([])
        for _ in range(FOLDS_EPOCHS):
            train_epoch(model, optimizer, train)
            correct[-1].append(count_correct(model, test))
    return {"epochs": FOLDS_EPOCHS, "total": len(test), "correctByFoldAndEpoch": correct}


def run_whole_batch(graphs):
    def losses(model, optimizer, train, epochs):
        return [train_epoch(model, optimizer, train, len(train)) for _ in range(epochs)]

    results = {"tutorialLossBySeedAndEpoch": [], "foldsLossBySeedAndEpoch": []}
    width = degree_columns(graphs)
    for seed in range(WHOLE_BATCH_SEEDS):
        set_features(graphs, 0)
        torch.manual_seed(seed)
        model = TutorialGin()
        train, _ = tutorial_split(graphs, seed)
        results["tutorialLossBySeedAndEpoch"].append(losses(model, optimizer_of(model), train, 30))
        set_features(graphs, width)
        torch.manual_seed(seed)
        model = PaperGin(width, 0)
        train, _ = fold_split(graphs, 0, seed)
        # Adam would turn the rounding errors of gradients near 0 into steps of the learning rate.
        optimizer = torch.optim.SGD(model.parameters(), lr=SGD_LEARNING_RATE)
        results["foldsLossBySeedAndEpoch"].append(losses(model, optimizer, train, 5))
    return results


def write(results):
    """One line per protocol."""
    lines = ",\n".join(f'"{protocol}": {json.dumps(result)}' for protocol, result in results.items())
    with open(OUTPUT, "w") as file:
        file.write("{\n" + lines + "\n}\n")


def main():
    protocols = {"tutorial": run_tutorial, "folds": run_folds, "whole-batch": run_whole_batch}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="IMDBBINARY.txt in GIN's text format")
    parser.add_argument("protocols", nargs="*", help="all without any")
    arguments = parser.parse_args()
    unknown = set(arguments.protocols) - set(protocols)
    if unknown:
        parser.error(f"unknown protocol: {', '.join(sorted(unknown))}")
    results = {}
    if os.path.exists(OUTPUT):
        with open(OUTPUT) as file:
            results = json.load(file)
    with open(arguments.data, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    torch.set_num_threads(1)
    for protocol in arguments.protocols or protocols:
        results[protocol] = protocols[protocol](read_graphs(arguments.data))
        results[protocol]["origin"] = {
            "command": f"make_imdb.py IMDBBINARY.txt {protocol}",
            "dgl": dgl.__version__, "torch": torch.__version__, "numpy": np.__version__,
            "python": sys.version.split()[0], "dataSha256": digest,
        }
        write(results)


if __name__ == "__main__":
    main()
