"""Packages the chart for publication: with the address of its sources, to which its alerts link, and the registry of its images.

Neither is known before somebody publishes it, so the chart of the checkout names none."""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import yaml

from chart import CHART, helm


class Literal(str):
    """Text of several lines, written as such."""


def literal(dumper, text):
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


yaml.SafeDumper.add_representer(Literal, literal)


def name_addresses(folder, source, registry):
    """In Chart.yaml the sources and the images' names, in values.yaml the registry."""
    file = folder / "Chart.yaml"
    chart = yaml.safe_load(file.read_text(encoding="utf-8"))
    chart["home"], chart["sources"] = source, [source]
    images = yaml.safe_load(chart["annotations"]["artifacthub.io/images"])
    for image in images:
        image["image"] = f"{registry}/{image['image']}"
    chart["annotations"]["artifacthub.io/images"] = yaml.safe_dump(images, sort_keys=False)
    chart["annotations"]["artifacthub.io/links"] = yaml.safe_dump(
        [{"name": "documentation", "url": f"{source}/tree/v{chart['appVersion']}/docs"}], sort_keys=False
    )
    chart["annotations"] = {key: Literal(text) for key, text in chart["annotations"].items()}
    file.write_text(yaml.safe_dump(chart, sort_keys=False, width=10000), encoding="utf-8")
    values = folder / "values.yaml"
    text = values.read_text(encoding="utf-8")
    before, empty, after = text.partition('  registry: ""\n')
    if not empty:
        raise RuntimeError("values.yaml: expected image.registry to be empty")
    values.write_text(f'{before}  registry: "{registry}"\n{after}', encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True, help="https address of the repository, as people open it")
    parser.add_argument("--registry", required=True, help="registry and path that have the images, e.g. registry.example.com/gnn")
    parser.add_argument("--output", required=True, type=Path, help="folder for the package")
    options = parser.parse_args()
    if not options.source.startswith("https://"):
        parser.error(f"--source {options.source}: expected an address that begins with https://")
    with tempfile.TemporaryDirectory() as temporary:
        folder = shutil.copytree(CHART, Path(temporary) / CHART.name)
        name_addresses(folder, options.source.rstrip("/"), options.registry.rstrip("/"))
        ran = helm("package", folder, "--destination", options.output)
    print(ran.stdout + ran.stderr, end="", file=sys.stdout if ran.returncode == 0 else sys.stderr)
    return ran.returncode


if __name__ == "__main__":
    sys.exit(main())
