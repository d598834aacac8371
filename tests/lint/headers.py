"""Fails on a header that does not compile alone.

Each header is compiled as the only include of a file, with the flags of a source of its module but without
the precompiled header, which would hide a missing include.
"""

import argparse
import json
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def flags_by_folder(commands):
    """Compiler and flags of one source for each folder of the tree."""
    flags = {}
    for entry in commands:
        source = Path(entry["file"])
        if not source.is_relative_to(ROOT) or source.suffix != ".cpp":
            continue
        folder = source.parent.relative_to(ROOT)
        arguments = shlex.split(entry["command"])
        kept, skip = [], False
        for argument in arguments:
            if skip:
                skip = False
                continue
            if argument in ("-o", "-c", "-include", "-MF", "-MT", "-MQ"):
                skip = True
                continue
            if argument in ("-MD", "-Winvalid-pch", "-fpch-preprocess") or argument.startswith(("-g", "-O")):
                continue
            kept.append(argument)
        flags.setdefault(folder, kept)
    return flags


def flags_for(header, flags):
    """Those of the header's folder, its mirror under tests, or the nearest folder above."""
    if header.parts[0] == "worker" or header.parts[:2] in (("tests", "worker"), ("tests", "support")):
        # Folders there mix sources with and without LibTorch; with it, every header finds what it includes.
        return flags[Path("worker/tasks")]
    for folder in [header.parent, *header.parent.parents]:
        for candidate in (folder, Path("tests") / folder):
            if candidate in flags:
                return flags[candidate]
    return flags[Path("common")]


def launcher(build):
    """What CMake runs the compiler with: a compiler cache, or nothing."""
    for line in (build / "CMakeCache.txt").read_text().splitlines():
        name, _, value = line.partition("=")
        if name == "GNN_COMPILER_LAUNCHER:INTERNAL":
            return [word for word in value.split(";") if word]
    return []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--build", default="build/dev")
    options = parser.parse_args()
    build = ROOT / options.build
    commands = build / "compile_commands.json"
    if not commands.is_file():
        print(f"headers: {commands} is missing: configure first, as scripts/test --stage lint does", file=sys.stderr)
        return 1
    flags = flags_by_folder(json.loads(commands.read_text()))
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.h"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.splitlines()
    through = launcher(build)
    work = build / "headers"
    work.mkdir(parents=True, exist_ok=True)

    def compile_alone(name):
        command = flags_for(Path(name), flags)
        source = work / (name.replace("/", "_") + ".cpp")
        text = f'#include "{name}"\n'
        if not source.exists() or source.read_text() != text:
            source.write_text(text)
        ran = subprocess.run(
            [*through, *command, "-O0", "-o", str(source.with_suffix(".o")), "-c", str(source)],
            cwd=build, capture_output=True, text=True, check=False,
        )
        return f"{name}: does not compile alone\n{ran.stderr}" if ran.returncode else None

    with ThreadPoolExecutor(options.jobs) as pool:
        problems = [problem for problem in pool.map(compile_alone, [n for n in names if (ROOT / n).is_file()]) if problem]
    for problem in problems:
        print(problem)
    print(f"headers: {len(names)} headers, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
