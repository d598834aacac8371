"""Fails on a header that does not compile alone; remembers what did.

Each header is compiled as the only include of a file, with the flags of a source of its module but without its
precompiled header, which would hide a missing include. Only what the header includes itself, or through others of ours,
is precompiled where it is large: that hides nothing. Clang does it, whose precompiled headers load in no time; GCC takes
4 s for each file that uses one of LibTorch.
A header is compiled again only if it, a header of ours that it includes, its flags, or anything installed changed.
"""

import argparse
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gnn-operator" / "headers"
COMPILER = "clang++-19"
# The flags are GCC's.
CLANG_FLAGS = ["-Wno-unknown-warning-option", "-Wno-deprecated-declarations"]
# What takes long to parse or is included by many; the first that a header includes is the one it gets.
LARGE = ["torch/nn/module.h", "ATen/core/Tensor.h", "controller/objects/pod.h", "nlohmann/json.hpp", "common/result.h"]
WORTH_IT = 3  # headers
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def flags_by_folder(commands):
    """The compiler's flags of one source for each folder of the tree."""
    flags = {}
    for entry in commands:
        source = Path(entry["file"])
        if not source.is_relative_to(ROOT) or source.suffix != ".cpp":
            continue
        folder = source.parent.relative_to(ROOT)
        arguments = shlex.split(entry["command"])
        while arguments and not arguments[0].startswith("-"):  # the compiler, perhaps behind a compiler cache
            arguments.pop(0)
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
            if not argument.endswith(source.name):
                kept.append(argument)
        flags.setdefault(folder, kept)
    return flags


def flags_for(header, flags):
    """Those of the header's folder, its mirror under tests, or the nearest folder above."""
    if header.parts[0] == "worker" or header.parts[:2] in (("tests", "bench"), ("tests", "worker"), ("tests", "support")):
        # Folders there mix sources with and without LibTorch; with it, every header finds what it includes.
        return flags[Path("worker/tasks")]
    for folder in [header.parent, *header.parent.parents]:
        for candidate in (folder, Path("tests") / folder):
            if candidate in flags:
                return flags[candidate]
    return flags[Path("common")]


@lru_cache(None)
def includes(name):
    """What a header of ours includes: (own headers, others)."""
    found = INCLUDE.findall((ROOT / name).read_text(encoding="utf-8"))
    places = [path for near, _ in found if near for path in (ROOT / near, (ROOT / name).parent / near)]
    own = [os.path.relpath(path, ROOT) for path in places if path.is_file()]
    return own, [far for _, far in found if far]


def all_includes(name):
    """What a header includes, itself or through others of ours."""
    found, ahead = set(), [name]
    while ahead:
        own, others = includes(ahead.pop())
        ahead += set(own) - found
        found.update(own, others)
    return found - {name}


def installed():
    """What headers of others come from: Debian's packages, and the pins of LibTorch."""
    packages = subprocess.run(["dpkg-query", "-W"], check=True, stdout=subprocess.PIPE).stdout
    pins = [path.read_bytes() for path in sorted((ROOT / "pins").glob("requirements-*.txt"))]
    return hashlib.sha256(b"\0".join([packages, *pins])).digest()


def key_of(name, flags, environment):
    """Of all that decides whether a header compiles alone; the same in each checkout."""
    key = hashlib.sha256(environment + Path(__file__).read_bytes() + " ".join(flags).replace(str(ROOT), "").encode())
    for own in sorted(path for path in {name, *all_includes(name)} if (ROOT / path).is_file()):
        key.update(own.encode() + b"\0" + (ROOT / own).read_bytes())
    return key.hexdigest()


def large_of_each(names):
    """Header -> which of LARGE is precompiled for it, or None."""
    found = {name: all_includes(name) for name in names}
    worth_it = [large for large in LARGE if sum(large in others for others in found.values()) >= WORTH_IT]
    return {name: next((large for large in worth_it if large in others), None) for name, others in found.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=2, help="compilations at a time")
    parser.add_argument("--build", default="build/dev", help="a configured build folder, for the compiler's flags")
    parser.add_argument("header", nargs="*", help="headers to check, as paths from the root (default: all)")
    options = parser.parse_args()
    for name in options.header:
        if not (ROOT / name).is_file():
            parser.error(f"there is no header {name}")
    build = ROOT / options.build
    commands = build / "compile_commands.json"
    if not commands.is_file():
        print(f"headers: {commands} is missing: configure first, as scripts/test --stage lint does", file=sys.stderr)
        return 1
    flags = flags_by_folder(json.loads(commands.read_text()))
    names = options.header or subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.h"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.splitlines()
    work = build / "headers"
    work.mkdir(parents=True, exist_ok=True)

    def compile_(name, text, *arguments):
        """Writes a file with this text and compiles it with a header's flags; returns what the compiler said, if it failed."""
        source = work / name
        if not source.exists() or source.read_text() != text:
            source.write_text(text)
        ran = subprocess.run([COMPILER, *arguments, *CLANG_FLAGS, str(source)], cwd=build, capture_output=True, text=True, check=False)
        return ran.stderr if ran.returncode else None

    def precompiled(large):
        return str(work / f"{large.replace('/', '_')}.pch")

    def precompile(large):
        """Precompiles it with the flags of one of the headers that include it."""
        command = flags_for(Path(next(header for header, own in large_by_header.items() if own == large)), flags)
        # Our own macros differ between modules.
        command = [argument for argument in command if not argument.startswith("-DGNN_")]
        return compile_(
            f"{large.replace('/', '_')}.h", f'#include "{large}"\n',
            *command, "-x", "c++-header", "-fpch-instantiate-templates", "-o", precompiled(large),
        )

    def compile_alone(name):
        large = large_by_header[name]
        marker = markers[name]
        said = compile_(
            f"{name.replace('/', '_')}.cpp", f'#include "{name}"\n',
            *flags_for(Path(name), flags), "-fsyntax-only", *(["-include-pch", precompiled(large)] if large else []),
        )
        if said is not None:
            return f"{name}: does not compile alone\n{said}"
        marker.touch()
        return None

    CACHE.mkdir(parents=True, exist_ok=True)
    environment = installed()
    present = [name for name in names if (ROOT / name).is_file()]
    markers = {name: CACHE / key_of(name, flags_for(Path(name), flags), environment) for name in present}
    large_by_header = large_of_each([name for name in present if not markers[name].exists()])
    with ThreadPoolExecutor(options.jobs) as pool:
        problems = [said for said in pool.map(precompile, sorted({*large_by_header.values()} - {None})) if said is not None]
        problems += [problem for problem in pool.map(compile_alone, large_by_header) if problem]
    for problem in problems:
        print(problem)
    print(f"headers: {len(present)} headers, {len(present) - len(large_by_header)} known, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
