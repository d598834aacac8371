"""Renders the chart with the pinned Helm, for generators and tests."""

import os
import subprocess
from functools import lru_cache
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts/gnn-operator"
CI_VALUES = [*sorted((CHART / "ci").glob("*-values.yaml")), CHART / "values-openshift.yaml"]


@lru_cache
def tool(name):
    made = subprocess.run([ROOT / "tools/cluster/go/build"], check=True, capture_output=True, text=True)
    return Path(made.stdout.strip().splitlines()[-1]) / name


def helm(*arguments):
    # A user's own Helm settings and plugins must not decide a test.
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "HELM_NO_PLUGINS": "1"}
    return subprocess.run(
        [tool("helm"), *map(str, arguments)], capture_output=True, text=True, check=False, env=environment
    )


def render(*values, release="gnn-operator", namespace="gnn-system", monitoring=False, kueue=False, files=()):
    """The chart's objects; `values` as for --set. Hooks are left in."""
    command = ["template", release, CHART, "--namespace", namespace]
    for file in files:
        command += ["--values", file]
    for value in values:
        command += ["--set", value]
    if monitoring:
        command += ["--api-versions", "monitoring.coreos.com/v1"]
    if kueue:
        command += ["--api-versions", "kueue.x-k8s.io/v1beta2"]
    ran = helm(*command)
    if ran.returncode != 0:
        raise RuntimeError(ran.stderr)
    return [item for item in yaml.safe_load_all(ran.stdout) if item]


def named(objects, kind, suffix=""):
    """The objects of a kind whose name ends with `suffix`."""
    return [item for item in objects if item["kind"] == kind and item["metadata"]["name"].endswith(suffix)]
