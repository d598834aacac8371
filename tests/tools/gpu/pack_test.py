"""What gpu-check packs, of a program and a library that the compiler makes here, and what it refuses to."""

import os
import shutil
import subprocess
import tarfile
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import pack

ROOT = Path(__file__).resolve().parents[3]


class Pack(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gnn-gpu-pack-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.build = self.folder / "build"
        self.build.mkdir()
        self.compile("libsays.so", "const char* says() { return \"said by a library\"; }", "-shared", "-fPIC")
        program = "#include <stdio.h>\nconst char* says(); int main() { puts(says()); }"
        self.compile("program", program, "-L.", "-lsays", "-Wl,-rpath,$ORIGIN")
        self.archive = pack.Archive(self.folder / "archive", self.build, self.folder / "wheels")

    def compile(self, name, text, *options):
        (self.build / f"{name}.c").write_text(text + "\n", encoding="utf-8")
        subprocess.run(["cc", "-g", f"{name}.c", *options, "-o", name], cwd=self.build, check=True)

    def test_takes_stripped_programs_with_what_they_load(self):
        self.archive.add_program(self.build / "program")
        packed = self.folder / "packed.tar.gz"
        self.archive.pack(packed)
        shutil.rmtree(self.build)
        with tarfile.open(packed) as archive:
            names = {entry.name for entry in archive if entry.isfile()}
            self.assertEqual({entry.uname for entry in archive}, {""})
            archive.extractall(self.folder, filter="data")
        self.assertEqual(names, {"gnn-gpu-check/bin/program", "gnn-gpu-check/lib/libsays.so"})
        there = self.folder / pack.FOLDER
        self.assertNotIn(".symtab", pack.output_of("readelf", "-S", there / "bin/program"))
        ran = subprocess.run([there / "bin/program"], env={"LD_LIBRARY_PATH": str(there / "lib")}, capture_output=True, check=True)
        self.assertEqual(ran.stdout, b"said by a library\n")

    def test_leaves_libraries_of_torch_to_torch(self):
        archive = pack.Archive(self.folder / "other", self.build, self.build)
        archive.add_program(self.build / "program")
        self.assertEqual(list((self.folder / "other/lib").iterdir()), [])

    def test_refuses_a_program_whose_library_is_gone(self):
        (self.build / "libsays.so").unlink()
        with self.assertRaisesRegex(pack.Failed, r"program: libsays\.so is not found"):
            self.archive.add_program(self.build / "program")

    def test_leaves_no_archive_that_is_too_large_or_cut(self):
        self.archive.add_program(self.build / "program")
        packed = self.folder / "packed.tar.gz"
        packed.write_text("of another day", encoding="utf-8")
        with mock.patch.object(pack, "MOST_BYTES", 1000), self.assertRaisesRegex(pack.Failed, "at most 1000"):
            self.archive.pack(packed)
        with mock.patch.object(tarfile.TarFile, "add", side_effect=OSError(28, "No space left on device")), self.assertRaises(OSError):
            self.archive.pack(packed)
        self.assertEqual(packed.read_text(encoding="utf-8"), "of another day")
        self.assertEqual({path.name for path in self.folder.iterdir()}, {"archive", "build", "packed.tar.gz"})


class Script(unittest.TestCase):
    """scripts/gpu-check beside stand-ins for what it calls."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gnn-gpu-script-")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("scripts/gpu-check", (ROOT / "scripts/gpu-check").read_text(encoding="utf-8"))
        self.write("scripts/setup", f"#!/bin/sh\necho {self.root}/wheels\n")
        self.write("wheels/torch/__init__.py", "")
        self.write("tools/gpu/pack.py", "import shutil, sys\nshutil.copy(sys.argv[1] + '/run', sys.argv[2])\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def command(self, *arguments):
        return [str(self.root / "scripts/gpu-check"), "--built", *arguments]

    def test_runs_with_the_torch_that_it_built_with(self):
        self.write("build/cuda/run", "import sys, torch\nprint(torch.__file__, sys.argv[1:])\nsys.exit(1)\n")
        ran = subprocess.run(self.command("--out", "found", "tests"), capture_output=True, text=True, check=False)
        self.assertEqual(ran.stdout, f"{self.root}/wheels/torch/__init__.py ['--out', 'found', 'tests']\n", ran.stderr)
        self.assertEqual(ran.returncode, 1)

    def test_refuses_a_folder_in_place_of_an_archive(self):
        ran = subprocess.run(self.command("--pack", str(self.root)), capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 2)
        self.assertIn(f"--pack expects a file, found the folder {self.root}", ran.stderr)

    def test_hands_a_signal_on_and_leaves_nothing(self):
        os.mkfifo(self.root / "begun")
        self.write("build/cuda/run", f"""
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
open("{self.root}/begun", "w").write(__file__)
time.sleep(1000)
""")
        with subprocess.Popen(self.command()) as running:
            program = (self.root / "begun").read_text(encoding="utf-8")
            running.terminate()
            self.assertEqual(running.wait(60), 143)
        self.assertFalse(Path(program).parent.exists())


if __name__ == "__main__":
    unittest.main()
