#!/usr/bin/env python3
"""Reads a job's TensorBoard files by TensorBoard's own code, and holds them against the lines of gnn-worker.

    gnn-worker run JOB.yaml --set tracking.tensorBoard.path=RUNS --log-format json > lines.json
    <env>/bin/python tests/bench/peers/events.py RUNS lines.json

requirements/trackers.txt has the packages. Every step and epoch of the lines must be there, once, with its values (to
float32). Given several files of lines, of one job's attempts, a later one's steps take the place of an earlier one's.
"""

import argparse
import json
import math
import sys
from pathlib import Path

from tensorboard.backend.event_processing import event_accumulator


def expected_scalars(files):
    """What the lines say: (tag, step) -> value."""
    expected = {}
    for file in files:
        lines = [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]
        start, scalars, steps = None, {}, 0
        for line in lines:
            if line["event"] == "step":
                steps = line["globalStep"] + 1
                scalars["step/loss", steps] = line["loss"]
                scalars["step/learning_rate", steps] = line["learningRate"]
            elif line["event"] == "epoch":
                steps = (line["epoch"] + 1) * line["steps"]
                scalars["epoch/loss", steps] = line["averageLoss"]
                for part, tag in {"train": "train", "validation": "validation", "test": "test"}.items():
                    if part in line:
                        scalars[f"{tag}/{line[part]['metric']}", steps] = line[part]["value"]
            elif line["event"] == "final" and not line["preempted"]:
                for name, value in line["metrics"].items():
                    scalars[f"final/{name}", line["globalSteps"]] = value
            if start is None and scalars:
                start = steps
        expected = {key: value for key, value in expected.items() if key[1] < start} | scalars
    return expected


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("runs", type=Path, help="folder of spec.tracking.tensorBoard")
    parser.add_argument("lines", nargs="+", help="output of gnn-worker --log-format json --log-steps 1, in the order of attempts")
    arguments = parser.parse_args()
    folders = list(arguments.runs.iterdir())
    if len(folders) != 1:
        sys.exit(f"expected one job's folder in {arguments.runs}, found {len(folders)}")
    board = event_accumulator.EventAccumulator(str(folders[0]), size_guidance={event_accumulator.SCALARS: 0})
    board.Reload()
    found = {}
    for tag in board.Tags()["scalars"]:
        for event in board.Scalars(tag):
            if (tag, event.step) in found:
                sys.exit(f"{tag} of step {event.step} is there twice")
            found[tag, event.step] = event.value
    expected = expected_scalars(arguments.lines)
    wrong = [
        f"{tag} of step {step}: expected {value}, found {found.get((tag, step))}"
        for (tag, step), value in expected.items()
        if not math.isclose(found.get((tag, step), math.nan), value, rel_tol=1e-6, abs_tol=1e-12)
    ]
    if wrong or not expected:
        sys.exit("\n".join(wrong) or "the lines have no step and no epoch")
    print(f"{len(expected)} scalars of the lines are there; {len(found)} in all, of {len(board.Tags()['scalars'])} tags")


if __name__ == "__main__":
    main()
