"""Writes manifests/base from the chart's default rendering; run it after a change of the chart."""

import argparse
import sys
from pathlib import Path

import yaml

from bare_objects import bare_objects

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "manifests/base/gnn-operator.yaml"
HEAD = "# Written by tools/generate/manifests.py from charts/gnn-operator; change the chart and run it again.\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file is out of date")
    check = parser.parse_args().check
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "gnn-system", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    }
    objects = [namespace, *(item for item in bare_objects("chart") if item["kind"] != "CustomResourceDefinition")]
    text = HEAD + "---\n".join(yaml.safe_dump(item, sort_keys=False, width=200) for item in objects)
    if check:
        if not FILE.is_file() or FILE.read_text(encoding="utf-8") != text:
            print(f"{FILE.name} is out of date: run tools/generate/manifests.py", file=sys.stderr)
            return 1
        return 0
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
