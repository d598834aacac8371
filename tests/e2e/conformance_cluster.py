"""A two-node cluster with gnn-controller beside it and images of a worker that keeps the contract, without LibTorch."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

from installation import ROOT, Installation, run

NAMESPACE = "conformance"
IMAGE = "localhost/gnn-conformance-worker:1"
BUILD = Path(os.environ["GNN_BUILD_DIR"])
BUILDAH = ["buildah", "--storage-driver", "vfs"]


def stop(process):
    process.terminate()
    process.wait(30)


def start(name):
    """For setUpModule(): the cluster of that name, which goes with the module."""
    cluster = Installation(name)
    cluster.down()
    unittest.addModuleCleanup(cluster.down)  # also where what follows fails
    cluster.up()
    run([*BUILDAH, "build", "--isolation", "chroot", "-t", IMAGE, "-f", ROOT / "tests/conformance/Containerfile",
         BUILD / "tests/conformance"])
    cluster.images["worker"] = IMAGE
    cluster.load_images()
    cluster.kubectl("apply", "--server-side", "-f", str(ROOT / "manifests/crds"))

    def serves_jobs():
        return "gnnjobs" in cluster.kubectl("api-resources", "--api-group=gnn.dev", "--cached=false")

    cluster.wait("GNNJobs are served", serves_jobs, 60)
    cluster.apply({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    })
    kubeconfig = cluster.status()["kubeconfig"]
    log = open(BUILD / f"{name}-controller.log", "w", encoding="utf-8")
    unittest.addModuleCleanup(log.close)
    # In the cluster's network, so that pods' progress can be read.
    controller = subprocess.Popen(
        [sys.executable, ROOT / "tools/cluster/cluster.py", "--name", cluster.name, "enter", "--",
         BUILD / "controller/main/gnn-controller", "run", f"--kubeconfig={kubeconfig}", "--bind-address=127.0.0.1:0",
         "--health-bind-address=127.0.0.1:0"],
        stderr=log,
    )
    unittest.addModuleCleanup(stop, controller)
    return cluster


def job(name, **environment):
    variables = [{"name": key, "value": value} for key, value in environment.items()]
    return {
        "apiVersion": "gnn.dev/v1alpha1", "kind": "GNNJob", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "task": {"type": "NodeClassification"},
            "dataset": {"format": "Synthetic", "synthetic": {"shape": "Arxiv", "scale": "0.01"}},
            "model": {"type": "GraphSAGE", "graphSage": {"layers": 2}},
            "sampling": {"fanout": [5, 5]},
            "training": {"epochs": 12},
            "workers": {"nodes": 2, "template": {
                "image": IMAGE, "imagePullPolicy": "Never", "env": variables, "terminationGracePeriodSeconds": 10,
            }},
        },
    }
