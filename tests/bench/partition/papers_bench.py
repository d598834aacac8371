#!/usr/bin/env python3
"""Takes a part of ogbn-papers100M's shape from OGB's files to training on two nodes in bounded memory; one JSON line a step.

    tests/bench/partition/papers_bench.py --worker build/bench/worker/main/gnn-worker [--scale 0.1] [--folder DIR] [--only train]

generate (OGB's npz) and import have --memory each, partition has --partition-memory; the peak is the largest resident set of
the process, pages of mapped files included. Training is --steps steps of two nodes with a rank each, which hold a part's
topology and features alone, both in one cgroup (v1) of --train-memory. Needs root for that. At scale 0.1 it takes 11 GB of
disk for a while. --only goes on with the folder of an earlier run, which --keep has left there.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measured import run

JOB = """
apiVersion: gnn.dev/v1alpha1
kind: GNNJob
metadata: {{name: papers}}
spec:
  task: {{type: NodeClassification}}
  dataset: {{format: Native, path: {data}}}
  model: {{type: GraphSAGE, graphSage: {{layers: 3, hiddenChannels: 256}}}}
  sampling: {{fanout: [15, 10, 5], numThreads: 1}}
  training: {{device: CPU, epochs: 1, batchSize: {batch}, logSteps: 1, optimizer: {{type: Adam, learningRate: "0.003"}}}}
  placement: {{topology: Partitioned, features: Partitioned, partitions: 2, cache: {{rows: "0.05", policy: Hotness}}}}
  workers: {{nodes: 2, processesPerNode: 1}}
"""
STEP = re.compile(r"Step (\d+) \|")
CGROUPS = Path("/sys/fs/cgroup/memory")


def size_of(folder):
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


def step(arguments, name, memory, options, output):
    _, figures = run([arguments.worker, "data", name, *options, "--memory", memory, "--output", str(output)])
    print(json.dumps({"step": name, "memory": memory, **figures, "outputGB": round(size_of(output) / 1e9, 2)}), flush=True)


@contextlib.contextmanager
def cgroup(limit):
    """A cgroup of so much memory, page cache included."""
    folder = CGROUPS / f"gnn-bench-{os.getpid()}"
    folder.mkdir()
    try:
        (folder / "memory.limit_in_bytes").write_text(limit)
        yield folder
    finally:
        for _ in range(100):
            with contextlib.suppress(OSError):
                folder.rmdir()
                break
            time.sleep(0.1)


def memory_of(group, peaks):
    """Raises the peaks of the group's processes, by name of what they are."""
    for pid in (group / "cgroup.procs").read_text().split():
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().decode().replace("\0", " ")
            status = Path(f"/proc/{pid}/status").read_text()
            kinds = {kind: int(kib) / 1024 for kind, kib in re.findall(r"(RssAnon|RssFile|RssShmem):\s+(\d+) kB", status)}
            of_process = peaks.setdefault(pid, {"command": command[:60]})
            for kind, mib in kinds.items():
                of_process[kind] = max(of_process.get(kind, 0), round(mib))


def forget(folder):
    """Drops a folder's files from the page cache, where they belong to the cgroup that read them first."""
    os.sync()
    for path in Path(folder).iterdir():
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def train(arguments, data):
    forget(data)
    with tempfile.TemporaryDirectory() as folder, cgroup(arguments.train_memory) as group:
        job = Path(folder) / "job.yaml"
        job.write_text(JOB.format(data=data, batch=arguments.batch_size))
        join = f'echo $$ > {group}/cgroup.procs; exec "$@"'
        start = time.monotonic()
        process = subprocess.Popen(
            ["bash", "-c", join, "bash", arguments.worker, "run", str(job)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        peaks, times, lines = {}, [], []
        for line in process.stdout:
            lines.append(line)
            memory_of(group, peaks)
            if STEP.search(line):
                times.append(time.monotonic())
                if len(times) > arguments.steps:
                    os.killpg(process.pid, signal.SIGTERM)
                    break
        process.stdout.read()
        process.wait()
        if len(times) < 2:
            sys.exit("".join(lines))
        usage = int((group / "memory.max_usage_in_bytes").read_text())
        print(
            json.dumps(
                {
                    "step": "train",
                    "secondsToFirstStep": round(times[0] - start, 1),
                    "steps": len(times) - 1,
                    "secondsPerStep": round((times[-1] - times[0]) / (len(times) - 1), 3),
                    "lastLine": lines[-1].strip()[:200],
                    "dataGB": round(size_of(data) / 1e9, 2),
                    "limit": arguments.train_memory,
                    "peakMiB": round(usage / (1 << 20)),
                    "processesMiB": sorted(
                        (each for each in peaks.values() if each.get("RssAnon", 0) > 60), key=lambda each: each["RssAnon"]
                    ),
                }
            ),
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", required=True, help="gnn-worker to run")
    parser.add_argument("--folder", help="where data sets are made (default: a temporary folder)")
    parser.add_argument("--scale", default="0.1")
    parser.add_argument("--memory", default="1GiB", help="of generate and import each")
    parser.add_argument("--partition-memory", default="3GiB", help="of partition, which holds some 50 bytes a node")
    parser.add_argument("--method", default="hotness")
    parser.add_argument("--train-memory", default="8G", help="of both nodes, as the cgroup's file takes it")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=50, help="steps that are timed, after the first")
    parser.add_argument("--only", nargs="+", default=["generate", "import", "partition", "train"])
    parser.add_argument("--keep", action="store_true", help="leave the data sets where they are")
    arguments = parser.parse_args()
    arguments.worker = os.path.abspath(arguments.worker)
    folder = Path(arguments.folder or tempfile.mkdtemp()).absolute()
    folder.mkdir(exist_ok=True)
    raw, whole, parts = (folder / name for name in ("papers-ogb", "papers", "papers-2"))
    half = ["--feature-dtype", "float16"]
    try:
        if "generate" in arguments.only:
            shape = ["--shape", "ogbn-papers100M", "--scale", arguments.scale, "--form", "ogb-npz", *half]
            step(arguments, "generate", arguments.memory, shape, raw)
        if "import" in arguments.only:
            step(arguments, "import", arguments.memory, ["--format", "ogb", "--input", str(raw), *half], whole)
            if not arguments.keep:
                shutil.rmtree(raw)
        if "partition" in arguments.only:
            draws = ["--fanout", "15,10,5", "--batch-size", str(arguments.batch_size)]
            method = ["--input", str(whole), "--parts", "2", "--method", arguments.method]
            step(arguments, "partition", arguments.partition_memory, [*method, *draws], parts)
            if not arguments.keep:
                shutil.rmtree(whole)
        if "train" in arguments.only:
            train(arguments, parts)
    finally:
        if not arguments.keep:
            for each in (raw, whole, parts):
                shutil.rmtree(each, ignore_errors=True)


if __name__ == "__main__":
    main()
