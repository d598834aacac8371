"""The stages of scripts/test: what runs, in which order, and the count at the end.

A stage is a list of commands. Stages that keep the cores busy run one after the other, in the order of the list; beside
them runs what mostly waits, as soon as what it needs is done. A failed stage does not stop those that do not need it, so
that one run tells all. Standard library only: it runs before anything else is certain to be there.
"""

import argparse
import contextlib
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from dataclasses import dataclass, field
from pathlib import Path

import changed

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
LOGS = BUILD / "test-logs"
JOBS = str(os.cpu_count() or 1)
# For what hangs; CTest has a limit for each test besides.
COMMAND_SECONDS = 3 * 3600
# What ends us leaves the commands this long to take back what they have made: a test cluster, a temporary folder.
END_SECONDS = 30
# What is no test gives way to the tests beside it, also to their pods, which have a small share of the machine.
NICENESS = 19

# What CI may skip, by reason. Any other skip there is a machine that lacks something, and fails.
SKIPS_IN_CI = re.compile(r"\bCUDA\b|the processor has no products of bfloat16")

# Two files of kernels and the NCCL group: what only the CUDA build compiles.
CUDA_OBJECTS = [
    "worker/gpu/CMakeFiles/gnn_gpu.dir/neighbor_sampler.cu.o",
    "worker/nn/cuda/CMakeFiles/gnn_nn_cuda.dir/spmm.cu.o",
    "worker/comm/CMakeFiles/gnn_comm.dir/nccl/nccl_backend.cpp.o",
]


@dataclass
class Stage:
    name: str
    about: str
    commands: list
    needs: list = field(default_factory=list)
    reports: str = ""  # preset whose JUnit reports belong to this stage
    env: dict = field(default_factory=dict)
    beside: bool = False  # mostly waits: runs beside the others


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


def programs():
    """What the tests on the cluster run, before the tests that only the other stages run."""
    return Stage("programs", "dev preset, the programs", build("dev", "gnn-controller", "gnn-worker", "gnn-conformance-worker"))


def stages(mode):
    full = mode == "full"
    long_loops = {"GNN_FULL": "1"} if full else {}
    unit = Stage(
        "unit", "unit tests", [ctest("dev", "-L", "^unit$", "-LE", "slow", "-j", JOBS)], ["build"], "dev", long_loops,
    )
    if mode == "fast":
        fast_build = build("dev", "gnn_tests_label_unit")
        return [Stage("build", "dev preset, unit tests", fast_build), unit]

    asan_label = "unit" if full else "asan"
    symbolizer = "external_symbolizer_path=/usr/bin/llvm-symbolizer-19"  # names functions, also for suppressions
    sanitizer_env = {
        **long_loops,
        "ASAN_OPTIONS": f"detect_leaks=1:abort_on_error=0:{symbolizer}",
        "LSAN_OPTIONS": f"suppressions={ROOT}/tests/support/lsan.supp:{symbolizer}",
        "UBSAN_OPTIONS": f"print_stacktrace=1:{symbolizer}",
        "TSAN_OPTIONS": f"halt_on_error=1:suppressions={ROOT}/tests/support/tsan.supp:{symbolizer}",
    }
    tidy = python("tools/lint/tidy.py", "--jobs", JOBS, *(["--worker"] if full else []))
    result = [
        Stage("cluster-programs", "the test cluster's programs", [["scripts/setup", "--no-torch", "--cluster"]], beside=True),
        Stage("cuda-wheels", "nvcc, CUDA headers and NCCL", [["scripts/setup", "--cuda"]], beside=True),
        Stage("format", "clang-format, comments, yamllint, ruff, shellcheck", [python("tools/lint/format.py")]),
        programs(),
        Stage("build", "dev preset", build("dev")[1:], ["programs"]),
        Stage("lint", "layering; a test for each source; the table of faults; bodies of kernels; each header alone",
              [python("tools/lint/layering.py"), python("tools/lint/mirror.py"), python("tools/lint/faults.py"),
               python("tools/lint/kernels.py"), python("tools/lint/headers.py", "--jobs", JOBS)],
              ["build"]),
        Stage("tidy", f"clang-tidy: {'everything' if full else 'common and controller'}", [["cmake", "--preset", "tidy"], tidy]),
        unit,
        Stage("asan", "address and undefined-behaviour sanitizers",
              [*build("asan", f"gnn_tests_label_{asan_label}"),
               ctest("asan", "-L", f"^{asan_label}$", "-LE", "slow|python", "-j", JOBS)],
              [], "asan", sanitizer_env),
        Stage("tsan", "thread sanitizer",
              [*build("tsan", "gnn_tests_label_unit"), ctest("tsan", "-L", "^unit$", "-LE", "slow", "-j", JOBS)],
              [], "tsan", sanitizer_env),
        cuda_stage(full),
        Stage("integration", "tests against a real API server and real processes",
              [ctest("dev", "-L", "^integration$", "-LE", "slow")], ["build", "cluster-programs"], "dev", beside=True),
        gpu_stage(full),
        Stage("e2e", "tests on the two-node cluster",
              [ctest("dev", "-L", "^e2e$", "-LE", "slow")], ["programs", "cluster-programs"], "dev", beside=True),
    ]
    if full:
        result.append(Stage("bench", "benchmarks compile", build("bench")))
        result.append(Stage("slow", "long loops, a report in a browser",
                            [["scripts/setup", "--no-torch", "--browser"], ctest("dev", "-L", "slow")],
                            ["build", "cluster-programs", "cuda-wheels"], "dev", long_loops))
    return result


def stages_of_change(touched):
    """What a change can touch, but for the sanitizers, CUDA and the cluster: minutes, for daily work."""

    def tests(label):
        return [test.name for test in touched.tests if label in test.labels and "slow" not in test.labels]

    def run(label, *options):
        return [ctest("dev", "-L", f"^{label}$", "-LE", "slow", "-R", f"^({'|'.join(tests(label))})$", *options)]

    def there(*suffixes):
        return [file for file in touched.files if file.endswith(suffixes) and (ROOT / file).is_file()]

    headers, sources = there(".h"), there(".h", ".cpp")
    lint = [python(f"tools/lint/{name}.py") for name in ("layering", "mirror", "faults", "kernels")]
    if headers:
        lint.append(python("tools/lint/headers.py", "--jobs", JOBS, *headers))
    result = [
        Stage("format", "clang-format, yamllint, shell syntax", [python("tools/lint/format.py")]),
        Stage("build", f"dev preset, {len(touched.targets)} targets", build("dev", *touched.targets) if touched.targets else []),
        Stage("lint", "layering; a test for each source; each changed header alone", lint, ["build"]),
    ]
    if sources:
        tidy = python("tools/lint/tidy.py", "--jobs", JOBS, *sources)
        result.append(Stage("tidy", "clang-tidy: what was changed of common and controller", [["cmake", "--preset", "tidy"], tidy]))
    if tests("unit"):
        result.append(Stage("unit", f"{len(tests('unit'))} unit tests", run("unit", "-j", JOBS), ["build"], "dev"))
    if tests("integration"):
        programs = ["scripts/setup", "--no-torch", "--cluster"]
        result.insert(0, Stage("cluster-programs", "the test cluster's programs", [programs], beside=True))
        result.append(Stage("integration", f"{len(tests('integration'))} tests against a real API server and real processes",
                            run("integration"), ["build", "cluster-programs"], "dev", beside=True))
    return result


def look_at_change():
    """What the change against main can touch. Configures, because CMake knows the targets."""
    changed.ask_for_targets(BUILD / "dev")
    ran = subprocess.run(["cmake", "--preset", "dev"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"{ran.stdout}test: cmake --preset dev failed")
    targets, tests = changed.read_targets(ROOT, BUILD / "dev"), changed.read_tests(ROOT, BUILD / "dev")
    try:
        touched = changed.touched(changed.Tree(ROOT), changed.changed_files(ROOT), targets, tests)
    except RuntimeError as error:
        sys.exit(f"test: {error}")
    print(f"test: {len(touched.files)} changed files touch {len(touched.targets)} of {len(targets)} targets and "
          f"{len(touched.tests)} of {len(tests)} tests", flush=True)
    if e2e := [test.name for test in touched.tests if "e2e" in test.labels and "slow" not in test.labels]:
        print(f"test: not run: {', '.join(e2e)}, sanitizers, CUDA: scripts/test has them", flush=True)
    return touched


def cuda_stage(full):
    """What only the CUDA build compiles: the least of it, or all with the archive for machines with a GPU."""
    commands = build("cuda", *([] if full else CUDA_OBJECTS))
    if full:
        commands.append(["scripts/gpu-check", "--built", "--pack", "build/cuda/gpu-check.tar.gz"])
    return Stage("cuda", "nvcc and NCCL compile without a GPU", commands, ["cuda-wheels"])


def gpu_stage(full):
    """The tests that want a GPU. By default those of the dev build, which are skipped and so counted by name: the CUDA
    build makes three objects then. With --full its own tests, which run where there is a GPU."""
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


@dataclass
class Outcome:
    """What came of a stage."""

    ok: bool
    seconds: float = 0.0
    cpu_seconds: float = 0.0


class Running:
    """A stage that has begun: its commands one after the other, their output in its log."""

    def __init__(self, stage):
        LOGS.mkdir(parents=True, exist_ok=True)
        self.stage = stage
        self.log = LOGS / f"{stage.name}.log"
        self.commands = iter(stage.commands)
        self.command = None
        self.process = None
        self.deadline = 0.0
        self.asked = False  # to end
        self.started = time.monotonic()
        self.cpu_seconds = 0.0
        self.output = open(self.log, "w", encoding="utf-8")  # noqa: SIM115 -- open as long as the stage runs

    def seconds(self):
        return time.monotonic() - self.started

    def outcome(self, ok):
        return Outcome(ok, self.seconds(), self.cpu_seconds)

    def wait(self):
        """The exit status of the command that has ended; adds up what it and all that it waited for has used."""
        _, status, used = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu_seconds += used.ru_utime + used.ru_stime
        return self.process.returncode

    def start_next(self):
        """Starts the next command; returns False if there is none."""
        command = next(self.commands, None)
        if command is None:
            self.output.close()
            return False
        tests = command[0] == "ctest"
        self.command = [*command, "--output-junit", str(ctest_report(self.stage))] if tests else command
        self.say("$ " + " ".join(self.command))
        # In a session of its own, so that what ends us or the time limit ends all that it has started.
        self.process = subprocess.Popen(
            self.command if tests else ["nice", "-n", str(NICENESS), *self.command],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT,
            env={**os.environ, **self.stage.env}, start_new_session=True,
        )
        self.deadline = time.monotonic() + COMMAND_SECONDS
        return True

    def say(self, line):
        self.output.write(line + "\n")
        self.output.flush()

    def end(self, sign=signal.SIGTERM):
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, sign)

    def time_out(self):
        """Ends the command; by force where it was asked to end before."""
        self.say(f"ended: it took more than {COMMAND_SECONDS} s")
        self.end(signal.SIGKILL if self.asked else signal.SIGTERM)
        self.asked = True
        self.deadline = time.monotonic() + END_SECONDS

    def tail(self):
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-60:])


class Schedule:
    """Runs stages as soon as those that they need are done; `outcomes` is what came of each."""

    def __init__(self, chosen):
        self.waiting = list(chosen)
        self.running = []
        self.outcomes = {}
        self.ends = selectors.DefaultSelector()

    def run(self):
        try:
            while self.waiting or self.running:
                self.start_ready()
                self.await_end()
        except BaseException:
            self.end_all()
            raise
        finally:
            self.ends.close()
        return self.outcomes

    def start_ready(self):
        """Starts what can start. A stage that needs one that is not among the chosen can."""
        named = {stage.name for stage in self.waiting} | {running.stage.name for running in self.running}
        for stage in list(self.waiting):
            failed = [need for need in stage.needs if need in self.outcomes and not self.outcomes[need].ok]
            if failed:
                print(f"test: {stage.name}: not run, because {', '.join(failed)} failed", flush=True)
                self.waiting.remove(stage)
                self.outcomes[stage.name] = Outcome(False)
                return self.start_ready()  # others may have waited for this one
            busy = not stage.beside and not all(running.stage.beside for running in self.running)
            if busy or named & set(stage.needs):
                continue
            self.waiting.remove(stage)
            print(f"test: {stage.name}: {stage.about}", flush=True)
            running = Running(stage)
            self.running.append(running)
            self.go_on(running)
        return None

    def go_on(self, running):
        """Starts the next command of a stage, or notes that it is done."""
        if running.start_next():
            self.ends.register(os.pidfd_open(running.process.pid), selectors.EVENT_READ, running)
        else:
            self.running.remove(running)
            self.outcomes[running.stage.name] = running.outcome(True)
            print(f"test: {running.stage.name} ok, {running.seconds() / 60:.1f} min", flush=True)

    def await_end(self):
        """Waits until a command has ended, or has to be."""
        if not self.running:
            return
        limit = min(running.deadline for running in self.running)
        for key, _ in self.ends.select(max(0.0, limit - time.monotonic())):
            self.ends.unregister(key.fileobj)
            os.close(key.fd)
            running = key.data
            if running.wait() == 0:
                self.go_on(running)
            else:
                self.fail(running)
        for running in self.running:
            if time.monotonic() > running.deadline:
                running.time_out()

    def fail(self, running):
        running.output.close()
        self.running.remove(running)
        self.outcomes[running.stage.name] = running.outcome(False)
        print(running.tail())
        command = " ".join(running.command)
        print(f"test: {running.stage.name} FAILED: {command} (whole output: {running.log})", flush=True)

    def end_all(self):
        for running in self.running:
            running.end()
        limit = time.monotonic() + END_SECONDS
        for running in filter(lambda each: each.process, self.running):
            try:
                running.process.wait(max(0.0, limit - time.monotonic()))
            except subprocess.TimeoutExpired:
                running.end(signal.SIGKILL)
                running.process.wait()


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
    for name, outcome in outcomes.items():
        case = xml.SubElement(suite, "testcase", name=name, classname="stage", time=f"{outcome.seconds:.1f}")
        if not outcome.ok:
            xml.SubElement(case, "failure", message=f"see {name}.log")
    LOGS.mkdir(parents=True, exist_ok=True)
    xml.ElementTree(suite).write(LOGS / "stages.xml", encoding="utf-8", xml_declaration=True)


def main():
    parser = argparse.ArgumentParser(prog="scripts/test")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--fast", action="store_true")
    modes.add_argument("--full", action="store_true")
    modes.add_argument("--changed", action="store_true")
    parser.add_argument("--stage", action="append", default=[])
    parser.add_argument("--list", action="store_true", help="name the stages and run none")
    parser.add_argument("--check", action="store_true", help="judge the other options and run nothing")
    options = parser.parse_args()
    mode = "full" if options.full else "fast" if options.fast else "default"
    if options.changed:
        if options.list or options.stage:
            parser.error("--changed chooses its stages itself")
        return 0 if options.check else run_chosen(stages_of_change(look_at_change()))
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
    return run_chosen(chosen)


def run_chosen(chosen):
    """Runs stages without what earlier runs left."""
    # Of every preset, so that what lies there afterwards is of this run.
    for preset in {stage.reports for stage in stages("full")} - {""}:
        shutil.rmtree(BUILD / preset / "reports", ignore_errors=True)
    for stage in chosen:
        ctest_report(stage).unlink(missing_ok=True)
    return run(chosen)


def run(chosen):
    """Runs stages and says how it went; returns the exit status."""
    outcomes = Schedule(chosen).run()
    write_report({stage.name: outcomes[stage.name] for stage in chosen})

    print("\nstage          minutes  CPU minutes  result")
    total = Count()
    for stage in chosen:
        outcome = outcomes[stage.name]
        count = count_stage(stage, outcome.ok)
        if os.environ.get("CI"):
            refuse_skips(count)
        print(f"{stage.name:14} {outcome.seconds / 60:7.1f}  {outcome.cpu_seconds / 60:11.1f}  {'FAILED' if count.failed else 'ok'}")
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
