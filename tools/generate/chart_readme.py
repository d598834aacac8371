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

```sh
helm install gnn-operator charts/gnn-operator --namespace gnn-system --create-namespace \\
  --set image.registry=REGISTRY
helm test gnn-operator --namespace gnn-system --logs
```

`scripts/images` builds the images; `image.tag` selects a tag other than the chart's version. See
[operations](../../docs/operations.md) for monitoring, limiting the operator to namespaces, and upgrading.

Requires Kubernetes {kube}. Uninstalling keeps the CRD and all GNNJobs unless `crds.keep` is false. Upgrading does not
touch running jobs, because their pods belong to the GNNJobs, not to the release.

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
