"""The stages of scripts/test: what runs, in which order, and the count at the end.

A stage is a list of commands. A failed stage does not stop those that do not need it, so that one run tells
all. Standard library only: it runs before anything else is certain to be there.
"""

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
LOGS = BUILD / "test-logs"
JOBS = str(os.cpu_count() or 1)
# For what hangs; CTest has a limit for each test besides.
COMMAND_SECONDS = 3 * 3600

# Folders of tests/ whose unit tests run under the address sanitizer, by default and with --full.
ASAN_FOLDERS = [
    "common", "common/api",
    "controller/objects", "controller/client", "controller/runtime", "controller/reconcile", "controller/app",
    "worker/graph", "worker/sampling",
]
ASAN_FULL_FOLDERS = [
    *ASAN_FOLDERS, "worker/nn", "worker/training", "worker/tasks", "worker/agent", "worker/app",
    "worker/distributed/comm",
]

# What CI may skip, by reason. Any other skip there is a machine that lacks something, and fails.
SKIPS_IN_CI = re.compile(r"\bCUDA\b")

# One kernel and the NCCL group: what only the CUDA build compiles.
CUDA_OBJECTS = [
    "worker/nn/CMakeFiles/gnn_nn.dir/functional/cuda/spmm.cu.o",
    "worker/distributed/comm/CMakeFiles/gnn_comm.dir/nccl/nccl_backend.cpp.o",
]


@dataclass
class Stage:
    name: str
    about: str
    commands: list
    needs: list = field(default_factory=list)
    reports: str = ""  # preset whose JUnit reports belong to this stage
    env: dict = field(default_factory=dict)


def python(*arguments):
    return [sys.executable, *map(str, arguments)]


def ctest(preset, *arguments):
    """Runs tests; run_stage() adds where CTest writes its own report."""
    return [
        "ctest", "--test-dir", f"build/{preset}", "--output-on-failure", "--no-tests=error", *arguments,
    ]


def ctest_report(stage):
    return LOGS / f"{stage.name}.ctest.xml"


def build(preset, *targets):
    configure = ["cmake", "--preset", preset]
    compile_ = ["cmake", "--build", f"build/{preset}", "-j", JOBS]
    if targets:
        compile_ += ["--target", *targets]
    return [configure, compile_]


def tests_of(folders):
    """Names of the gnn_test entries of some folders of tests/ that are labelled unit alone."""
    names = set()
    for folder in folders:
        listing = (ROOT / "tests" / folder / "CMakeLists.txt").read_text(encoding="utf-8")
        for entry in re.findall(r"\bgnn_test\(([^)]*)\)", listing):
            words = entry.split()
            labels = words[words.index("LABELS") + 1:] if "LABELS" in words else []
            if labels[:1] == ["unit"] and labels[1:2] != ["slow"]:
                names.add(words[0])
    return sorted(names)


def stages(mode):
    full = mode == "full"
    long_loops = {"GNN_FULL": "1"} if full else {}
    unit = Stage(
        "unit", "unit tests", [ctest("dev", "-L", "^unit$", "-LE", "slow", "-j", JOBS)], ["build"], "dev", long_loops,
    )
    if mode == "fast":
        fast_build = build("dev", "gnn_tests_label_unit")
        return [Stage("build", "dev preset, unit tests", fast_build), unit]

    asan_tests = tests_of(ASAN_FULL_FOLDERS if full else ASAN_FOLDERS)
    sanitizer_env = {
        **long_loops,
        "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0",
        "LSAN_OPTIONS": f"suppressions={ROOT}/tests/support/lsan.supp",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "TSAN_OPTIONS": f"halt_on_error=1:suppressions={ROOT}/tests/support/tsan.supp",
    }
    tidy = python("tests/lint/tidy.py", "--jobs", JOBS, *(["--worker"] if full else []))
    result = [
        Stage("format", "clang-format, yamllint, shell syntax", [python("tests/lint/format.py")]),
        Stage("build", "dev preset", build("dev")),
        Stage("lint", "layering; each header alone", [python("tests/lint/layering.py"),
              python("tests/lint/headers.py", "--jobs", JOBS)], ["build"]),
        Stage("tidy", f"clang-tidy: {'everything' if full else 'common and controller'}", [["cmake", "--preset", "tidy"], tidy]),
        unit,
        Stage("asan", "address and undefined-behaviour sanitizers",
              [*build("asan", *asan_tests), ctest("asan", "-L", "^unit$", "-LE", "slow", "-R", f"^({'|'.join(asan_tests)})$", "-j", JOBS)],
              [], "asan", sanitizer_env),
        Stage("tsan", "thread sanitizer",
              [*build("tsan", "gnn_tests_label_unit"), ctest("tsan", "-L", "^unit$", "-LE", "slow", "-j", JOBS)],
              [], "tsan", sanitizer_env),
        Stage("cuda", "nvcc and NCCL compile without a GPU", build("cuda", *([] if full else CUDA_OBJECTS))),
        Stage("integration", "tests against a real API server and real processes",
              [ctest("dev", "-L", "^integration$", "-LE", "slow")], ["build"], "dev"),
        gpu_stage(full),
        Stage("e2e", "tests on the two-node cluster", [ctest("dev", "-L", "^e2e$", "-LE", "slow")], ["build"], "dev"),
    ]
    if full:
        result.append(Stage("bench", "benchmarks compile", build("bench")))
        result.append(Stage("slow", "long loops", [ctest("dev", "-L", "slow")], ["build"], "dev", long_loops))
    return result


def gpu_stage(full):
    """The tests that want a GPU. By default those of the dev build, which are skipped and so counted by name: the CUDA
    build makes two objects then. With --full its own tests, which run where there is a GPU."""
    preset, need = ("cuda", "cuda") if full else ("dev", "build")
    return Stage("gpu", "tests of the CUDA kernels; skipped without a GPU", [ctest(preset, "-L", "^gpu$")], [need], preset)


def with_needs(chosen, known):
    """The chosen stages with those that they need, in the order of `known`."""
    by_name = {stage.name: stage for stage in known}
    names = set()

    def add(name):
        if name not in names:
            names.add(name)
            for need in by_name[name].needs:
                add(need)

    for name in chosen:
        add(name)
    return [stage for stage in known if stage.name in names]


def run_command(command, output, env):
    """Returns the exit status, or None if the command was ended because it took too long."""
    # In a session of its own, so that what ends us or the time limit ends all that it has started.
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=env, start_new_session=True,
    ) as child:
        try:
            return child.wait(COMMAND_SECONDS)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGTERM)
            if isinstance(error, subprocess.TimeoutExpired):
                return None
            raise


def run_stage(stage):
    """Runs the commands; returns (ok, seconds)."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{stage.name}.log"
    started = time.monotonic()
    print(f"test: {stage.name}: {stage.about}", flush=True)
    with open(log, "w", encoding="utf-8") as output:
        for command in stage.commands:
            if command[0] == "ctest":
                command = [*command, "--output-junit", str(ctest_report(stage))]
            output.write("$ " + " ".join(command) + "\n")
            output.flush()
            code = run_command(command, output, {**os.environ, **stage.env})
            if code is None:
                output.write(f"ended: it took more than {COMMAND_SECONDS} s\n")
                output.flush()
            if code != 0:
                tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-60:])
                print(tail)
                print(f"test: {stage.name} FAILED: {' '.join(command)} (whole output: {log})", flush=True)
                return False, time.monotonic() - started
    return True, time.monotonic() - started


@dataclass
class Count:
    passed: int = 0
    failed: list = field(default_factory=list)  # names
    skipped: list = field(default_factory=list)  # (name, reason)

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped


def count_cases(report):
    """The cases of one JUnit report of a test."""
    count = Count()
    for case in xml.parse(report).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            count.failed.append(name)
        elif skip is not None:
            # GoogleTest puts the place before the reason.
            reason = (skip.get("message") or "").strip().splitlines()
            count.skipped.append((name, reason[-1] if reason else "no reason given"))
        elif case.get("status", "run") == "run":
            count.passed += 1
    return count


def count_stage(stage, ok):
    """What a stage's tests came to. A stage without tests of its own, such as a build, is one case."""
    count = Count()
    if stage.reports and ctest_report(stage).exists():
        for entry in xml.parse(ctest_report(stage)).iter("testcase"):
            name = entry.get("name")
            report = BUILD / stage.reports / "reports" / f"{name}.xml"
            try:
                of_entry = count_cases(report)
            except (OSError, xml.ParseError):
                of_entry = Count()
                if entry.get("status") == "run":
                    of_entry.failed.append(f"{name}: left no report")
            if entry.get("status") != "run" and not of_entry.failed:
                of_entry.failed.append(f"{name}: crashed, ran out of time or did not start")
            count.add(of_entry)
    elif not stage.reports and ok:
        count.passed = 1
    if not ok and not count.failed:
        count.failed.append(f"stage {stage.name}")
    return count


def refuse_skips(count):
    """For CI, where a test that can't run is a fault of the machine or of the build."""
    refused = [(name, reason) for name, reason in count.skipped if not SKIPS_IN_CI.search(reason)]
    count.skipped = [skip for skip in count.skipped if skip not in refused]
    count.failed += [f"{name}: skipped in CI: {reason}" for name, reason in refused]


def write_report(outcomes):
    """build/test-logs/stages.xml: the stages as JUnit cases, for those that have no tests of their own."""
    suite = xml.Element("testsuite", name="scripts/test", tests=str(len(outcomes)))
    for name, (ok, seconds) in outcomes.items():
        case = xml.SubElement(suite, "testcase", name=name, classname="stage", time=f"{seconds:.1f}")
        if not ok:
            xml.SubElement(case, "failure", message=f"see {name}.log")
    LOGS.mkdir(parents=True, exist_ok=True)
    xml.ElementTree(suite).write(LOGS / "stages.xml", encoding="utf-8", xml_declaration=True)


def main():
    parser = argparse.ArgumentParser(prog="scripts/test")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--fast", action="store_true")
    modes.add_argument("--full", action="store_true")
    parser.add_argument("--stage", action="append", default=[])
    parser.add_argument("--list", action="store_true", help="name the stages and run none")
    parser.add_argument("--check", action="store_true", help="judge the other options and run nothing")
    options = parser.parse_args()
    mode = "full" if options.full else "fast" if options.fast else "default"
    chosen = stages(mode)
    if options.list:
        for stage in chosen:
            print(f"{stage.name:12} {stage.about}")
        return 0
    unknown = set(options.stage) - {stage.name for stage in chosen}
    if unknown:
        parser.error(f"unknown stage {', '.join(sorted(unknown))}; there are {', '.join(stage.name for stage in chosen)}")
    if options.check:
        return 0
    if options.stage:
        chosen = with_needs(options.stage, chosen)

    # Of every preset, so that what lies there afterwards is of this run.
    for preset in {stage.reports for stage in stages("full")} - {""}:
        shutil.rmtree(BUILD / preset / "reports", ignore_errors=True)
    for stage in chosen:
        ctest_report(stage).unlink(missing_ok=True)
    return run(chosen)


def run(chosen):
    """Runs stages and says how it went; returns the exit status."""
    outcomes = {}
    for stage in chosen:
        missing = [need for need in stage.needs if outcomes.get(need, (True, 0))[0] is not True]
        if missing:
            print(f"test: {stage.name}: not run, because {', '.join(missing)} failed", flush=True)
            outcomes[stage.name] = (False, 0.0)
            continue
        outcomes[stage.name] = run_stage(stage)
    write_report(outcomes)

    print("\nstage          minutes  result")
    total = Count()
    for stage in chosen:
        ok, seconds = outcomes[stage.name]
        count = count_stage(stage, ok)
        if os.environ.get("CI"):
            refuse_skips(count)
        print(f"{stage.name:14} {seconds / 60:7.1f}  {'FAILED' if count.failed else 'ok'}")
        total.add(count)
    if total.skipped:
        print("\nskipped:")
        for reason in sorted({reason for _, reason in total.skipped}):
            names = [name for name, why in total.skipped if why == reason]
            print(f"  {len(names)} x {reason}: {', '.join(names[:4])}{', ...' if len(names) > 4 else ''}")
    if total.failed:
        print("\nfailed:")
        for name in total.failed:
            print(f"  {name}")
    # Nothing else on this line: CI systems look for it.
    print(f"\n{total.passed} passed, {len(total.failed)} failed, {len(total.skipped)} skipped")
    return 1 if total.failed else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("test: interrupted")
