"""The stages of scripts/test: what runs, in which order, and the count at the end.

A stage is a list of commands. A failed stage does not stop those that do not need it, so that one run tells
all. Standard library only: it runs before anything else is certain to be there.
"""

import argparse
import os
import shutil
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

# Tests that run under the address sanitizer by default; with --full, every unit test of ASAN_FULL_FOLDERS.
ASAN_TESTS = ["gnn_graph_data_test", "gnn_prefetch_test", "gnn_sampling_core_test"]
ASAN_FULL_FOLDERS = [
    "common", "common_api",
    "controller_objects", "controller_client", "controller_runtime", "controller_reconcile", "controller_app",
    "worker_graph", "worker_sampling", "worker_nn", "worker_training", "worker_tasks", "worker_agent",
    "worker_distributed/comm",
]

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
    return [
        "ctest", "--test-dir", f"build/{preset}", "--output-on-failure", "--no-tests=error", *arguments,
    ]


def build(preset, *targets):
    configure = ["cmake", "--preset", preset]
    compile_ = ["cmake", "--build", f"build/{preset}", "-j", JOBS]
    if targets:
        compile_ += ["--target", *targets]
    return [configure, compile_]


def umbrella_targets(folders):
    """The folders' umbrella targets that exist once a preset is configured."""
    return [f"gnn_tests_in_{folder.replace('/', '_')}" for folder in folders if (ROOT / "tests" / folder_path(folder)).is_dir()]


def folder_path(folder):
    head, _, tail = folder.partition("_")
    return f"{head}/{tail}" if tail else head


def stages(mode):
    full = mode == "full"
    unit = Stage(
        "unit", "unit tests", [ctest("dev", "-L", "^unit$", "-LE", "slow", "-j", JOBS)], ["build"], "dev",
    )
    if mode == "fast":
        fast_build = build("dev", "gnn_tests_label_unit")
        return [Stage("build", "dev preset, unit tests", fast_build), unit]

    asan_targets = umbrella_targets(ASAN_FULL_FOLDERS) if full else ASAN_TESTS
    asan_tests = tests_of(ASAN_FULL_FOLDERS) if full else ASAN_TESTS
    sanitizer_env = {
        "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0",
        "LSAN_OPTIONS": f"suppressions={ROOT}/tests/support/lsan.supp",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "TSAN_OPTIONS": f"halt_on_error=1:suppressions={ROOT}/tests/support/tsan.supp",
    }
    tidy = python("tests/lint/tidy.py", "--jobs", JOBS, "--worker")
    result = [
        Stage("format", "clang-format, yamllint, shell syntax", [python("tests/lint/format.py")]),
        Stage("build", "dev preset", build("dev")),
        Stage("lint", "layering; each header alone", [python("tests/lint/layering.py"),
              python("tests/lint/headers.py", "--jobs", JOBS)], ["build"]),
        unit,
        Stage("asan", "address and undefined-behaviour sanitizers",
              [*build("asan", *asan_targets), ctest("asan", "-L", "^unit$", "-LE", "slow", "-R", f"^({'|'.join(asan_tests)})$", "-j", JOBS)],
              [], "asan", sanitizer_env),
        Stage("tsan", "thread sanitizer",
              [*build("tsan", "gnn_tests_label_unit"), ctest("tsan", "-L", "^unit$", "-LE", "slow", "-j", JOBS)],
              [], "tsan", sanitizer_env),
        Stage("cuda", "nvcc and NCCL compile without a GPU", build("cuda", *([] if full else CUDA_OBJECTS))),
        Stage("integration", "tests against a real API server and real processes",
              [ctest("dev", "-L", "^integration$", "-LE", "slow")], ["build"], "dev"),
        Stage("e2e", "tests on the two-node cluster", [ctest("dev", "-L", "^e2e$", "-LE", "slow")], ["build"], "dev"),
    ]
    if full:
        result.append(Stage("tidy", "clang-tidy", [["cmake", "--preset", "tidy"], tidy]))
        result.append(Stage("slow", "long loops", [ctest("dev", "-L", "slow")], ["build"], "dev", {"GNN_FULL": "1"}))
    return result


def tests_of(folders):
    """Names of the gnn_test entries of some folders of tests/."""
    names = set()
    for folder in folders:
        for listing in (ROOT / "tests" / folder_path(folder)).glob("CMakeLists.txt"):
            names.update(chunk.split()[0] for chunk in listing.read_text(encoding="utf-8").split("gnn_test(")[1:])
    return sorted(names)


def run_stage(stage):
    """Runs the commands; returns (ok, seconds)."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{stage.name}.log"
    started = time.monotonic()
    print(f"test: {stage.name}: {stage.about}", flush=True)
    with open(log, "w", encoding="utf-8") as output:
        for command in stage.commands:
            output.write("$ " + " ".join(command) + "\n")
            output.flush()
            code = subprocess.run(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                env={**os.environ, **stage.env}, check=False,
            ).returncode
            if code != 0:
                tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-60:])
                print(tail)
                print(f"test: {stage.name} FAILED: {' '.join(command)} (whole output: {log})", flush=True)
                return False, time.monotonic() - started
    return True, time.monotonic() - started


def count_reports(preset):
    """Cases of the JUnit reports of a preset: passed, failed names, skipped (name, reason)."""
    passed, failed, skipped = 0, [], []
    for report in sorted((BUILD / preset / "reports").glob("*.xml")):
        try:
            tree = xml.parse(report)
        except xml.ParseError:
            failed.append(f"{report.name}: damaged report (the test ended early)")
            continue
        for case in tree.iter("testcase"):
            name = f"{case.get('classname')}.{case.get('name')}"
            if case.find("failure") is not None or case.find("error") is not None:
                failed.append(name)
            elif case.find("skipped") is not None:
                skipped.append((name, (case.find("skipped").get("message") or "no reason given").strip()))
            elif case.get("status", "run") == "run":
                passed += 1
    return passed, failed, skipped


def main():
    parser = argparse.ArgumentParser(prog="scripts/test")
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--stage", action="append", default=[])
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    mode = "full" if options.full else "fast" if options.fast else "default"
    chosen = stages(mode)
    if options.list:
        for stage in chosen:
            print(f"{stage.name:12} {stage.about}")
        return 0
    unknown = set(options.stage) - {stage.name for stage in chosen}
    if unknown:
        print(f"test: unknown stage {', '.join(sorted(unknown))}; see --list", file=sys.stderr)
        return 2
    if options.stage:
        chosen = [stage for stage in chosen if stage.name in options.stage]

    for preset in ("dev", "asan", "tsan"):
        shutil.rmtree(BUILD / preset / "reports", ignore_errors=True)
    outcomes = {}
    for stage in chosen:
        missing = [need for need in stage.needs if outcomes.get(need, (True, 0))[0] is not True]
        if missing:
            print(f"test: {stage.name}: not run, because {', '.join(missing)} failed", flush=True)
            outcomes[stage.name] = (False, 0.0)
            continue
        outcomes[stage.name] = run_stage(stage)

    print("\nstage          minutes  result")
    for name, (ok, seconds) in outcomes.items():
        print(f"{name:14} {seconds / 60:7.1f}  {'ok' if ok else 'FAILED'}")
    passed, failed, skipped = 0, [], []
    for preset in ("dev", "asan", "tsan"):
        more_passed, more_failed, more_skipped = count_reports(preset)
        passed += more_passed
        failed += more_failed
        skipped += more_skipped
    # A stage without cases of its own (format, a build) counts as one case.
    for stage in chosen:
        ok = outcomes[stage.name][0]
        if not stage.reports:
            passed += ok
        if not ok and not (stage.reports and failed):
            failed.append(f"stage {stage.name}")
    if skipped:
        print("\nskipped:")
        for reason in sorted({reason for _, reason in skipped}):
            names = [name for name, why in skipped if why == reason]
            print(f"  {len(names)} x {reason}: {', '.join(names[:4])}{', ...' if len(names) > 4 else ''}")
    if failed:
        print("\nfailed:")
        for name in failed:
            print(f"  {name}")
    print(f"\n{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
