"""What the baselines' scripts share: arguments, timing and the line of JSON that they print."""

import argparse
import json
import os
import time

import numpy as np


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--graph", required=True)
    parser.add_argument("--mode", choices=("sample", "gather", "train"), required=True)
    parser.add_argument("--fanout", required=True, help="hop next to the seeds first, e.g. 15,10,5")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--batches", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parsed = parser.parse_args()
    parsed.fanout = [int(number) for number in parsed.fanout.split(",")]
    return parsed


def load(directory, name):
    import torch

    return torch.from_numpy(np.load(os.path.join(directory, name + ".npy")))


def measure(baseline, args, batches, step):
    """`step(batch)` uses one batch and returns (sampled edges, input nodes). Two batches warm up."""
    edges = nodes = count = 0
    start = cpu_start = None
    for index, batch in enumerate(batches):
        batch_edges, batch_nodes = step(batch)
        if index < 2:
            # Before the third batch is requested: its sampling counts too.
            start, cpu_start = time.perf_counter(), time.process_time()
            continue
        edges += batch_edges
        nodes += batch_nodes
        count += 1
        if count == args.batches:
            break
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    print(
        json.dumps(
            {
                "baseline": baseline,
                "mode": args.mode,
                "threads": args.threads,
                "batches": count,
                "edges": edges,
                "input_nodes": nodes,
                "seconds": round(seconds, 4),
                "cpu_seconds": round(cpu_seconds, 4),
            }
        )
    )


class Trainer:
    """A model with the optimizer and loss of DGL's "Multi-GPU node classification" tutorial."""

    def __init__(self, model):
        import torch

        self.torch = torch
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        model.train()

    def step(self, labels, *inputs):
        functional = self.torch.nn.functional
        loss = functional.cross_entropy(self.model(*inputs)[: len(labels)], labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()
