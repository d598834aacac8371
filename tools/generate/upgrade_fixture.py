"""Writes what an upgrade starts from, for the tests of later versions: the packaged chart, the CRD as the API server has it,
and a running GNNJob with its status and its Service, ConfigMap, NetworkPolicy and pods. CONTRIBUTING.md says how
a version gets its folder in tests/fixtures.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CRD = "gnnjobs.gnn.dev"
CHILDREN = "services,configmaps,networkpolicies,pods"
# Written by the API server for its own book-keeping.
DROPPED_METADATA = ("managedFields", "resourceVersion", "selfLink")
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def run(command):
    ran = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"upgrade_fixture: {' '.join(map(str, command[:4]))} …: {ran.stderr.strip()}")
    return ran.stdout


def without_bookkeeping(item):
    """The object as a client would write it, with its UID, by which owners are named."""
    metadata = {key: value for key, value in item["metadata"].items() if key not in DROPPED_METADATA}
    annotations = {key: value for key, value in metadata.get("annotations", {}).items() if key != LAST_APPLIED}
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    cleaned = {**item, "metadata": metadata}
    if item["kind"] == "CustomResourceDefinition":
        cleaned.pop("status", None)
        metadata.pop("uid")  # nobody names it
    if item["kind"] == "Pod":
        # Which machine it was on is of no use elsewhere.
        cleaned["spec"] = {key: value for key, value in item["spec"].items() if key != "nodeName"}
        cleaned["status"] = {key: value for key, value in item["status"].items() if key not in ("hostIP", "hostIPs")}
    return cleaned


def is_running(job):
    return any(
        condition["type"] == "Running" and condition["status"] == "True"
        for condition in job.get("status", {}).get("conditions", [])
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where to write, such as tests/fixtures/0.1.0")
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--job", required=True, help="a GNNJob that runs")
    parser.add_argument("--kubectl", default="kubectl", metavar="PROGRAM")
    parser.add_argument("--helm", default="helm", metavar="PROGRAM")
    options = parser.parse_args()

    def get(*words):
        return json.loads(run([options.kubectl, f"--kubeconfig={options.kubeconfig}", "get", *words, "--output=json"]))

    job = get("gnnjobs.gnn.dev", options.job, f"--namespace={options.namespace}")
    if not is_running(job):
        sys.exit(f"upgrade_fixture: GNNJob {options.namespace}/{options.job}: expected one that is Running; wait for it")
    children = get(CHILDREN, f"--namespace={options.namespace}", f"--selector=gnn.dev/job={options.job}")["items"]
    files = {
        "crd.json": without_bookkeeping(get("customresourcedefinitions", CRD)),
        "objects.json": {
            "job": without_bookkeeping(job),
            "children": [without_bookkeeping(child) for child in children],
        },
    }
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)
        (options.folder / name).write_text(text + "\n", encoding="utf-8")
    run([options.helm, "package", ROOT / "charts/gnn-operator", "--destination", options.folder])
    return 0


if __name__ == "__main__":
    sys.exit(main())
