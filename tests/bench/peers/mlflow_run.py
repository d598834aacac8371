#!/usr/bin/env python3
"""Runs a job that tells a real MLflow server, and holds what MLflow has of it against the lines of gnn-worker.

    <env>/bin/python tests/bench/peers/mlflow_run.py build/dev/worker/main/gnn-worker manifests/samples/arxiv-tracked.yaml --set …

requirements/trackers.txt has the packages. The server keeps its data in a temporary folder. Fails unless the run is FINISHED,
has the job's parameters, and every value of the lines (infinite ones and NaN aside) at its step, once.
"""

import argparse
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from events import expected_scalars
from mlflow import MlflowClient

EXPERIMENT = "peers & co"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """`mlflow server` on a port of its own, until the end of the block."""

    def __init__(self, folder):
        port = free_port()
        self.uri = f"http://127.0.0.1:{port}"
        command = [
            str(Path(sys.executable).parent / "mlflow"), "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
            "--backend-store-uri", f"sqlite:///{folder}/runs.db", "--artifacts-destination", f"{folder}/artifacts",
        ]
        environment = os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true"}
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        port = int(self.uri.rpartition(":")[2])
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return self
            time.sleep(0.5)
        sys.exit("the MLflow server did not start within 120 s")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=30)


def metric_name(tag):
    """As MLflow knows it."""
    return "".join(sign if sign.isalnum() or sign in "_-./ " else "_" for sign in tag)


def problems_of(client, lines):
    runs = client.search_runs([client.get_experiment_by_name(EXPERIMENT).experiment_id])
    if len(runs) != 1:
        return [f"expected one run, found {len(runs)}"]
    run = runs[0]
    found = [] if run.info.status == "FINISHED" else [f"the run is {run.info.status}"]
    if run.data.params.get("task.type") is None or "gnn.dev/job-uid" not in run.data.tags:
        found.append(f"parameters or tags are missing: {run.data.params} {run.data.tags}")
    history = {}
    for name in run.data.metrics:
        for metric in client.get_metric_history(run.info.run_id, name):
            history.setdefault((name, metric.step), []).append(metric.value)
    for (tag, step), value in expected_scalars([lines]).items():
        values = history.get((metric_name(tag), step), [])
        if math.isfinite(value) and values != [value]:
            found.append(f"{tag} of step {step}: expected {value}, found {values}")
    print(f"{len(history)} values of {len(run.data.metrics)} metrics, {len(run.data.params)} parameters")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("worker", help="the program gnn-worker")
    parser.add_argument("manifest", help="a GNNJob (YAML)")
    parser.add_argument("--set", action="append", default=[], help="field=value, as of gnn-worker run")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Server(folder) as server:
        fields = [*arguments.set, f"tracking.mlflow.uri={server.uri}", f"tracking.mlflow.experiment={EXPERIMENT}"]
        command = [arguments.worker, "run", arguments.manifest, "--log-format", "json", "--log-steps", "1"]
        for field in fields:
            command += ["--set", field]
        lines = Path(folder) / "lines.json"
        with lines.open("w", encoding="utf-8") as output:
            subprocess.run(command, stdout=output, check=True, timeout=600)
        wrong = problems_of(MlflowClient(server.uri), lines)
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
