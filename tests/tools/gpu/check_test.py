"""What gpu-check says of archives, machines and programs that are not fit, and that it leaves nothing running. Programs are
shell scripts, and so is the driver's nvidia-smi: no GPU is needed to fail."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CHECK = ROOT / "tools/gpu/check.py"
TORCH = "2.11.0+cu130"
REPORT = '<testsuites><testsuite name="a"><testcase classname="A" name="Works"/></testsuite></testsuites>'
# Of GoogleTest's arguments the first is where its report goes.
PASSES = f"""echo '{REPORT}' > "${{1#--gtest_output=xml:}}" """
FIGURES = json.dumps({"rows": [{"what": "copies", "value": 2.0, "unit": "GB/s", "goal": ">= 1"}]})
MEASURES = f"""echo '{FIGURES}' > "$2" """
GPU = "echo 'A GPU, 580.1, 80 GB, 9.0'"


class Machine(unittest.TestCase):
    """A machine with a GPU, torch, and an archive of one test and one benchmark."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gnn-gpu-check-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.archive = self.folder / "archive"
        self.out = self.folder / "out"
        self.write_program("archive/bin/a_test", PASSES)
        self.write_program("archive/bin/a_bench", MEASURES)
        self.write_program("path/nvidia-smi", GPU)
        self.write("site/torch/__init__.py", "")
        self.write("site/torch/version.py", f"__version__ = '{TORCH}'\n")
        self.write("site/torch/lib/libtorch_cuda.so", "")
        self.write_manifest()
        shutil.copy(CHECK, self.archive / "run")

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def write_program(self, name, script):
        self.write(name, f"#!/bin/sh\n{script}\n").chmod(0o755)

    def write_manifest(self, **changed):
        self.write("archive/manifest.json", json.dumps({
            "torch": TORCH, "glibc": "2.1", "revision": "abc",
            "tests": [{"name": "a_test", "program": "bin/a_test", "environment": {}, "sanitize": True}],
            "benches": [{"name": "a_bench", "program": "bin/a_bench", "stage": "measure"}], **changed,
        }))

    def command(self, *arguments):
        return [sys.executable, "-I", "-c", STARTER, self.archive / "run", self.folder / "site", "--out", self.out, *arguments]

    def environment(self):
        return {**os.environ, "PATH": f"{self.folder / 'path'}:/usr/bin:/bin", "LD_LIBRARY_PATH": ""}

    def check(self, *arguments, **changed):
        environment = {**self.environment(), **changed}
        ran = subprocess.run(
            list(map(str, self.command(*arguments))), env=environment, cwd=self.folder, capture_output=True, text=True,
            check=False, timeout=120,
        )
        self.assertNotIn("Traceback", ran.stderr)
        return ran

    def found(self, stage):
        return json.loads((self.out / f"{stage}.json").read_text(encoding="utf-8"))["programs"]

    def assert_unfit(self, said, *arguments):
        ran = self.check(*arguments)
        self.assertEqual(ran.returncode, 2, ran.stdout + ran.stderr)
        self.assertRegex(ran.stderr, said)
        self.assertEqual(len(ran.stderr.strip().splitlines()), 1, ran.stderr)

    def assert_fails(self, said, *stages, **changed):
        """The stage fails with that word, the others pass, and all of them leave what they found."""
        ran = self.check("tests", "measure", **changed)
        self.assertEqual(ran.returncode, 1, ran.stdout + ran.stderr)
        for stage in ("tests", "measure"):
            failed = " ".join(each["failed"] for each in self.found(stage))
            if stage in stages:
                self.assertRegex(failed, said)
            else:
                self.assertEqual(failed, "")
        self.assertIn("gpu-check: FAILED: ", ran.stdout)

    def assert_gone(self, file):
        """The process whose id a program wrote there has ended."""
        pid = int((self.folder / file).read_text(encoding="utf-8"))
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        self.assertEqual(state, "Z")  # of whoever adopted it


# Runs an archive with its torch; where a test says so, with another limit for stages, or one that is over once the program of
# the first has written to a pipe.
STARTER = """
import os, runpy, sys, types
run, site = sys.argv[1:3]
sys.path.insert(0, site)
sys.argv[:] = [run, *sys.argv[3:]]
main = runpy.run_path(run)["main"]
names = main.__globals__
if "STAGE_SECONDS" in os.environ:
    names["STAGE_SECONDS"] = float(os.environ["STAGE_SECONDS"])
if "OVER_AT" in os.environ:
    real = names["select"]
    def over(*_):
        open(os.environ["OVER_AT"]).read()
        names["select"] = real
        return [], [], []
    names["select"] = types.SimpleNamespace(select=over)
sys.exit(main())
"""


class Check(Machine):
    def test_leaves_what_it_found_of_each_stage_and_ends_with_a_table(self):
        ran = self.check("tests", "measure")
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertEqual(self.found("tests")[0]["passed"], 1)
        self.assertEqual(self.found("measure")[0]["rows"][0]["value"], 2.0)
        self.assertRegex(ran.stdout, r"copies +2 GB/s  goal >= 1: met\ngpu-check: green\n$")

    def test_says_what_the_machine_lacks(self):
        (self.folder / "path/nvidia-smi").unlink()
        self.assert_unfit("no GPU: there is no nvidia-smi")
        self.write_program("path/nvidia-smi", "echo 'No devices were found'; exit 6")
        self.assert_unfit("no GPU: nvidia-smi says 'No devices were found'")
        self.write_program("path/nvidia-smi", GPU)
        self.write("site/torch/version.py", "__version__ = '2.10.0+cu130'\n")
        self.assert_unfit(r"need torch 2\.11\.0\+cu130, .* is torch 2\.10\.0\+cu130")
        (self.folder / "site/torch/version.py").unlink()
        self.assert_unfit(r"need torch 2\.11\.0\+cu130, .* is torch of unknown version")
        self.write("site/torch/version.py", f"__version__ = '{TORCH}'\n")
        (self.folder / "site/torch/lib/libtorch_cuda.so").unlink()
        self.assert_unfit("this torch is built without CUDA")
        shutil.rmtree(self.folder / "site/torch")
        self.assert_unfit(r"has no torch: install torch==2\.11\.0\+cu130")
        self.write_manifest(glibc="99.0")
        self.assert_unfit(r"need glibc 99\.0 or newer, found glibc ")

    def test_says_that_an_archive_is_not_whole(self):
        (self.archive / "bin/a_bench").unlink()
        self.assert_unfit("archive is not whole: there is no .*/bin/a_bench")
        manifest = self.archive / "manifest.json"
        manifest.write_text(manifest.read_text(encoding="utf-8")[:40], encoding="utf-8")
        self.assert_unfit("archive is not whole: .*manifest.json")
        manifest.unlink()
        self.assert_unfit("archive is not whole: .*manifest.json")

    def test_says_where_it_cannot_write(self):
        self.out = self.write("a file", "")
        self.assert_unfit("--out .*a file: ")
        self.out = Path("/proc/gnn-gpu-check")
        self.assert_unfit("--out /proc/gnn-gpu-check: ")
        if os.geteuid() != 0:  # for whom no folder is read-only
            self.out = self.folder / "read-only"
            self.out.mkdir(mode=stat.S_IRUSR | stat.S_IXUSR)
            self.assert_unfit("--out .*read-only: ")

    def test_goes_on_after_a_program_that_crashes_or_is_none(self):
        self.write_program("archive/bin/a_test", "kill -SEGV $$")
        self.assert_fails("ended with -11", "tests")
        self.write("archive/bin/a_test", "no program\n").chmod(0o755)
        self.assert_fails("cannot be started: ", "tests")

    def test_goes_on_after_reports_and_figures_that_are_cut_or_missing(self):
        self.write_program("archive/bin/a_test", PASSES.replace("</testsuites>", ""))
        self.write_program("archive/bin/a_bench", MEASURES.replace("]}", ""))
        self.assert_fails("cannot be read", "tests", "measure")
        self.write_program("archive/bin/a_bench", MEASURES.replace('"value"', '"amount"'))
        self.assert_fails("cannot be read", "tests", "measure")
        self.write_program("archive/bin/a_test", "true")
        self.write_program("archive/bin/a_bench", "true")
        self.assert_fails("left no report of its cases|wrote no figures", "tests", "measure")

    def test_ends_a_program_that_hangs_with_all_that_it_started(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        self.write_program("archive/bin/a_test", f"{PASSES}\nsleep 1000 & echo $! > {self.folder}/child; echo > {pipe}; wait")
        self.assert_fails("took longer than the 480 s", "tests", OVER_AT=str(pipe))
        self.assert_gone("child")

    def test_begins_no_program_when_its_stage_has_no_time_left(self):
        self.write_program("archive/bin/a_test", f"{PASSES}\ntouch {self.folder}/begun")
        self.assert_fails("not begun: its stage has used up its 0 s", "tests", "measure", STAGE_SECONDS="0")
        self.assertFalse((self.folder / "begun").exists())

    def test_ends_what_a_program_left_running(self):
        self.write_program("archive/bin/a_test", f"{PASSES}\nsleep 1000 >&- 2>&- & echo $! > {self.folder}/child")
        self.assertEqual(self.check("tests").returncode, 0)
        self.assert_gone("child")

    def test_leaves_nothing_running_when_it_is_ended(self):
        os.mkfifo(self.folder / "begun")
        self.write_program("archive/bin/a_test", f"echo $$ > {self.folder}/child; echo > {self.folder}/begun; exec sleep 1000")
        for sign in (signal.SIGTERM, signal.SIGINT):
            with subprocess.Popen(
                list(map(str, self.command("tests"))), env=self.environment(), cwd=self.folder, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True, start_new_session=True,
            ) as running:
                (self.folder / "begun").read_text(encoding="utf-8")
                running.send_signal(sign)
                _, said = running.communicate(timeout=60)
            self.assertEqual(running.returncode, 128 + sign)
            self.assertEqual(said, f"gpu-check: ended by {sign.name}\n")
            self.assert_gone("child")


if __name__ == "__main__":
    unittest.main()
