"""Runs clang-tidy over the sources; remembers what was clean.

A source is checked again only if it, a header it includes, its flags or .clang-tidy changed: the key is the
hash of its preprocessed text, with macros and the comments outside of those, which carry NOLINT.
"""

import argparse
import hashlib
import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gnn-operator" / "tidy"


def tool():
    made = subprocess.run(
        [ROOT / "scripts/setup", "--print-dir", "dev"], check=True, capture_output=True, text=True
    )
    return Path(made.stdout.strip()) / "bin" / "clang-tidy"


def plain_command(entry):
    """The compile command without launcher, output and precompiled header, as clang-tidy needs it."""
    kept, skip = [], False
    arguments = shlex.split(entry["command"])
    while arguments and not arguments[0].endswith(("c++", "g++", "clang++")):
        arguments.pop(0)
    for argument in arguments:
        if skip:
            skip = False
            continue
        if argument in ("-o", "-include", "-MF", "-MT", "-MQ"):
            skip = True
            continue
        if argument in ("-MD", "-Winvalid-pch", "-fpch-preprocess"):
            continue
        kept.append(argument)
    return kept


def write_openmp_header(folder):
    """GCC's omp.h, which our clang has none of, without the attribute that only GCC knows."""
    header = subprocess.run(["c++", "-print-file-name=include/omp.h"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    text = Path(header).read_text(encoding="utf-8")
    (folder / "omp.h").write_text(text.replace("__malloc__ (omp_free),", ""), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=2, help="files at a time")
    parser.add_argument("--build", default="build/tidy", help="a build folder that the preset tidy has configured")
    parser.add_argument("--worker", action="store_true", help="check the worker, too")
    parser.add_argument("file", nargs="*", help="sources, or headers beside them, to check, as paths from the root (default: all)")
    options = parser.parse_args()
    for name in options.file:
        if not (ROOT / name).is_file():
            parser.error(f"there is no file {name}")
    build = ROOT / options.build
    folders = ["common", "controller"] + (["worker"] if options.worker else [])
    clang_tidy = tool()
    settings = (ROOT / ".clang-tidy").read_bytes() + str(clang_tidy).encode()
    named = {Path(name).with_suffix("") for name in options.file}
    entries = []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = Path(entry["file"])
        if not source.is_relative_to(ROOT) or source.relative_to(ROOT).parts[0] not in folders:
            continue
        if not named or source.relative_to(ROOT).with_suffix("") in named:
            entries.append({**entry, "command": shlex.join(plain_command(entry))})
    plain = build / "plain"
    plain.mkdir(parents=True, exist_ok=True)
    (plain / "compile_commands.json").write_text(json.dumps(entries))
    CACHE.mkdir(parents=True, exist_ok=True)

    write_openmp_header(plain)
    # Of what is deprecated the compiler warns, and not within the standard library.
    extra = [f"--extra-arg={word}" for word in ("-Wno-unknown-warning-option", "-Wno-deprecated-declarations", f"-idirafter{plain}")]

    def check(entry):
        command = [part for part in shlex.split(entry["command"]) if part != "-c"]
        # Not -CC: it puts comments of macros where other macros paste them into names.
        text = subprocess.run([*command, "-E", "-P", "-C", "-dD"], cwd=entry["directory"], capture_output=True, check=False)
        if text.returncode != 0:
            return f"{Path(entry['file']).relative_to(ROOT)}\n{text.stderr.decode(errors='replace')}"
        flags = " ".join(command).replace(str(ROOT), "")  # the same for each checkout
        key = hashlib.sha256(settings + flags.encode() + text.stdout).hexdigest()
        marker = CACHE / key
        if marker.exists():
            return None
        ran = subprocess.run(
            [str(clang_tidy), "-p", str(plain), "--quiet", *extra, entry["file"]],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )
        if ran.returncode != 0:
            return f"{Path(entry['file']).relative_to(ROOT)}\n{ran.stdout}{ran.stderr if not ran.stdout else ''}"
        marker.touch()
        return None

    problems = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for problem in pool.map(check, entries):
            if problem:
                problems += 1
                print(problem, flush=True)
    print(f"tidy: {len(entries)} files, {problems} with problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
