"""How scripts/test runs its stages and counts what came of them."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path
from unittest import mock

import changed
import run_stages

REPORT = """<testsuites><testsuite name="a">{cases}</testsuite></testsuites>"""
PASSED = '<testcase classname="Suite" name="Works" status="run"/>'
FAILED = '<testcase classname="Suite" name="Breaks" status="run"><failure message="no"/></testcase>'
DISABLED = '<testcase classname="Suite" name="Off" status="notrun"/>'


def skipped(reason):
    return f'<testcase classname="Suite" name="Waits" status="run"><skipped message="a_test.cpp:3&#x0A;{reason}"/></testcase>'


class Stages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gnn-stages-")
        self.addCleanup(folder.cleanup)
        self.build = Path(folder.name)
        for name, value in {"BUILD": self.build, "LOGS": self.build / "test-logs"}.items():
            patch = mock.patch.object(run_stages, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        patch = mock.patch.dict(os.environ)
        patch.start()
        self.addCleanup(patch.stop)
        os.environ.pop("CI", None)

    def stage(self, name, *commands, **fields):
        return run_stages.Stage(name, "a stage of the test", [[str(word) for word in command] for command in commands], **fields)

    def stage_of_tests(self, **entries):
        """A stage whose CTest has run these entries: (CTest's status, cases of the report, or None for no report)."""
        stage = self.stage("unit", ["true"], reports="dev")
        reports = self.build / "dev" / "reports"
        reports.mkdir(parents=True)
        suite = xml.Element("testsuite")
        for name, (status, cases) in entries.items():
            xml.SubElement(suite, "testcase", name=name, status=status)
            if cases is not None:
                (reports / f"{name}.xml").write_text(REPORT.format(cases=cases), encoding="utf-8")
        (self.build / "test-logs").mkdir()
        xml.ElementTree(suite).write(run_stages.ctest_report(stage))
        return stage

    def run_(self, *stages):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = run_stages.run(list(stages))
        return status, output.getvalue()

    def test_passed_stages_and_cases_are_counted(self):
        status, output = self.run_(
            self.stage("build", ["true"]), self.stage_of_tests(a=("run", PASSED + DISABLED), b=("run", PASSED))
        )
        self.assertEqual(status, 0)
        self.assertEqual(output.splitlines()[-1], "3 passed, 0 failed, 0 skipped")

    def test_a_failed_command_is_named_with_its_log_and_output(self):
        status, output = self.run_(self.stage("build", ["sh", "-c", "echo worker/x.h:3: broken; exit 3"], ["true"]))
        self.assertEqual(status, 1)
        self.assertIn("worker/x.h:3: broken", output)
        self.assertIn("test: build FAILED: sh -c", output)
        self.assertIn(str(self.build / "test-logs" / "build.log"), output)
        self.assertEqual(output.splitlines()[-1], "0 passed, 1 failed, 0 skipped")

    def test_a_command_that_hangs_is_ended_with_what_it_has_started(self):
        never, beside = (self.build / name for name in ("never", "beside"))
        for pipe in (never, beside):
            os.mkfifo(pipe)
        reader = os.open(beside, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        with mock.patch.object(run_stages, "COMMAND_SECONDS", 0.2):
            status, output = self.run_(self.stage("build", ["sh", "-c", f"exec 3>{beside}; cat {never} & cat {never}"]))
        self.assertEqual(status, 1)
        self.assertIn("ended: it took more than 0.2 s", output)
        os.set_blocking(reader, True)
        self.assertEqual(os.read(reader, 1), b"", "the end comes when nobody has the pipe any more")

    def test_a_stage_that_needs_a_failed_one_counts_as_failed(self):
        status, output = self.run_(
            self.stage("build", ["false"]), self.stage("unit", ["true"], needs=["build"], reports="dev"),
            self.stage("cuda", ["true"]),
        )
        self.assertEqual(status, 1)
        self.assertIn("test: unit: not run, because build failed", output)
        self.assertEqual(output.splitlines()[-1], "1 passed, 2 failed, 0 skipped")

    def test_what_waits_runs_beside_what_keeps_the_cores_busy(self):
        there, back = (self.build / name for name in ("there", "back"))
        for pipe in (there, back):
            os.mkfifo(pipe)
        status, output = self.run_(  # each needs the other to run
            self.stage("e2e", ["sh", "-c", f"echo >{there}; cat {back}"], beside=True),
            self.stage("build", ["sh", "-c", f"cat {there}; echo >{back}"]),
        )
        self.assertEqual(status, 0)
        self.assertEqual(output.splitlines()[:2], ["test: e2e: a stage of the test", "test: build: a stage of the test"])

    def test_one_stage_at_a_time_keeps_the_cores_busy(self):
        alone = ["mkdir", self.build / "alone"], ["rmdir", self.build / "alone"]
        status, output = self.run_(*(self.stage(name, *alone) for name in ("format", "build", "lint")))
        self.assertEqual(status, 0, output)
        self.assertEqual(re.findall(r"test: (\w+) ok", output), ["format", "build", "lint"])

    def test_a_stage_waits_for_what_it_needs_and_lets_others_pass(self):
        pipe, mark = self.build / "pipe", self.build / "programs"
        os.mkfifo(pipe)
        status, output = self.run_(
            self.stage("programs", ["sh", "-c", f"cat {pipe}"], ["touch", mark], beside=True),
            self.stage("integration", ["test", "-e", mark], needs=["programs"]),
            self.stage("build", ["sh", "-c", f"echo >{pipe}"]),
        )
        self.assertEqual(status, 0, output)
        self.assertEqual(re.findall(r"test: (\w+) ok", output)[-1], "integration")

    def test_a_failed_stage_lets_others_end(self):
        pipe = self.build / "pipe"
        os.mkfifo(pipe)
        status, output = self.run_(
            self.stage("e2e", ["sh", "-c", f"cat {pipe}"], beside=True), self.stage("build", ["false"]),
            self.stage("unit", ["true"], needs=["build"]), self.stage("cuda", ["true"], needs=["unit"]),
            self.stage("format", ["sh", "-c", f"echo >{pipe}"]),
        )
        self.assertEqual(status, 1)
        self.assertIn("test: cuda: not run, because unit failed", output)
        self.assertEqual(output.splitlines()[-1], "2 passed, 3 failed, 0 skipped")

    def test_an_interrupt_ends_all_that_runs(self):
        pipe, beside = (self.build / name for name in ("never", "beside"))
        for each in (pipe, beside):
            os.mkfifo(each)
        reader = os.open(beside, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        self.addCleanup(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, signal.default_int_handler))
        waits = ["sh", "-c", f"exec 3>{beside}; cat {pipe} & cat {pipe}"]
        with self.assertRaises(KeyboardInterrupt):
            self.run_(
                self.stage("e2e", waits, beside=True), self.stage("integration", waits, beside=True),
                self.stage("build", ["sh", "-c", f"kill -TERM {os.getpid()}; cat {pipe}"]),
            )
        os.set_blocking(reader, True)
        self.assertEqual(os.read(reader, 1), b"", "the end comes when nobody has the pipe any more")

    def test_all_but_tests_give_way(self):
        programs = self.build / "bin"
        programs.mkdir()
        (programs / "ctest").write_text("#!/bin/sh\nnice\n", encoding="utf-8")
        (programs / "ctest").chmod(0o755)
        env = {"PATH": f"{programs}:{os.environ['PATH']}"}
        self.run_(self.stage("build", ["nice"]), self.stage("unit", ["ctest"], env=env))
        said = {name: (self.build / "test-logs" / f"{name}.log").read_text().splitlines()[-1] for name in ("build", "unit")}
        ours = os.nice(0)
        self.assertEqual(said, {"build": str(min(ours + run_stages.NICENESS, 19)), "unit": str(ours)})

    def test_a_failed_case_is_named(self):
        count = run_stages.count_stage(self.stage_of_tests(a=("fail", PASSED + FAILED)), False)
        self.assertEqual((count.passed, count.failed), (1, ["Suite.Breaks"]))

    def test_a_test_that_crashed_is_named_beside_others_that_failed(self):
        stage = self.stage_of_tests(a=("fail", FAILED), b=("fail", None), c=("fail", PASSED), d=("run", "<damaged"))
        self.assertEqual(
            run_stages.count_stage(stage, False).failed,
            ["Suite.Breaks", *(f"{name}: crashed, ran out of time or did not start" for name in "bc"), "d: left no report"],
        )

    def test_reports_of_tests_that_this_stage_did_not_run_do_not_count(self):
        stage = self.stage_of_tests(a=("run", PASSED))
        (self.build / "dev" / "reports" / "stale.xml").write_text(REPORT.format(cases=FAILED), encoding="utf-8")
        self.assertEqual(run_stages.count_stage(stage, True).failed, [])

    def test_skips_are_counted_with_their_reasons(self):
        status, output = self.run_(self.stage_of_tests(a=("run", PASSED + skipped("no CUDA device"))))
        self.assertEqual(status, 0)
        self.assertIn("1 x no CUDA device: Suite.Waits", output)
        self.assertEqual(output.splitlines()[-1], "1 passed, 0 failed, 1 skipped")

    def test_in_ci_only_known_reasons_may_skip(self):
        os.environ["CI"] = "true"
        status, output = self.run_(
            self.stage_of_tests(
                a=("run", skipped("no CUDA device")),
                b=("run", skipped("no memory cgroup can be made here")),
                c=("run", skipped("the processor has no products of bfloat16")),
            )
        )
        self.assertEqual(status, 1)
        self.assertIn("Suite.Waits: skipped in CI: no memory cgroup can be made here", output)
        self.assertEqual(output.splitlines()[-1], "0 passed, 1 failed, 2 skipped")

    def test_stages_are_reported_as_junit(self):
        self.run_(self.stage("format", ["true"]), self.stage("build", ["false"]))
        cases = list(xml.parse(self.build / "test-logs" / "stages.xml").iter("testcase"))
        self.assertEqual([(case.get("name"), len(case)) for case in cases], [("format", 0), ("build", 1)])

    def test_default_stages_hold_what_a_change_must_pass(self):
        names = [stage.name for stage in run_stages.stages("default")]
        self.assertEqual(
            names,
            [
                "cluster-programs", "cuda-wheels", "format", "programs", "build", "lint", "tidy", "unit", "asan", "tsan", "cuda",
                "integration", "gpu", "e2e",
            ],
        )
        self.assertEqual([stage.name for stage in run_stages.stages("fast")], ["build", "unit"])
        self.assertIn("slow", [stage.name for stage in run_stages.stages("full")])

    def test_the_address_sanitizer_has_its_label_by_default_and_every_unit_test_in_full(self):
        for mode, label in (("default", "asan"), ("full", "unit")):
            with self.subTest(mode=mode):
                asan = next(stage for stage in run_stages.stages(mode) if stage.name == "asan")
                self.assertEqual(asan.commands[1][-1], f"gnn_tests_label_{label}")
                self.assertEqual(asan.commands[2][-6:-2], ["-L", f"^{label}$", "-LE", "slow|python"])

    def test_the_label_asan_is_on_unit_tests_of_programs_alone(self):
        listed = subprocess.run(
            ["ctest", "--test-dir", os.environ["GNN_BUILD_DIR"], "--show-only=json-v1"], check=True, stdout=subprocess.PIPE
        ).stdout
        labels = {
            test["name"]: next(item["value"] for item in test["properties"] if item["name"] == "LABELS")
            for test in json.loads(listed)["tests"]
        }
        sanitized = {name for name, of_test in labels.items() if "asan" in of_test}
        self.assertLessEqual({"gnn_api_test", "gnn_common_test", "gnn_reconcile_test", "gnn_sampling_core_test"}, sanitized)
        for name in sanitized:
            self.assertEqual(set(labels[name]), {"unit", "asan"})

    def test_every_label_of_a_test_is_run_by_a_stage(self):
        known = re.search(r'MATCHES "\^\(([a-z0-9|]+)\)\$"', (run_stages.ROOT / "cmake/GnnTargets.cmake").read_text()).group(1)
        stages = run_stages.stages("default") + run_stages.stages("full")
        commands = [command for stage in stages for command in stage.commands if command[0] == "ctest"]
        selected = {command[command.index("-L") + 1].strip("^$") for command in commands}
        self.assertEqual(selected, set(known.split("|")))

    def test_gpu_tests_are_those_of_the_build_that_is_made(self):
        for mode, preset, need in (("default", "dev", "build"), ("full", "cuda", "cuda")):
            with self.subTest(mode=mode):
                by_name = {stage.name: stage for stage in run_stages.stages(mode)}
                gpu = by_name["gpu"]
                self.assertEqual((gpu.reports, gpu.needs), (preset, [need]))
                self.assertIn(f"build/{preset}", gpu.commands[0])
                self.assertIn("^gpu$", gpu.commands[0])
        self.assertEqual(by_name["cuda"].commands[1][:4], ["cmake", "--build", "build/cuda", "-j"])
        self.assertNotIn("--target", by_name["cuda"].commands[1])
        self.assertEqual(by_name["cuda"].commands[2][:3], ["scripts/gpu-check", "--built", "--pack"])

    def test_ci_lets_the_gpu_tests_skip(self):
        source = (run_stages.ROOT / "tests/worker/nn/cuda/spmm_test.cpp").read_text(encoding="utf-8")
        reasons = re.findall(r'GTEST_SKIP\(\) << "([^"]+)"', source)
        self.assertEqual(len(reasons), 2)
        for reason in reasons:
            self.assertRegex(reason, run_stages.SKIPS_IN_CI)

    def main(self, *arguments):
        """The names of the stages that a command line runs."""
        ran = []
        run = mock.patch.object(run_stages, "run", side_effect=lambda stages: ran.extend(stages) or 0)
        with run, mock.patch("sys.argv", ["run_stages.py", *arguments]):
            self.assertEqual(run_stages.main(), 0)
        return [stage.name for stage in ran]

    def test_a_chosen_stage_brings_what_it_needs(self):
        self.assertEqual(self.main("--stage", "lint"), ["programs", "build", "lint"])
        self.assertEqual(self.main("--stage", "unit", "--stage", "format"), ["format", "programs", "build", "unit"])
        self.assertEqual(self.main("--full", "--stage", "gpu"), ["cuda-wheels", "cuda", "gpu"])
        self.assertEqual(self.main("--stage", "tidy"), ["tidy"])

    def test_reports_of_an_earlier_run_are_removed(self):
        for preset in ("dev", "asan", "tsan", "cuda"):
            (self.build / preset / "reports").mkdir(parents=True)
        self.main("--stage", "format")
        self.assertEqual(list(self.build.glob("*/reports")), [])

    def test_an_unknown_stage_is_refused(self):
        argv = mock.patch("sys.argv", ["run_stages.py", "--fast", "--stage", "nonsense"])
        with argv, contextlib.redirect_stderr(io.StringIO()) as errors, self.assertRaises(SystemExit) as end:
            run_stages.main()
        self.assertEqual(end.exception.code, 2)
        self.assertIn("usage: scripts/test", errors.getvalue())
        self.assertIn("unknown stage nonsense; there are build, unit", errors.getvalue())

    def stages_of(self, *files, targets=(), tests=()):
        """What --changed runs: stage -> its last command."""
        chosen = run_stages.stages_of_change(changed.Touched(list(files), list(targets), list(tests)))
        return {stage.name: stage.commands[-1] if stage.commands else [] for stage in chosen}

    def test_a_change_runs_what_it_can_touch(self):
        unit, slow = changed.Test("gnn_common_test", ["unit"]), changed.Test("gnn_long_test", ["integration", "slow"])
        found = self.stages_of("common/log.h", "README.md", targets=["gnn_common"], tests=[unit, slow])
        self.assertEqual(list(found), ["format", "build", "lint", "tidy", "unit"])
        self.assertEqual(found["build"][-2:], ["--target", "gnn_common"])
        self.assertEqual(found["lint"][-1], "common/log.h")
        self.assertEqual(found["tidy"][-1], "common/log.h")
        self.assertIn("^(gnn_common_test)$", found["unit"])

    def test_a_change_that_integration_tests_notice_has_the_clusters_programs(self):
        found = self.stages_of("charts/values.yaml", tests=[changed.Test("gnn_chart_test", ["integration", "python"])])
        self.assertEqual(list(found), ["cluster-programs", "format", "build", "lint", "integration"])
        self.assertEqual(found["build"], [])

    def test_a_change_chooses_its_stages_itself(self):
        argv = mock.patch("sys.argv", ["run_stages.py", "--changed", "--stage", "unit"])
        with argv, contextlib.redirect_stderr(io.StringIO()) as errors, self.assertRaises(SystemExit):
            run_stages.main()
        self.assertIn("--changed chooses its stages itself", errors.getvalue())

    def test_a_check_of_the_options_runs_nothing(self):
        self.assertEqual(self.main("--check", "--stage", "unit"), [])


if __name__ == "__main__":
    unittest.main()
