#!/usr/bin/env python3
"""Runs the GPU tests and benchmarks of an archive that `scripts/gpu-check --pack` made, stage by stage.

Needs a GPU with its driver, and the pinned version of torch in this Python: the programs load its LibTorch. Needs no network.
After each stage OUT/<stage>.json says what was found; a table comes last. Exit code: 0 if all stages passed, 1 if one failed, 2 if
the machine, the archive or the arguments are not fit, 128 and the signal's number if a signal has ended it.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
# No stage takes longer: what hangs shall not use up the time that somebody has a GPU for.
STAGE_SECONDS = 480
# What a killed program has to be gone in; one that waits in the driver may never be.
KILL_SECONDS = 30
# Kernels of ours, by a part of their mangled names: LibTorch's own are its authors' to check, and there are many.
SANITIZER = ["compute-sanitizer", "--error-exitcode", "86", "--kernel-name", "kns=gnn"]
# LibTorch looks at what CUDA's functions return itself, and expects some of them to fail.
SANITIZER_TOOLS = {"memcheck": ["--report-api-errors", "no"], "racecheck": []}
TAIL_LINES = 25


class Unfit(Exception):
    """This machine cannot run the archive: the text says why, and what to do."""


class Ended(Exception):
    """A signal asks to end."""

    def __init__(self, number):
        super().__init__()
        self.signal = signal.Signals(number)


def caught_signals():
    """A descriptor from which the numbers of signals that ask to end are read. They interrupt nothing else, so that none comes
    between the start of a program and its end."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    return reader


@dataclass
class Outcome:
    """What one program of a stage showed."""

    what: str
    failed: str = ""  # why, or nothing
    rows: list = field(default_factory=list)  # figures: what, value, unit, goal
    skipped: list = field(default_factory=list)  # cases and their reasons
    passed: int = 0
    seconds: float = 0
    tail: str = ""  # the end of the output of what failed


def read_manifest():
    try:
        manifest = json.loads((HERE / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as why:
        raise Unfit(f"the archive is not whole: {HERE / 'manifest.json'}: {why}; unpack it again") from None
    for entry in [*manifest["tests"], *manifest["benches"]]:
        if not (HERE / entry["program"]).is_file():
            raise Unfit(f"the archive is not whole: there is no {HERE / entry['program']}; unpack it again")
    return manifest


def version_of_torch(folder):
    """`2.11.0+cu130`, without the seconds that importing torch takes."""
    try:
        text = (folder / "version.py").read_text(encoding="utf-8")
    except OSError:
        text = ""
    found = re.search(r"^__version__\s*=\s*['\"]([^'\"]+)", text, re.MULTILINE)
    return found[1] if found else "of unknown version"


def library_path(wanted):
    """Where the programs find what they load."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise Unfit(f"{sys.executable} has no torch: install torch=={wanted}, or start this with a Python that has it")
    folder = Path(spec.origin).parent
    found = version_of_torch(folder)
    if found != wanted:
        raise Unfit(f"the programs need torch {wanted}, whose headers they were built with; {folder} is torch {found}")
    if not (folder / "lib/libtorch_cuda.so").exists():
        raise Unfit(f"expected torch/lib/libtorch_cuda.so in {folder.parent}: this torch is built without CUDA")
    nvidia = sorted(path for path in (folder.parent / "nvidia").glob("*/lib") if path.is_dir())
    return [folder / "lib", *nvidia, HERE / "lib"]


def check_libc(wanted):
    found = os.confstr("CS_GNU_LIBC_VERSION") or "none"
    numbers = [int(number) for number in re.findall(r"\d+", found)]
    if numbers < [int(number) for number in wanted.split(".")]:
        raise Unfit(f"the programs need glibc {wanted} or newer, found {found}")


def look_at_gpus():
    """The GPUs' names, drivers and memory, a line each."""
    ask = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,compute_cap", "--format=csv,noheader"]
    try:
        ran = subprocess.run(ask, capture_output=True, text=True, check=False, timeout=60)
    except FileNotFoundError:
        raise Unfit("no GPU: there is no nvidia-smi, which comes with the driver") from None
    except subprocess.TimeoutExpired:
        raise Unfit("nvidia-smi does not answer within 60 s: the driver hangs") from None
    gpus = ran.stdout.strip().splitlines()
    if ran.returncode != 0 or not gpus:
        raise Unfit(f"no GPU: nvidia-smi says '{(ran.stdout + ran.stderr).strip()}'")
    return gpus


def make_writable(out):
    """Makes the folder of what is found."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / "writable"
        probe.touch()
        probe.unlink()
    except OSError as why:
        raise Unfit(f"--out {out}: {why.strerror}: it is to be a folder that can be written to") from None


def wait(process, seconds, signals):
    """The exit status of a process, or None after so long. Nothing of its group is left. Errors: Ended."""
    ended = os.pidfd_open(process.pid)
    try:
        ready = select.select([ended, signals], [], [], seconds)[0]
    finally:
        os.close(ended)
        # Before it is reaped, so that nothing else can have its number.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(KILL_SECONDS)
    if signals in ready:
        raise Ended(os.read(signals, 1)[0])
    return process.returncode if ready else None


class Runner:
    """Runs programs with what they load, each within what is left of its stage's time."""

    def __init__(self, libraries, out, seconds, signals):
        inherited = os.environ.get("LD_LIBRARY_PATH")
        paths = [str(path) for path in libraries] + ([inherited] if inherited else [])
        self.environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(paths)}
        self.out = out
        self.seconds = seconds
        self.signals = signals
        self.deadline = time.monotonic() + seconds

    def run(self, what, command, environment):
        """Runs it, its output in OUT/<what>.log; an Outcome that has failed if it did."""
        log = self.out / f"{what}.log"
        started = time.monotonic()
        with open(log, "wb") as file:
            failed = self.run_into(file, command, environment)
        outcome = Outcome(what, failed, seconds=round(time.monotonic() - started, 1))
        if failed:
            outcome.tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL_LINES:])
        print(f"{what}: {failed or 'ended'} after {outcome.seconds} s", flush=True)
        return outcome

    def run_into(self, file, command, environment):
        """Why it failed, or nothing."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            return f"not begun: its stage has used up its {self.seconds:.0f} s"
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                env={**self.environment, **environment}, start_new_session=True,
            )
        except OSError as why:
            return f"cannot be started: {why.strerror}"
        try:
            code = wait(process, left, self.signals)
        except subprocess.TimeoutExpired:
            return f"took longer than the {left:.0f} s that its stage had left, and cannot be killed: the driver holds it"
        if code is None:
            return f"took longer than the {left:.0f} s that its stage had left"
        return "" if code == 0 else f"ended with {code}"


def filled(environment):
    return {name: value.replace("{here}", str(HERE)) for name, value in environment.items()}


def read_cases(outcome, report):
    """Adds what GoogleTest's report says of its cases. A program that skips all of them has shown nothing."""
    if not report.exists():
        outcome.failed = outcome.failed or "left no report of its cases"
        return
    try:
        cases = list(xml.parse(report).getroot().iter("testcase"))
    except xml.ParseError as why:
        outcome.failed = outcome.failed or f"left a report that cannot be read: {why}"
        return
    for case in cases:
        name = f"{case.get('classname')}.{case.get('name')}"
        skip = case.find("skipped")
        if skip is not None:
            why = (skip.get("message") or "").strip().splitlines()
            outcome.skipped.append(f"{name}: {why[-1] if why else 'no reason given'}")
        elif case.find("failure") is None:
            outcome.passed += 1
    if not outcome.failed and outcome.passed == 0:
        outcome.failed = "ran no case: all were skipped"


def run_test(runner, test, name, prefix=(), cases="*"):
    report = runner.out / f"{name}.xml"
    report.unlink(missing_ok=True)
    command = [*prefix, HERE / test["program"], f"--gtest_output=xml:{report}", f"--gtest_filter={cases}"]
    outcome = runner.run(name, command, filled(test["environment"]))
    read_cases(outcome, report)
    return outcome


def run_tests(runner, manifest):
    return [run_test(runner, test, test["name"]) for test in manifest["tests"]]


def run_sanitizer(runner, manifest):
    if shutil.which(SANITIZER[0]) is None:
        return [Outcome(SANITIZER[0], f"{SANITIZER[0]} is not on the PATH: it comes with the CUDA toolkit")]
    outcomes = []
    for test in manifest["tests"]:
        for tool, options in SANITIZER_TOOLS.items() if test["sanitize"] else ():
            # What a tool cannot run, its test names.
            cases = test["environment"].get(f"GNN_{tool.upper()}_FILTER", "*")
            outcomes.append(run_test(runner, test, f"{tool}-{test['name']}", [*SANITIZER, "--tool", tool, *options], cases))
    return outcomes


def read_figures(outcome, figures):
    """Adds the rows that a benchmark wrote."""
    if not figures.exists():
        outcome.failed = outcome.failed or "wrote no figures"
        return
    try:
        rows = json.loads(figures.read_text(encoding="utf-8"))["rows"]
        table({"": [Outcome("", rows=rows)]})
    except (ValueError, KeyError, TypeError) as why:
        outcome.failed = outcome.failed or f"wrote figures that cannot be read: {why!r}"
        return
    outcome.rows = rows
    if not rows:
        outcome.failed = outcome.failed or "wrote no figures"


def run_benches(runner, benches):
    outcomes = []
    for bench in benches:
        figures = runner.out / f"{bench['name']}.figures.json"
        figures.unlink(missing_ok=True)
        outcome = runner.run(bench["name"], [HERE / bench["program"], "--json", figures], {})
        read_figures(outcome, figures)
        outcomes.append(outcome)
    return outcomes


def stages_of(manifest):
    """Name -> what runs it."""
    stages = {"tests": lambda runner: run_tests(runner, manifest), "sanitize": lambda runner: run_sanitizer(runner, manifest)}
    for stage in dict.fromkeys(bench["stage"] for bench in manifest["benches"]):
        benches = [bench for bench in manifest["benches"] if bench["stage"] == stage]
        stages[stage] = lambda runner, benches=benches: run_benches(runner, benches)
    return stages


def meets(value, goal):
    """Whether a figure is what a goal such as `>= 300` or `<= 1.2` asks for."""
    relation, bound = goal.split()
    return value >= float(bound) if relation == ">=" else value <= float(bound)


def table(stages):
    lines = []
    for name, outcomes in stages.items():
        for outcome in outcomes:
            state = f"FAILED: {outcome.failed}" if outcome.failed else "passed"
            cases = f", {outcome.passed} cases" if outcome.passed else ""
            skips = f", {len(outcome.skipped)} skipped" if outcome.skipped else ""
            lines.append(f"{name:9} {outcome.what:44} {state}{cases}{skips}, {outcome.seconds:.1f} s")
            lines += [f"{'':9}   skipped {skip}" for skip in outcome.skipped]
            for row in outcome.rows:
                goal = row.get("goal")
                verdict = "" if goal is None else f"  goal {goal}: {'met' if meets(row['value'], goal) else 'MISSED'}"
                lines.append(f"{'':9}   {row['what']:52} {row['value']:>10.4g} {row['unit']}{verdict}")
    return "\n".join(lines)


def run_stages(chosen, manifest, libraries, gpus, out):
    stages = stages_of(manifest)
    signals = caught_signals()
    done = {}
    for name in chosen:
        print(f"== {name}", flush=True)
        started = time.monotonic()
        done[name] = stages[name](Runner(libraries, out, STAGE_SECONDS, signals))
        found = {
            "stage": name, "gpus": gpus, "torch": manifest["torch"], "revision": manifest["revision"],
            "seconds": round(time.monotonic() - started, 1), "programs": [vars(outcome) for outcome in done[name]],
        }
        (out / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        for outcome in done[name]:
            if outcome.failed:
                print(f"{outcome.what}: {outcome.failed}\n{outcome.tail}", flush=True)
        print(table({name: done[name]}), flush=True)
    return done


def read_arguments(known):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("gpu-check-out"), help="folder of what was found (default ./gpu-check-out)")
    parser.add_argument("--list", action="store_true", help="print the stages and exit")
    parser.add_argument("stage", nargs="*", help=f"default all: {', '.join(known)}", metavar="STAGE")
    arguments = parser.parse_args()
    for stage in arguments.stage:
        if stage not in known:
            parser.error(f"this archive has no stage {stage}; it has {', '.join(known)}")
    return arguments


def check():
    manifest = read_manifest()
    known = list(stages_of(manifest))
    arguments = read_arguments(known)
    if arguments.list:
        print("\n".join(known))
        return 0
    check_libc(manifest["glibc"])
    libraries = library_path(manifest["torch"])
    gpus = look_at_gpus()
    make_writable(arguments.out)
    for gpu in gpus:
        print(f"GPU: {gpu}")
    print(f"torch {manifest['torch']}, programs of {manifest['revision']}", flush=True)
    done = run_stages(arguments.stage or known, manifest, libraries, gpus, arguments.out.resolve())
    failed = [outcome.what for outcomes in done.values() for outcome in outcomes if outcome.failed]
    print(f"== all, on {gpus[0].split(',')[0]}\n{table(done)}")
    print(f"gpu-check: FAILED: {', '.join(failed)}" if failed else "gpu-check: green")
    return 1 if failed else 0


def main():
    try:
        return check()
    except Unfit as why:
        print(f"gpu-check: {why}", file=sys.stderr)
        return 2
    except Ended as ended:
        print(f"gpu-check: ended by {ended.signal.name}", file=sys.stderr)
        return 128 + ended.signal
    except OSError as why:
        print(f"gpu-check: {why}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
