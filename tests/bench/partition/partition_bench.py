#!/usr/bin/env python3
"""Partitions a generated graph of ogbn-products' shape by each method and at each memory budget; prints one JSON line a run.

Seconds are those of the whole command, with its report; peak is the most memory that it held, pages of mapped files included.
"""

import argparse
import json
import shutil
import tempfile
from pathlib import Path

from measured import run


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker", required=True, help="gnn-worker to run")
    parser.add_argument("--folder", help="where data sets are made (default: a temporary folder)")
    parser.add_argument("--shape", default="ogbn-products")
    parser.add_argument("--scale", default="1")
    parser.add_argument("--parts", default="4")
    parser.add_argument("--methods", nargs="+", default=["hotness", "ldg"])
    parser.add_argument("--memory", nargs="+", default=["1GiB", "4GiB"])
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        whole = str(Path(folder) / "whole")
        parts = str(Path(folder) / "parts")
        run([arguments.worker, "data", "generate", "--shape", arguments.shape, "--scale", arguments.scale, "--output", whole])
        for method in arguments.methods:
            for memory in arguments.memory:
                output, took = run(
                    [
                        arguments.worker,
                        "data",
                        "partition",
                        "--input",
                        whole,
                        "--output",
                        parts,
                        "--parts",
                        arguments.parts,
                        "--method",
                        method,
                        "--fanout",
                        "15,10,5",
                        "--batch-size",
                        "1024",
                        "--memory",
                        memory,
                        "--json",
                    ]
                )
                report = json.loads(output)
                print(
                    json.dumps(
                        {
                            "method": method,
                            "memory": memory,
                            "seconds": took["seconds"],
                            "peakMiB": took["peakMiB"],
                            "cut": report["cut"],
                            "localShare": report["localShare"],
                            "hitRates": {entry["rows"]: entry["hitRate"] for entry in report["hitRates"]},
                        }
                    ),
                    flush=True,
                )
                shutil.rmtree(parts)


if __name__ == "__main__":
    main()
