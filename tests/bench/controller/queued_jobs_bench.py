#!/usr/bin/env python3
"""Two jobs of which one fits at a time, on the two-node cluster with the real Kueue: how long they take in their queue, beside
the sum of what two such jobs take without a queue, each alone.

A job's time is from its `kubectl apply` until its status says Complete. One of the two that run alone does so before the queue is
used, and one after. What happens in between is seen by watches, each of which is a kubectl. The programs are those that
a preset has built.
"""

import argparse
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path += [str(ROOT / "tools/demo"), str(ROOT / "tests/e2e")]

import kueue_cluster  # noqa: E402
from installation import Installation  # noqa: E402
from kueue_cluster import NAMESPACE, QUEUE  # noqa: E402

NAME = "queued-jobs-bench"


class Watch:
    """When an object's column was first seen with each of its values."""

    def __init__(self, kind, column):
        self._first = {}  # (name, value) -> seconds of the monotonic clock
        columns = f"custom-columns=NAME:.metadata.name,VALUE:{column}"
        command = [ROOT / "scripts/cluster", "--name", NAME, "kubectl", "get", kind, "-n", NAMESPACE, "--watch", "--no-headers",
                   "-o", columns]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read)

    def __enter__(self):
        self._reader.start()
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait()
        self._reader.join()

    def _read(self):
        for line in self._process.stdout:
            name, value = line.split(None, 1)
            self._first.setdefault((name, value.strip()), time.monotonic())

    def when(self, prefix, value=None):
        """The seconds at which each object whose name begins so was first seen with that value, or any."""
        return [at for (name, seen), at in self._first.items() if name.startswith(prefix) and value in (None, seen)]


def take(operator, names, labels, epochs):
    """Applies these jobs together; the seconds until all are complete."""
    began = time.monotonic()
    for name in names:
        kueue_cluster.submit(operator, name, labels, epochs=epochs)
    for name in names:
        operator.kubectl("wait", f"gnnjob/{name}", "-n", NAMESPACE, "--for=condition=Complete", "--timeout=1200s")
    return time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="dev", help="whose gnn-controller and gnn-worker the images have")
    parser.add_argument("--epochs", type=int, default=150, help="of each job")
    arguments = parser.parse_args()
    operator = Installation(NAME)
    operator.down()
    try:
        kueue_cluster.start(operator, arguments.preset)
        measure(operator, arguments.epochs)
    finally:
        operator.down()


def measure(operator, epochs):
    take(operator, ["unpacks"], {}, 1)  # the image, on both nodes
    alone = [take(operator, ["before"], {}, epochs)]
    admitted = '.status.conditions[?(@.type=="Admitted")].status'
    finished = '.status.conditions[?(@.type=="Finished")].status'
    workloads = "workloads.kueue.x-k8s.io"
    ended = ".status.containerStatuses[0].state.terminated.exitCode"
    with Watch(workloads, admitted) as admissions, Watch(workloads, finished) as ends, Watch("pods", ended) as pods:
        queued = take(operator, ["one", "two"], QUEUE, epochs)
    alone.append(take(operator, ["after"], {}, epochs))
    print("alone, one after the other: " + " + ".join(f"{each:.1f}" for each in alone) + f" = {sum(alone):.1f} s")
    print(f"together in the queue: {queued:.1f} s; ratio {queued / sum(alone):.3f}")
    finished = min(ends.when("gnnjob-one-", "True"))
    for job in ("one", "two"):
        say(f"{job}: admitted -> first pod", min(pods.when(f"{job}-")) - min(admissions.when(f"gnnjob-{job}-", "True")))
    say("one: last container ended -> Workload finished", finished - max(pods.when("one-", "0")))
    say("one's Workload finished -> two admitted", min(admissions.when("gnnjob-two-", "True")) - finished)


def say(what, seconds):
    print(f"{what}: {1000 * seconds:.0f} ms")


if __name__ == "__main__":
    main()
