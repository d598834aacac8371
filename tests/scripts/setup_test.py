"""scripts/setup on machines that lack something: what it says, and what it leaves behind.

The machine is a folder of programs: the base system's own, and stand-ins for dpkg, apt, python3 and sleep.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

BASE_PROGRAMS = [
    "bash", "basename", "cat", "chmod", "cp", "cut", "dirname", "env", "find", "grep", "head", "mkdir", "mktemp", "mv", "rm",
    "sed", "seq", "sha256sum", "tail", "timeout", "tr", "xargs",
]

# As python3 it makes a virtual environment, that is, puts itself there; as that one's it is pip.
PYTHON = r"""#!/usr/bin/env bash
echo "python3 $*" >>"$STAND_IN/calls"
if [ "$1 $2" = "-m venv" ]; then
  mkdir -p "$3/bin"
  cp "$0" "$3/bin/python3"
  exit 0
fi
if [ -p "$STAND_IN/started" ]; then
  echo started >"$STAND_IN/started"
  read -r _ <"$STAND_IN/never"
fi
while [ $# -gt 1 ]; do
  if [ "$1" = --target ]; then mkdir -p "$2/torch/lib"; echo part >"$2/torch/lib/libc10.so"; fi
  shift
done
if [ -f "$STAND_IN/no-network" ]; then echo "Temporary failure in name resolution"; exit 1; fi
"""

DPKG_QUERY = r"""#!/usr/bin/env bash
if [ -f "$STAND_IN/installed" ] || [[ "${!#}" != libgloo-dev ]]; then echo -n "ii "; fi
"""

APT_GET = r"""#!/usr/bin/env bash
echo "apt-get $*" >>"$STAND_IN/calls"
if [ -f "$STAND_IN/no-network" ]; then echo "Could not resolve 'deb.debian.org'"; exit 100; fi
if [ -f "$STAND_IN/locked" ]; then
  rm "$STAND_IN/locked"
  echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)"
  exit 100
fi
if [ "$1" = install ]; then
  if [ -f "$STAND_IN/interrupted" ]; then echo "dpkg was interrupted"; exit 100; fi
  : >"$STAND_IN/installed"
fi
if [ "$1" = update ]; then : >"$STAND_IN/index"; fi
"""

APT_CACHE = r"""#!/usr/bin/env bash
if [ -f "$STAND_IN/index" ]; then echo "Package: bash"; fi
"""

DPKG = r"""#!/usr/bin/env bash
if [ "$1" = --configure ]; then rm -f "$STAND_IN/interrupted"; fi
"""


class Machine(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="gnn-setup-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.bin = self.folder / "bin"
        self.cache = self.folder / "cache" / "gnn-operator"
        self.bin.mkdir()
        for program in BASE_PROGRAMS:
            (self.bin / program).symlink_to(shutil.which(program))
        self.program("python3", PYTHON)
        self.program("dpkg-query", DPKG_QUERY)
        self.program("apt-get", APT_GET)
        self.program("apt-cache", APT_CACHE)
        self.program("dpkg", DPKG)
        self.program("sleep", "#!/usr/bin/env bash\necho \"sleep $*\" >>\"$STAND_IN/calls\"\n")
        self.program("id", "#!/usr/bin/env bash\necho 0\n")
        self.program("uname", "#!/usr/bin/env bash\necho x86_64\n")
        self.environment = {
            "PATH": str(self.bin), "HOME": str(self.folder), "XDG_CACHE_HOME": str(self.folder / "cache"),
            "STAND_IN": str(self.folder),
            "GNN_SETUP_SIGN_SECONDS": "600",  # whatever waits for the next one would hold a test up until it fails
        }

    def program(self, name, text):
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(text.replace("/usr/bin/env bash", shutil.which("bash")), encoding="utf-8")
        path.chmod(0o755)

    def setup_(self, *arguments):
        return subprocess.run(
            [ROOT / "scripts/setup", *arguments], env=self.environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=120,
        )

    def calls(self):
        calls = self.folder / "calls"
        return calls.read_text(encoding="utf-8") if calls.exists() else ""

    def made(self):
        """What the cache holds, but for the logs."""
        if not self.cache.exists():
            return []
        return sorted(path.parent.name for path in self.cache.glob("*/*") if path.parent.name != "logs")

    def assert_done(self, ran):
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def assert_failed(self, ran, *parts):
        self.assertEqual(ran.returncode, 1, ran.stdout + ran.stderr)
        last = ran.stderr.splitlines()[-1]
        for part in parts:
            self.assertIn(part, last)

    def test_a_bare_machine_gets_all_and_a_second_run_does_nothing(self):
        first = self.setup_()
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertIn("libgloo-dev", first.stdout)
        self.assertTrue((self.folder / "installed").exists())
        self.assertEqual(self.made(), ["dev", "pip", "torch"])
        before = self.calls()
        second = self.setup_()
        self.assertEqual(second.returncode, 0, second.stderr)
        self.assertEqual(self.calls(), before)
        printed = self.setup_("--print-dir", "torch")
        self.assertTrue(Path(printed.stdout.strip(), "torch/lib").is_dir())

    def test_without_root_it_names_packages_and_command(self):
        self.program("id", "#!/usr/bin/env bash\necho 1000\n")
        self.assert_failed(self.setup_(), "sudo apt-get install libgloo-dev")
        self.assertEqual(self.calls(), "")
        self.assertEqual(self.made(), [])

    def test_without_root_but_with_all_packages_it_goes_on(self):
        self.program("id", "#!/usr/bin/env bash\necho 1000\n")
        (self.folder / "installed").touch()
        self.assert_done(self.setup_())

    def test_another_distribution_is_told_which_packages(self):
        (self.bin / "dpkg-query").unlink()
        self.assert_failed(self.setup_(), "no dpkg", "libgloo-dev", "cmake")

    def test_another_processor_is_refused(self):
        self.program("uname", "#!/usr/bin/env bash\necho aarch64\n")
        self.assert_failed(self.setup_(), "aarch64", "x86-64")

    def test_without_network_apts_failure_names_command_log_and_packages(self):
        (self.folder / "no-network").touch()
        ran = self.setup_()
        log = self.cache / "logs" / "apt-update.log"
        self.assert_failed(ran, "failed: apt-get update", str(log), "apt-get install libgloo-dev")
        self.assertIn("Could not resolve", log.read_text(encoding="utf-8"))
        self.assertEqual(self.made(), [])

    def test_it_waits_for_another_apt_that_holds_the_lists(self):
        (self.folder / "locked").touch()
        ran = self.setup_("--no-torch")
        self.assert_done(ran)
        self.assertIn("waiting for another apt-get", ran.stdout)
        self.assertRegex(self.calls(), r"(?s)apt-get update.*sleep.*apt-get update.*apt-get install")

    def test_packages_that_were_left_half_installed_are_finished_first(self):
        (self.folder / "interrupted").touch()
        self.assert_done(self.setup_("--no-torch"))

    def test_the_cluster_needs_a_package_index_also_where_all_packages_are_there(self):
        (self.folder / "installed").touch()
        self.assertNotEqual(self.setup_("--cluster", "--no-torch").returncode, 0)  # this machine has no Go
        self.assertEqual(self.calls().count("apt-get update"), 1)
        self.setup_("--cluster", "--no-torch")
        self.assertEqual(self.calls().count("apt-get update"), 1)

    def test_a_failed_download_names_command_and_log_and_leaves_nothing_half_made(self):
        (self.folder / "installed").touch()
        self.assert_done(self.setup_("--no-torch"))
        (self.folder / "no-network").touch()
        failed = self.setup_()
        self.assert_failed(failed, "pip install", "PyPI", str(self.cache / "logs"))
        self.assertIn("Temporary failure in name resolution", failed.stderr)
        self.assertEqual(self.made(), ["dev"])
        missing = self.setup_("--print-dir", "torch")
        self.assert_failed(missing, "run scripts/setup")
        (self.folder / "no-network").unlink()
        self.assert_done(self.setup_())
        self.assertEqual(self.made(), ["dev", "pip", "torch"])

    def test_each_part_that_is_made_says_how_long_it_took(self):
        parts = ["Debian packages", "clang-format, clang-tidy and test tools", "LibTorch"]
        times = self.folder / "times"
        first = self.setup_("--times", str(times))
        self.assert_done(first)
        said = re.findall(r"^setup: (.*): done in \d+ s$", first.stdout, re.MULTILINE)
        self.assertEqual(said, parts)
        self.assertEqual([line.split(" ", 1)[1] for line in times.read_text(encoding="utf-8").splitlines()], parts)
        again = self.setup_("--times", str(times))
        self.assertNotIn("done in", again.stdout)
        self.assertEqual(len(times.read_text(encoding="utf-8").splitlines()), len(parts))

    @staticmethod
    def end(process):
        with contextlib.suppress(ProcessLookupError):  # a test that failed leaves it waiting
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()

    def started(self, **environment):
        """A run whose first pip waits for `never` to be written."""
        (self.folder / "installed").touch()
        for pipe in ("started", "never"):
            os.mkfifo(self.folder / pipe)
        process = subprocess.Popen(
            [ROOT / "scripts/setup"], env={**self.environment, **environment}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        )
        self.addCleanup(self.end, process)
        (self.folder / "started").read_text(encoding="utf-8")
        return process

    def test_a_long_part_gives_signs_of_life(self):
        process = self.started(GNN_SETUP_SIGN_SECONDS="0.02")
        signs = []
        while len(signs) < 2:
            line = process.stdout.readline()
            self.assertTrue(line, "it ended without a sign")
            if "still" in line:
                signs.append(line)
        self.assertRegex(signs[1], r"^setup: clang-format, clang-tidy and test tools: still installing, \d+ s$")
        (self.folder / "started").unlink()
        (self.folder / "never").write_text("\n", encoding="utf-8")
        rest, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, rest)
        self.assertIn("setup: clang-format, clang-tidy and test tools: done in", rest)

    def test_an_interrupt_leaves_nothing_half_made(self):
        process = self.started()
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=120)
        self.assertEqual(process.returncode, 143)
        self.assertEqual(self.made(), [])

    def test_what_a_killed_set_up_left_goes_once_no_set_up_can_be_at_it(self):
        old, new = (self.cache / "torch" / f"0123.part.{name}" for name in ("aaaaaa", "bbbbbb"))
        for part in (old, new):
            (part / "torch").mkdir(parents=True)
        hours_ago = os.stat(old).st_mtime - 7 * 3600
        os.utime(old, (hours_ago, hours_ago))
        self.assert_done(self.setup_())
        self.assertEqual((old.exists(), new.exists()), (False, True))

    def test_signs_of_life_end_with_a_killed_set_up(self):
        process = self.started()
        process.kill()
        # The end comes when nobody has this pipe any more: the command that is left writes to its log.
        process.communicate(timeout=120)
        os.killpg(process.pid, signal.SIGKILL)


if __name__ == "__main__":
    unittest.main()
