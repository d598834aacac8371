"""The job that the tests on the two-node cluster train."""


def small_job(name, namespace, image, *, nodes=2, processes=2, epochs=30, **changes):
    """A GraphSAGE on a small generated graph: deterministic, seconds long, with a checkpoint each epoch on the claim
    "checkpoints". A change is named by its path in the spec, e.g. workers__template__image."""
    spec = {
        "task": {"type": "NodeClassification"},
        "dataset": {"format": "Synthetic", "synthetic": {"shape": "Arxiv", "scale": "0.05", "seed": 1}},
        "model": {"type": "GraphSAGE", "graphSage": {"layers": 2, "hiddenChannels": 64}},
        "sampling": {"fanout": [10, 10], "numThreads": 1},
        "training": {"device": "CPU", "epochs": epochs, "batchSize": 64, "evaluation": {"every": 10}},
        "workers": {
            "nodes": nodes, "processesPerNode": processes,
            "template": {
                "image": image, "imagePullPolicy": "Never",
                "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"cpu": "2", "memory": "2Gi"}},
                "volumes": [{"name": "checkpoints", "persistentVolumeClaim": {"claimName": "checkpoints"}}],
                "volumeMounts": [{"name": "checkpoints", "mountPath": "/checkpoints"}],
                "terminationGracePeriodSeconds": 30,
            },
        },
        "checkpoint": {"path": f"/checkpoints/{name}", "everyEpochs": 1},
        "runPolicy": {"maxRestarts": 5},
    }
    for path, value in changes.items():
        at = spec
        *parents, last = path.split("__")
        for part in parents:
            at = at.setdefault(part, {})
        at[last] = value
    return {"apiVersion": "gnn.dev/v1alpha1", "kind": "GNNJob", "metadata": {"name": name, "namespace": namespace}, "spec": spec}
