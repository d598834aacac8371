"""Fails on an unformatted C++ file, a torn comment, and what yamllint, ruff or shellcheck find in YAML, Python or shell scripts."""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import comments

ROOT = Path(__file__).resolve().parents[2]


def tracked(*suffixes):
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.splitlines()
    return [name for name in listed if name.endswith(suffixes) and (ROOT / name).is_file()]


def dev_bin():
    made = subprocess.run(
        [ROOT / "scripts/setup", "--print-dir", "dev"], check=True, capture_output=True, text=True
    )
    return Path(made.stdout.strip()) / "bin"


def unformatted(clang_format, names):
    """Files that the formatter would change. One line a file; its own --dry-run prints one a change."""
    for name in names:
        formatted = subprocess.run([clang_format, name], cwd=ROOT, check=True, capture_output=True).stdout
        if formatted != (ROOT / name).read_bytes():
            yield name


def shell_scripts():
    """Whatever starts as a shell script, wherever it lies and whatever it is called."""
    found = []
    for name in tracked(""):
        with open(ROOT / name, "rb") as file:
            if re.match(rb"#!\s*(/usr/bin/env\s+|/bin/|/usr/bin/)(ba)?sh\b", file.read(64)):
                found.append(name)
    return sorted(found)


def python_check(names):
    """The command that checks Python files by ruff.toml."""
    return [dev_bin() / "ruff", "check", "--no-cache", "--quiet", "--output-format", "concise", *names]


def shell_check(names):
    """The command that checks shell scripts by .shellcheckrc."""
    return [dev_bin() / "shellcheck", "--format", "gcc", *names]


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    failed = False

    def check(command):
        nonlocal failed
        failed |= subprocess.run(list(map(str, command)), cwd=ROOT, check=False).returncode != 0

    sources = tracked(".h", ".cpp", ".cu", ".cuh")
    for name in unformatted(dev_bin() / "clang-format", sources):
        print(f"{name}: not formatted: run clang-format -i {name}")
        failed = True
    for name in sources:
        for problem in comments.problems_in(name, (ROOT / name).read_text(encoding="utf-8")):
            print(problem)
            failed = True
    yaml_files = [name for name in tracked(".yaml", ".yml") if "/templates/" not in name]
    if yaml_files:
        check([dev_bin() / "yamllint", "--strict", "-c", ROOT / ".yamllint.yaml", *yaml_files])
    check(python_check(tracked(".py")))
    check(shell_check(shell_scripts()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
