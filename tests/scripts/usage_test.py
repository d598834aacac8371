"""Every script refuses what it does not know with its usage and status 2, and tells its usage when asked."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ["setup", "test", "images", "demo", "cluster", "gpu-check"]

# Programs that people or tests call outside scripts/. A generator that took an unknown option for none would rewrite
# its file.
TOOLS = [
    "tools/generate/dashboards.py", "tools/generate/chart_package.py", "tools/generate/chart_readme.py", "tools/generate/chart_schema.py",
    "tools/generate/job_schema.py", "tools/generate/manifests.py", "tools/generate/reference.py",
    "tools/generate/upgrade_fixture.py",
    "tests/bench/baselines/run",
    "tools/cluster/base_image",
    "tools/lint/faults.py", "tools/lint/format.py", "tools/lint/headers.py", "tools/lint/kernels.py", "tools/lint/layering.py",
    "tools/lint/mirror.py", "tools/lint/tidy.py",
    "tools/stages/run_stages.py",
    "tests/worker/nn/parity/make_parity.py",
]


def run_program(command, **environment):
    return subprocess.run(
        [str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        env={**os.environ, **environment},
    )


def run(script, *arguments):
    return run_program([ROOT / "scripts" / script, *arguments])


def run_tool(tool, *arguments):
    command = [ROOT / tool, *arguments]
    if tool.endswith(".py"):
        command.insert(0, sys.executable)
    if not tool.endswith("make_parity.py"):
        return run_program(command)
    # Its libraries are those of the peers' environments; what it does with its arguments needs none.
    with tempfile.TemporaryDirectory(prefix="gnn-usage-") as folder:
        for library in ("numpy", "torch"):
            (Path(folder) / f"{library}.py").touch()
        return run_program(command, PYTHONPATH=folder)


class Usage(unittest.TestCase):
    def assert_refused(self, script, *arguments):
        ran = run(script, *arguments)
        self.assertEqual(ran.returncode, 2, (script, arguments, ran.stderr))
        self.assertIn("usage: ", ran.stderr)
        self.assertEqual(ran.stdout, "")

    def test_all_scripts_are_tested(self):
        self.assertEqual(sorted(SCRIPTS), sorted(path.name for path in (ROOT / "scripts").iterdir() if path.is_file()))

    def test_unknown_option(self):
        for script in SCRIPTS:
            with self.subTest(script=script):
                self.assert_refused(script, "--no-such-option")

    def test_unknown_word(self):
        for script in SCRIPTS:
            with self.subTest(script=script):
                self.assert_refused(script, "nonsense")

    def test_an_option_without_its_value(self):
        self.assert_refused("test", "--stage")
        self.assert_refused("setup", "--print-dir")
        self.assert_refused("setup", "--times")
        self.assert_refused("images", "controller", "--tag")
        self.assert_refused("gpu-check", "--pack")

    def test_options_that_contradict(self):
        self.assert_refused("setup", "--cuda", "--no-torch")
        self.assert_refused("setup", "--print-dir", "nonsense")
        self.assert_refused("test", "--fast", "--full")
        self.assert_refused("gpu-check", "--pack", "check.tar.gz", "tests")

    def test_an_unknown_stage_is_refused_before_set_up(self):
        self.assert_refused("test", "--stage", "nonsense")

    def test_the_stages_are_listed_without_set_up(self):
        listed = run("test", "--list")
        self.assertEqual((listed.returncode, listed.stderr), (0, ""))
        self.assertRegex(listed.stdout, r"(?m)^format ")

    def test_all_tools_are_tested(self):
        found = {
            path.relative_to(ROOT).as_posix()
            for folder in ("tools/generate", "tools/lint", "tools/stages")
            for path in (ROOT / folder).glob("*.py") if "__main__" in path.read_text(encoding="utf-8")
        }
        self.assertGreater(len(found), 8)
        self.assertLessEqual(found, set(TOOLS))

    def test_tools_refuse_what_they_do_not_know(self):
        for tool in TOOLS:
            for word in ("--no-such-option", "nonsense"):
                with self.subTest(tool=tool, word=word):
                    ran = run_tool(tool, word)
                    self.assertEqual(ran.returncode, 2, ran.stdout + ran.stderr)
                    self.assertIn("usage: ", ran.stderr)
                    self.assertEqual(ran.stdout, "")

    def test_a_choice_that_is_missing(self):
        ran = run_tool("tests/worker/nn/parity/make_parity.py")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("usage: ", ran.stderr)

    def test_headers_before_any_build_say_what_is_missing(self):
        with tempfile.TemporaryDirectory(prefix="gnn-usage-") as folder:
            ran = run_tool("tools/lint/headers.py", "--build", folder)
        self.assertEqual((ran.returncode, ran.stdout), (1, ""))
        self.assertRegex(ran.stderr, r"^headers: .*compile_commands.json is missing: .*\n$")

    def test_help_says_what_needs_root(self):
        self.assertRegex(run("test", "--help").stdout, r"e2e .*needs root")

    def test_help_is_no_error(self):
        for script in SCRIPTS:
            with self.subTest(script=script):
                ran = run(script, "--help")
                self.assertEqual((ran.returncode, ran.stderr), (0, ""))
                self.assertIn(f"usage: scripts/{script}", ran.stdout)


if __name__ == "__main__":
    unittest.main()
