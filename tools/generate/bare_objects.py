"""The objects of the chart and of manifests/, without what only Helm or only kustomize adds."""

import subprocess

import yaml

from chart import ROOT, render, tool

HELM_ONLY_LABELS = ("helm.sh/chart", "app.kubernetes.io/managed-by")
HELM_ONLY_ANNOTATIONS = ("helm.sh/resource-policy",)


def strip(item):
    metadata = item["metadata"]
    if item["kind"] == "CustomResourceDefinition":
        metadata.pop("labels", None)
    for label in HELM_ONLY_LABELS:
        (metadata.get("labels") or {}).pop(label, None)
        template = (item.get("spec") or {}).get("template") or {}
        ((template.get("metadata") or {}).get("labels") or {}).pop(label, None)
    annotations = metadata.get("annotations") or {}
    for annotation in HELM_ONLY_ANNOTATIONS:
        annotations.pop(annotation, None)
    if not annotations:
        metadata.pop("annotations", None)
    return item


def bare_objects(source):
    """Sorted by kind and name. source: "chart" or "kustomize"."""
    if source == "chart":
        objects = [
            item for item in render()
            if "helm.sh/hook" not in ((item["metadata"].get("annotations")) or {})
        ]
    else:
        built = subprocess.run(
            [tool("kubectl"), "kustomize", ROOT / "manifests"], check=True, capture_output=True, text=True
        )
        objects = [item for item in yaml.safe_load_all(built.stdout) if item["kind"] != "Namespace"]
    return sorted(map(strip, objects), key=lambda item: (item["kind"], item["metadata"]["name"]))
