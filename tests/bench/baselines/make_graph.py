"""Writes a graph as .npy files that every baseline and our own driver read: indptr (int64), indices (int32),
features (float32), labels (int64), seeds (int64). In-degrees follow a power law with the stated mean; a node is a
source as often as a destination, as in a symmetric graph. A function of its arguments alone.

    make_graph.py products|arxiv OUTPUT [--scale 1.0]
"""

import argparse
import os

import numpy as np

# nodes, directed edges (both directions of each), features, classes, training seeds
SHAPES = {
    "products": (2_449_029, 123_718_280, 100, 47, 196_615),
    "arxiv": (169_343, 2_315_598, 128, 40, 90_941),
}


def power_law_degrees(rng, nodes, edges, exponent=2.2, largest=20_000):
    degrees = np.minimum((1.0 - rng.random(nodes)) ** (-1.0 / (exponent - 1.0)), largest)
    degrees = np.maximum(1, np.floor(degrees * (edges / degrees.sum()))).astype(np.int64)
    # The rounding error goes to nodes drawn at random.
    difference = edges - int(degrees.sum())
    np.add.at(degrees, rng.integers(0, nodes, abs(difference)), np.sign(difference))
    return np.maximum(degrees, 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("output")
    parser.add_argument("--scale", type=float, default=1.0)
    arguments = parser.parse_args()
    nodes, edges, features, classes, seeds = SHAPES[arguments.shape]
    nodes, edges, seeds = (int(n * arguments.scale) for n in (nodes, edges, seeds))
    rng = np.random.Generator(np.random.PCG64(7))
    degrees = power_law_degrees(rng, nodes, edges)
    indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
    indices = np.repeat(np.arange(nodes, dtype=np.int32), degrees)
    rng.shuffle(indices)
    os.makedirs(arguments.output, exist_ok=True)
    for name, array in (
        ("indptr", indptr),
        ("indices", indices),
        ("features", rng.standard_normal((nodes, features), dtype=np.float32)),
        ("labels", rng.integers(0, classes, nodes)),
        ("seeds", rng.permutation(nodes)[:seeds].astype(np.int64)),
    ):
        np.save(os.path.join(arguments.output, name + ".npy"), array)


if __name__ == "__main__":
    main()
