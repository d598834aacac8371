"""What scripts/gpu-check puts into an archive, and what the archive does on a machine with a GPU.

The machine is a folder of stand-ins: nvidia-smi, compute-sanitizer, and a torch of which only the version counts. The programs of
the archive are scripts that write the reports and figures which GoogleTest and the benchmarks would write.
"""

import importlib.util
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]

# Writes a report with one case, and what it was given, as GoogleTest does.
PROGRAM = """#!/bin/sh
echo "said by $0"
echo "$0 $*" >>"$STAND_IN/started"
echo "$LD_LIBRARY_PATH" >"$STAND_IN/library-path"
echo "$DATA" >"$STAND_IN/data"
for word; do case $word in --gtest_output=xml:*) report=${word#--gtest_output=xml:} ;; esac; done
cat >"$report" <<END
<testsuites><testsuite name="Case"><testcase classname="Case" name="One" CHILD</testsuite></testsuites>
END
exit CODE
"""

PASSED = 'status="run" result="completed" />'
SKIPPED = 'status="run" result="skipped"><skipped message="x.cpp:1&#x0A;fewer than two GPUs" /></testcase>'
FAILED = 'status="run"><failure message="no" /></testcase>'

BENCH = """#!/bin/sh
test "$1" = --json || exit 3
cat >"$2" <<END
FIGURES
END
exit CODE
"""

SANITIZER = """#!/bin/sh
echo "compute-sanitizer $*" >>"$STAND_IN/sanitized"
while [ ! -x "$1" ]; do shift; done
exec "$@"
"""


def program(child=PASSED, code=0):
    return PROGRAM.replace("CHILD", child).replace("CODE", str(code))


def bench(figures, code=0):
    return BENCH.replace("FIGURES", json.dumps(figures)).replace("CODE", str(code))


def load_check():
    spec = importlib.util.spec_from_file_location("check", ROOT / "tools/gpu/check.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="gnn-gpu-check-test-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def executable(self, place, text):
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
        return path


class Machine(Folder):
    """An unpacked archive with one test and one benchmark, on a machine that has all it needs."""

    def setUp(self):
        super().setUp()
        self.archive = self.folder / "gnn-gpu-check"
        self.manifest = {
            "torch": "2.11.0+cu130", "glibc": "2.2", "revision": "abc",
            "tests": [{"name": "first_test", "program": "bin/first_test", "environment": {"DATA": "{here}/data"}, "sanitize": True}],
            "benches": [{"name": "speed-bench", "stage": "speed", "program": "bin/speed-bench"}],
        }
        self.executable("gnn-gpu-check/bin/first_test", program())
        self.executable("gnn-gpu-check/bin/speed-bench", bench({"rows": [
            {"what": "edges", "value": 312.5, "unit": "M/s", "goal": ">= 300"},
            {"what": "ratio", "value": 1.5, "unit": "", "goal": "<= 1.2"},
            {"what": "bus", "value": 50, "unit": "GB/s"},
        ]}))
        self.executable("gnn-gpu-check/run", (ROOT / "tools/gpu/check.py").read_text(encoding="utf-8"))
        self.executable("bin/nvidia-smi", "#!/bin/sh\necho 'NVIDIA H100 80GB HBM3, 580.1, 81559 MiB, 9.0'\n")
        self.executable("bin/compute-sanitizer", SANITIZER)
        self.torch("2.11.0+cu130")
        (self.folder / "site/nvidia/cu13/lib").mkdir(parents=True)

    def torch(self, version):
        folder = self.folder / "site/torch"
        (folder / "lib").mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").write_text("raise ImportError('nobody imports torch')\n", encoding="utf-8")
        (folder / "version.py").write_text(f"__version__ = '{version}'\n", encoding="utf-8")
        (folder / "lib/libtorch_cuda.so").touch()

    def command(self, *arguments):
        (self.archive / "manifest.json").write_text(json.dumps(self.manifest), encoding="utf-8")
        return [sys.executable, self.archive / "run", "--out", self.folder / "out", *arguments]

    def environment(self):
        return {"PATH": f"{self.folder}/bin:/bin:/usr/bin", "PYTHONPATH": str(self.folder / "site"), "STAND_IN": str(self.folder)}

    def start(self, *arguments):
        return subprocess.run(
            self.command(*arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120,
            env=self.environment(),
        )

    def refused(self, *parts, arguments=()):
        ran = self.start(*arguments)
        self.assertEqual(ran.returncode, 2, ran.stdout + ran.stderr)
        for part in parts:
            self.assertIn(part, ran.stderr)
        self.assertNotIn("Traceback", ran.stderr)
        self.assertFalse((self.folder / "started").exists())

    def failed(self, *parts, arguments=()):
        ran = self.start(*arguments)
        self.assertEqual(ran.returncode, 1, ran.stdout + ran.stderr)
        for part in parts:
            self.assertIn(part, ran.stdout)
        return ran.stdout

    def assert_gone(self, place):
        """The process ends whose id a program wrote there."""
        try:
            ended = os.pidfd_open(int((self.folder / place).read_text(encoding="utf-8")))
        except ProcessLookupError:
            return
        self.addCleanup(os.close, ended)
        self.assertTrue(select.select([ended], [], [], 60)[0])

    def found(self, stage):
        return json.loads((self.folder / f"out/{stage}.json").read_text(encoding="utf-8"))


class Run(Machine):
    def test_all_stages_pass_and_the_table_names_the_gpu(self):
        ran = self.start()
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertTrue(ran.stdout.endswith("gpu-check: green\n"))
        self.assertIn("== all, on NVIDIA H100 80GB HBM3", ran.stdout)
        self.assertRegex(ran.stdout, r"tests +first_test +passed, 1 cases")
        self.assertRegex(ran.stdout, r"edges +312.5 M/s  goal >= 300: met")
        self.assertRegex(ran.stdout, r"ratio +1.5 +goal <= 1.2: MISSED")
        self.assertRegex(ran.stdout, r"bus +50 GB/s\n")

    def test_each_stage_leaves_what_it_found(self):
        self.start()
        speed = self.found("speed")
        self.assertEqual(speed["gpus"], ["NVIDIA H100 80GB HBM3, 580.1, 81559 MiB, 9.0"])
        self.assertEqual([row["what"] for row in speed["programs"][0]["rows"]], ["edges", "ratio", "bus"])
        self.assertEqual(self.found("tests")["programs"][0]["passed"], 1)
        self.assertIn("said by", (self.folder / "out/first_test.log").read_text(encoding="utf-8"))

    def test_programs_load_the_libraries_of_torch_and_those_of_the_archive(self):
        self.start("tests")
        path = (self.folder / "library-path").read_text(encoding="utf-8").strip().split(":")
        site = self.folder / "site"
        self.assertEqual(path, [str(site / "torch/lib"), str(site / "nvidia/cu13/lib"), str(self.archive / "lib")])
        self.assertEqual((self.folder / "data").read_text(encoding="utf-8").strip(), f"{self.archive}/data")

    def test_only_the_named_stages_run(self):
        self.assertEqual(self.start("speed").returncode, 0)
        self.assertFalse((self.folder / "started").exists())
        self.refused("no stage nonsense", "tests, sanitize, speed", arguments=["nonsense"])

    def test_the_sanitizer_looks_for_bad_accesses_and_races_in_our_kernels(self):
        self.manifest["tests"].append({"name": "job_test", "program": "bin/first_test", "environment": {}, "sanitize": False})
        self.assertEqual(self.start("sanitize").returncode, 0)
        lines = (self.folder / "sanitized").read_text(encoding="utf-8").splitlines()
        self.assertEqual(len(lines), 2)
        for line, tool in zip(lines, ("memcheck", "racecheck"), strict=True):
            self.assertIn(f"--tool {tool} ", line)
            self.assertIn("--kernel-name kns=gnn", line)
            self.assertIn("--gtest_filter=*", line)

    def test_a_test_names_the_cases_that_a_tool_cannot_run(self):
        self.manifest["tests"][0]["environment"] = {"GNN_RACECHECK_FILTER": "-*Big*"}
        self.assertEqual(self.start("sanitize").returncode, 0)
        memcheck, racecheck = (self.folder / "sanitized").read_text(encoding="utf-8").splitlines()
        self.assertTrue(memcheck.endswith("--gtest_filter=*"))
        self.assertTrue(racecheck.endswith("--gtest_filter=-*Big*"))

    def test_without_the_sanitizer_its_stage_fails(self):
        (self.folder / "bin/compute-sanitizer").unlink()
        self.failed("compute-sanitizer is not on the PATH", arguments=["sanitize"])

    def test_a_machine_without_torch_is_refused(self):
        shutil.rmtree(self.folder / "site/torch")
        self.refused("has no torch: install torch==2.11.0+cu130")

    def test_another_torch_is_refused(self):
        self.torch("2.12.0+cu130")
        self.refused("need torch 2.11.0+cu130", "is torch 2.12.0+cu130")

    def test_a_torch_for_cpus_is_refused(self):
        (self.folder / "site/torch/lib/libtorch_cuda.so").unlink()
        self.refused("built without CUDA")

    def test_a_machine_without_a_gpu_is_refused(self):
        self.executable("bin/nvidia-smi", "#!/bin/sh\necho 'No devices were found'\nexit 6\n")
        self.refused("no GPU", "No devices were found")
        (self.folder / "bin/nvidia-smi").unlink()
        self.refused("there is no nvidia-smi")

    def test_a_torch_that_is_not_whole_is_refused(self):
        (self.folder / "site/torch/version.py").unlink()
        self.refused("is torch of unknown version")

    def test_an_archive_that_is_not_whole_is_refused(self):
        (self.archive / "bin/speed-bench").unlink()
        self.refused("the archive is not whole: there is no", "bin/speed-bench")
        for text in ('{"torch": "2.1', None):
            command = self.command()
            manifest = self.archive / "manifest.json"
            manifest.unlink() if text is None else manifest.write_text(text, encoding="utf-8")
            ran = subprocess.run(command, env=self.environment(), capture_output=True, text=True, check=False)
            self.assertEqual(ran.returncode, 2)
            self.assertRegex(ran.stderr, r"^gpu-check: the archive is not whole: .*manifest.json: [^\n]*\n$")

    def test_a_folder_that_cannot_be_written_to_is_refused(self):
        (self.folder / "out").write_text("a file", encoding="utf-8")
        self.refused(f"--out {self.folder}/out: ")
        self.refused("--out /proc/gpu-check: ", arguments=["--out", "/proc/gpu-check"])

    def test_an_older_glibc_is_refused(self):
        self.manifest["glibc"] = "99.1"
        self.refused("need glibc 99.1 or newer")

    def test_a_failed_test_fails_the_run_and_shows_its_output_but_the_other_stages_run(self):
        self.executable("gnn-gpu-check/bin/first_test", program(FAILED, 1))
        said = self.failed("first_test: ended with 1", "said by", "gpu-check: FAILED: first_test")
        self.assertIn("312.5", said)

    def test_skipped_cases_are_named_and_a_program_that_skips_all_has_failed(self):
        self.executable("gnn-gpu-check/bin/first_test", program(PASSED + '<testcase classname="Case" name="Two" ' + SKIPPED))
        ran = self.start("tests")
        self.assertEqual(ran.returncode, 0)
        self.assertIn("skipped Case.Two: fewer than two GPUs", ran.stdout)
        self.executable("gnn-gpu-check/bin/first_test", program(SKIPPED))
        self.failed("all were skipped", arguments=["tests"])

    def test_a_test_that_dies_without_a_report_has_failed(self):
        self.executable("gnn-gpu-check/bin/first_test", "#!/bin/sh\nexit 0\n")
        self.failed("left no report", arguments=["tests"])
        self.executable("gnn-gpu-check/bin/first_test", "#!/bin/sh\nkill -SEGV $$\n")
        self.failed("ended with -11", arguments=["tests"])

    def test_what_cannot_be_started_has_failed_and_the_other_stages_run(self):
        self.executable("gnn-gpu-check/bin/first_test", "no program\n")
        self.assertIn("312.5", self.failed("first_test: cannot be started: "))

    def test_reports_and_figures_that_cannot_be_read_fail_their_programs(self):
        self.executable("gnn-gpu-check/bin/first_test", program('status="run"'))
        self.executable("gnn-gpu-check/bin/speed-bench", bench({"rows": [{"what": "edges", "speed": 1}]}))
        self.failed("first_test: left a report that cannot be read", "speed-bench: wrote figures that cannot be read")
        self.executable("gnn-gpu-check/bin/speed-bench", BENCH.replace("FIGURES", '{"rows": [').replace("CODE", "0"))
        self.failed("speed-bench: wrote figures that cannot be read", arguments=["speed"])

    def test_what_a_program_left_running_is_ended(self):
        text = program().replace("exit 0", 'sleep 1000 & echo $! >"$STAND_IN/child"')
        self.executable("gnn-gpu-check/bin/first_test", text)
        self.assertEqual(self.start("tests").returncode, 0)
        self.assert_gone("child")

    def test_a_signal_ends_it_and_leaves_nothing_running(self):
        os.mkfifo(self.folder / "begun")
        text = '#!/bin/sh\necho $$ >"$STAND_IN/child"\necho >"$STAND_IN/begun"\nexec sleep 1000\n'
        self.executable("gnn-gpu-check/bin/first_test", text)
        for sign in (signal.SIGTERM, signal.SIGINT):
            with subprocess.Popen(
                self.command("tests"), env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as running:
                (self.folder / "begun").read_text(encoding="utf-8")
                running.send_signal(sign)
                _, said = running.communicate(timeout=60)
            self.assertEqual((running.returncode, said), (128 + sign, f"gpu-check: ended by {sign.name}\n"))
            self.assert_gone("child")

    def test_a_benchmark_that_fails_or_writes_nothing_fails_the_run(self):
        self.executable("gnn-gpu-check/bin/speed-bench", bench({"rows": [{"what": "x", "value": 1, "unit": ""}]}, 9))
        self.failed("speed-bench: ended with 9", arguments=["speed"])
        self.executable("gnn-gpu-check/bin/speed-bench", "#!/bin/sh\nexit 0\n")
        self.failed("speed-bench: wrote no figures", arguments=["speed"])

    def test_what_hangs_is_ended_with_its_children_when_its_stage_is_over_and_later_programs_are_not_begun(self):
        check = load_check()
        out = self.folder / "out"
        out.mkdir()
        begun = self.folder / "begun"
        os.mkfifo(begun)
        text = '#!/bin/sh\necho here\nsleep 1000 &\necho $! >"$STAND_IN/child"\necho >"$STAND_IN/begun"\nwait\n'
        hangs = self.executable("bin/hangs", text)
        runner = check.Runner([], out, 1000, os.pipe()[0])

        def over(*_):
            begun.read_text(encoding="utf-8")
            runner.deadline = 0
            return [], [], []

        with mock.patch.object(check, "select", types.SimpleNamespace(select=over)):
            outcome = runner.run("hangs", [hangs], {"STAND_IN": str(self.folder)})
        self.assertIn("took longer than the 1000 s", outcome.failed)
        self.assertEqual(outcome.tail, "here")
        self.assert_gone("child")
        self.assertEqual(runner.run("next", [hangs], {}).failed, "not begun: its stage has used up its 1000 s")


CTEST = {"tests": [
    {"name": "a_test", "command": ["BUILD/a_test", "--gtest_output=xml:x"], "properties": [
        {"name": "ENVIRONMENT", "value": ["TOOL=BUILD/tool", "COLOUR=blue"]}, {"name": "LABELS", "value": ["gpu"]}]},
    {"name": "job_test", "command": ["BUILD/job_test"], "properties": [{"name": "LABELS", "value": ["integration", "gpu"]}]},
]}


class Pack(Folder):
    """tools/gpu/pack.py on a build that is a folder of small programs."""

    def setUp(self):
        super().setUp()
        self.build = self.folder / "build"
        self.wheels = self.folder / "wheels"
        (self.wheels / "torch").mkdir(parents=True)
        (self.wheels / "torch/version.py").write_text("__version__ = '2.11.0+cu130'\n", encoding="utf-8")
        self.checkout = self.folder / "checkout"
        (self.checkout / "tools/gpu").mkdir(parents=True)
        for name in ("pack.py", "check.py"):
            shutil.copy(ROOT / "tools/gpu" / name, self.checkout / "tools/gpu")
        self.executable("checkout/scripts/setup", f"#!/bin/sh\necho {self.wheels}\n")
        for name in ("a_test", "job_test", "tool", "speed"):
            shutil.copy("/bin/true", self.executable(f"build/{name}", ""))
        self.shown(CTEST)
        self.executable("bin/git", "#!/bin/sh\necho abc\n")
        self.executable("bin/strip", '#!/bin/sh\ncp "$3" "$2"\n')
        self.executable("bin/ldd", f"""#!/bin/sh
echo "	linux-vdso.so.1 (0x0)"
echo "	libc.so.6 => {self.folder}/libc.so.6 (0x0)"
echo "	libyaml.so.0 => {self.folder}/libyaml.so.0 (0x0)"
echo "	libtorch_cpu.so => {self.wheels}/torch/libtorch_cpu.so (0x0)"
echo "	libcuda.so.1 => not found"
""")
        (self.folder / "libyaml.so.0").write_text("yaml", encoding="utf-8")
        (self.build / "gpu-benches").mkdir()
        (self.build / "gpu-benches/speed.json").write_text(
            json.dumps({"name": "speed", "stage": "fast", "program": f"{self.build}/speed"}), encoding="utf-8"
        )

    def shown(self, tests):
        text = json.dumps(tests).replace("BUILD", str(self.build))
        (self.folder / "shown.json").write_text(text, encoding="utf-8")
        self.executable("bin/ctest", f"#!/bin/sh\ncat {self.folder}/shown.json\n")

    def pack(self, out):
        return subprocess.run(
            [sys.executable, self.checkout / "tools/gpu/pack.py", self.build, out], capture_output=True, text=True, check=False,
            env={"PATH": f"{self.folder}/bin:/bin:/usr/bin"},
        )

    def test_holds_the_programs_and_what_they_load_beyond_glibc_and_libtorch(self):
        out = self.folder / "check.tar.gz"
        ran = self.pack(out)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        with tarfile.open(out) as archive:
            names = {name.removeprefix("gnn-gpu-check/") for name in archive.getnames() if archive.getmember(name).isfile()}
            manifest = json.load(archive.extractfile("gnn-gpu-check/manifest.json"))
        self.assertEqual(names, {
            "run", "manifest.json", "bin/a_test", "bin/job_test", "bin/tool", "bin/speed", "lib/libyaml.so.0",
        })
        self.assertEqual(manifest["torch"], "2.11.0+cu130")
        self.assertEqual([test["program"] for test in manifest["tests"]], ["bin/a_test", "bin/job_test"])
        self.assertEqual([test["sanitize"] for test in manifest["tests"]], [True, False])
        self.assertEqual(manifest["tests"][0]["environment"], {"TOOL": "{here}/bin/tool", "COLOUR": "blue"})
        self.assertEqual(manifest["benches"], [{"name": "speed", "stage": "fast", "program": "bin/speed"}])

    def test_what_is_not_built_is_named(self):
        (self.build / "speed").unlink()
        ran = self.pack(self.folder / "check.tar.gz")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("speed is not built", ran.stderr)

    def test_a_build_without_gpu_tests_is_refused(self):
        self.shown({"tests": []})
        ran = self.pack(self.folder / "check.tar.gz")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("no tests with the label gpu", ran.stderr)

    def test_an_archive_that_is_too_large_is_refused(self):
        (self.folder / "libyaml.so.0").write_bytes(os.urandom(61_000_000))
        ran = self.pack(self.folder / "check.tar.gz")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("expected at most 60000000", ran.stderr)
        self.assertEqual(list(self.folder.glob("*check.tar.gz*")), [])

    def test_a_library_that_is_not_found_is_named(self):
        ldd = self.folder / "bin/ldd"
        self.executable("bin/ldd", ldd.read_text(encoding="utf-8") + "echo '\tlibzip.so.5 => not found'\n")
        ran = self.pack(self.folder / "check.tar.gz")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("a_test: libzip.so.5 is not found", ran.stderr)

    def test_a_place_that_cannot_be_written_to_is_named(self):
        ran = self.pack(self.folder / "nowhere/check.tar.gz")
        self.assertEqual(ran.returncode, 1)
        self.assertRegex(ran.stderr, "^gpu-check: .*nowhere")


class Script(Folder):
    """scripts/gpu-check in a checkout whose programs are built."""

    def setUp(self):
        super().setUp()
        self.executable("scripts/gpu-check", (ROOT / "scripts/gpu-check").read_text(encoding="utf-8"))
        self.executable("scripts/setup", f"#!/bin/sh\necho {self.folder}/wheels\n")
        self.executable("wheels/torch/__init__.py", "")
        self.executable("tools/gpu/pack.py", "import shutil, sys\nshutil.copy(sys.argv[1] + '/run', sys.argv[2])\n")

    def command(self, *arguments):
        return [self.folder / "scripts/gpu-check", "--built", *arguments]

    def test_runs_with_the_torch_that_it_was_built_with(self):
        self.executable("build/cuda/run", "import sys, torch\nprint(torch.__file__, sys.argv[1:])\nsys.exit(1)\n")
        ran = subprocess.run(self.command("--out", "found", "tests"), capture_output=True, text=True, check=False)
        self.assertEqual(ran.stdout, f"{self.folder}/wheels/torch/__init__.py ['--out', 'found', 'tests']\n", ran.stderr)
        self.assertEqual(ran.returncode, 1)

    def test_refuses_a_folder_in_place_of_an_archive(self):
        ran = subprocess.run(self.command("--pack", self.folder), capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 2)
        self.assertIn(f"--pack expects a file, found the folder {self.folder}", ran.stderr)

    def test_hands_a_signal_on_and_leaves_nothing(self):
        os.mkfifo(self.folder / "begun")
        self.executable("build/cuda/run", f"""
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
open("{self.folder}/begun", "w").write(__file__)
time.sleep(1000)
""")
        with subprocess.Popen(self.command()) as running:
            program = (self.folder / "begun").read_text(encoding="utf-8")
            running.terminate()
            self.assertEqual(running.wait(60), 143)
        self.assertFalse(Path(program).parent.exists())


if __name__ == "__main__":
    unittest.main()
