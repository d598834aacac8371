"""Writes the chart's README from values.yaml, as helm-docs does: a row a value, with its "# --" comment."""

import argparse
import json
import re
import sys
from pathlib import Path

import yaml

CHART = Path(__file__).resolve().parents[2] / "charts/gnn-operator"

HEAD = """# gnn-operator

{description}

A GNNJob names a data set, a model and how many nodes train it. The operator runs the gang of pods, restarts what is lost,
resumes from checkpoints and reports progress in the job's status.

## Install

```sh
helm install gnn-operator CHART --namespace gnn-system --create-namespace --set image.registry=REGISTRY
helm test gnn-operator --namespace gnn-system --logs
```

CHART is this chart's package, folder or `oci://` address; REGISTRY has the images `gnn-controller` and `gnn-worker` in the
chart's version (`image.tag`, or `image.digest` and `tests.image.digest`, name others). The notes that Helm prints after the
installation have a first job. `kubectl explain gnnjob.spec --recursive` describes every field of a job.

Requires Kubernetes {kube}. As part of another chart, this one takes the value `enabled` for that chart's `condition`.

| Your cluster | Values |
| --- | --- |
| pulls images with credentials | `imagePullSecrets` for the chart's pods, `workers.template.imagePullSecrets` in each GNNJob |
| is OpenShift | the package's file `values-openshift.yaml`: users of the namespace's range, as *restricted-v2* asks, and its name servers |
| lets you use some namespaces only | `controller.watchNamespaces` |
| gives you no cluster-scoped objects | `crds.enabled`, `admissionPolicy.enabled` and `rbac.create` false |
| serves its API on other ports than 443 and 6443 | `networkPolicy.apiServer` |
| is monitored by the Prometheus operator | `enabled` of `metrics.serviceMonitor`, `metrics.podMonitor`, `metrics.prometheusRule` |
| has Grafana with its sidecar | `dashboards.enabled` |
| has a scheduler for gangs, or Kueue | `gangScheduling`, `kueue` |

## Upgrade and uninstall

Upgrading does not touch running jobs, because their pods belong to the GNNJobs, not to the release. The CRD is upgraded with
the chart. Uninstalling keeps the CRD and all GNNJobs unless `crds.keep` is false. A pre-delete hook takes the operator's finalizer
from the jobs' pods first. What ignores such hooks (Argo CD in versions without `PreDelete` hooks, Flux with
`disableHooks`) leaves pods that cannot be deleted: run the hook's Job yourself before:

```sh
helm template gnn-operator CHART --namespace gnn-system --show-only templates/hooks/release-pods.yaml | kubectl create --filename -
kubectl wait job/gnn-operator-release --namespace gnn-system --for=condition=Complete --timeout=200s
```

## Runbooks

With `metrics.prometheusRule.enabled`, each alert's annotation `runbook` is a command that prints what to do. The runbooks are in
a ConfigMap of the release, in the version that is installed.

## Values

| Key | Type | Default | Meaning |
| --- | --- | --- | --- |
"""


def comments(text):
    """Dotted key -> the "# --" comment above it."""
    found, path, comment = {}, [], []
    for line in text.splitlines():
        match = re.match(r"^( *)# (-- )?(.*)$", line)
        if match:
            if match.group(2):
                comment = [match.group(3)]
            elif comment:
                comment.append(match.group(3))
            continue
        match = re.match(r"^( *)([A-Za-z]+):", line)
        if match:
            depth = len(match.group(1)) // 2
            path = [*path[:depth], match.group(2)]
            if comment:
                found[".".join(path)] = " ".join(comment)
        comment = []
    return found


def rows(value, notes, path=""):
    if isinstance(value, dict) and value and path not in notes:
        for key in sorted(value):
            yield from rows(value[key], notes, f"{path}.{key}" if path else key)
        return
    kind = {bool: "bool", int: "int", str: "string", list: "list", dict: "object"}[type(value)]
    note = notes.get(path, "").replace("|", "\\|")
    yield f"| `{path}` | {kind} | `{json.dumps(value)}` | {note} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file is out of date")
    check = parser.parse_args().check
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    head = HEAD.format(description=chart["description"] + ".", kube=chart["kubeVersion"].replace("-0", "").replace(">=", "") + " or newer")
    made = head + "\n".join(rows(yaml.safe_load(text), comments(text))) + "\n"
    file = CHART / "README.md"
    if check:
        if not file.is_file() or file.read_text(encoding="utf-8") != made:
            print("README.md is out of date: run tools/generate/chart_readme.py", file=sys.stderr)
            return 1
        return 0
    file.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
