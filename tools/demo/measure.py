"""What the operator costs on the warm two-node cluster: `kubectl apply` -> first training step, and resident memory.

usage: measure.py [--runs N] [--preset PRESET]

Prints one JSON object. A job of two pods with one rank each is applied N times, after one that is not counted, which unpacks
the image on both nodes. The clock starts before kubectl does; the step is seen in /progress of node 0's agent, asked every
20 ms from the pod's own network, so that neither the controller nor Prometheus stands between.
"""

import argparse
import ctypes
import json
import os
import statistics
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from installation import Installation

NAMESPACE = "measure"
CLONE_NEWNET = 0x40000000


def job(name, image):
    return {
        "apiVersion": "gnn.dev/v1alpha1", "kind": "GNNJob", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "task": {"type": "NodeClassification"},
            "dataset": {"format": "Synthetic", "synthetic": {"shape": "Arxiv", "scale": "0.05", "seed": 1}},
            "model": {"type": "GraphSAGE", "graphSage": {"layers": 2, "hiddenChannels": 64}},
            "sampling": {"fanout": [10, 10]},
            "training": {"device": "CPU", "epochs": 20, "batchSize": 64},
            "workers": {"nodes": 2, "processesPerNode": 1, "template": {"image": image, "imagePullPolicy": "Never"}},
        },
    }


def processes(program, subcommand, variable=""):
    """Process ids of a program; the nodes' processes are this machine's. An agent starts its ranks as /proc/self/exe."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if not entry.name.isdigit() or not os.readlink(entry / "exe").endswith(f"/{program}"):
                continue
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if arguments[1:2] == [subcommand.encode()] and (not variable or variable.encode() in variables):
            found.append(int(entry.name))
    return found


def resident_mebibytes(pid):
    for line in (Path("/proc") / str(pid) / "status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def step_of(agent):
    """The step that an agent reports, asked from its pod's network; 0 while it does not answer."""
    try:
        with open(f"/proc/{agent}/ns/net", "rb") as network:
            if ctypes.CDLL(None).setns(network.fileno(), CLONE_NEWNET) != 0:
                return 0
        with urllib.request.urlopen("http://127.0.0.1:9400/progress", timeout=1) as answer:
            return json.loads(answer.read()).get("globalStep", 0)
    except (OSError, urllib.error.URLError, ValueError):
        return 0


def first_agent(name):
    second = set(processes("gnn-worker", "agent", "GNN_NODE_RANK=1"))
    return next((pid for pid in processes("gnn-worker", "agent", f"GNN_JOB={name}") if pid not in second), None)


def once(cluster, name):
    """Seconds from apply to the first step and to the end."""
    manifest = json.dumps(job(name, cluster.images["worker"]))
    started = time.monotonic()
    cluster.kubectl("apply", "-f", "-", stdin=manifest)
    with ThreadPoolExecutor(max_workers=1) as pod_network:  # a thread of its own changes networks
        agent = cluster.wait("the agent of node 0", lambda: first_agent(name), 60)
        while pod_network.submit(step_of, agent).result() < 1:
            if time.monotonic() - started > 120:
                raise TimeoutError(f"{name}: no step within two minutes")
            time.sleep(0.02)
    seconds = time.monotonic() - started
    finished = cluster.wait_finished(name, NAMESPACE, 300)
    complete = time.monotonic() - started
    if not cluster.holds(finished, "Complete"):
        raise RuntimeError(json.dumps(finished["status"]))
    return {"firstStepSeconds": seconds, "completeSeconds": complete}


def memory(cluster, name):
    """Resident MiB of the agents and ranks of a job in the midst of training."""
    cluster.apply(job(name, cluster.images["worker"]))
    cluster.wait_step(name, NAMESPACE, 40, 120)
    agents = [resident_mebibytes(pid) for pid in processes("gnn-worker", "agent", f"GNN_JOB={name}")]
    ranks = [resident_mebibytes(pid) for pid in processes("gnn-worker", "rank", f"GNN_JOB={name}")]
    controllers = [resident_mebibytes(pid) for pid in processes("gnn-controller", "run")]
    cluster.wait_finished(name, NAMESPACE, 300)
    return {
        "workerPodMiB": (sum(agents) + sum(ranks)) / max(1, len(agents)), "agentMiB": max(agents, default=0.0),
        "rankMiB": max(ranks, default=0.0), "controllerMiB": max(controllers, default=0.0),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=7, help="jobs to measure (default 7)")
    parser.add_argument("--preset", default="release", help="CMake preset of the images' programs (default release)")
    options = parser.parse_args()
    cluster = Installation("measure")
    cluster.build_images(options.preset)
    try:
        cluster.up()
        cluster.load_images()
        cluster.install()
        cluster.apply({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
        })
        once(cluster, "unpack")
        runs = [once(cluster, f"run-{number}") for number in range(options.runs)]
        first_steps = [run["firstStepSeconds"] for run in runs]
        print(json.dumps({
            "applyToFirstStepSeconds": {
                "p50": statistics.median(first_steps), "least": min(first_steps), "most": max(first_steps), "runs": len(runs),
            },
            "applyToCompleteSecondsP50": statistics.median(run["completeSeconds"] for run in runs),
            "resident": memory(cluster, "memory"),
        }, indent=2))
    finally:
        cluster.down()


if __name__ == "__main__":
    main()
