"""The check must find every shell script, not those of some folders alone, and what is wrong in scripts and Python."""

import subprocess
import tempfile
import unittest
from pathlib import Path

import format as check


class ShellScripts(unittest.TestCase):
    def setUp(self):
        self.found = check.shell_scripts()

    def test_are_found_by_what_they_start_with(self):
        for name in (
            ".ci/run", "scripts/setup", "scripts/test", "docker/sbom.sh", "tools/cluster/base_image", "tools/cluster/go/build",
        ):
            self.assertIn(name, self.found)

    def test_are_no_other_programs(self):
        for name in ("tests/bench/baselines/run", "tools/stages/run_stages.py", "README.md"):
            self.assertTrue((check.ROOT / name).is_file(), name)
            self.assertNotIn(name, self.found)


class Findings(unittest.TestCase):
    def assert_found(self, command_for, name, text, finding):
        """`command_for` makes the command that checks files; None: nothing is found."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, name)
            file.write_text(text, encoding="utf-8")
            ran = subprocess.run(command_for([file]), cwd=check.ROOT, capture_output=True, text=True, check=False)
        if finding is None:
            self.assertEqual((ran.returncode, ran.stdout), (0, ""), ran.stderr)
        else:
            self.assertEqual(ran.returncode, 1, ran.stderr)
            self.assertIn(finding, ran.stdout)

    def test_of_python(self):
        self.assert_found(check.python_check, "x.py", "import re\n\nprint(1)\n", "F401")
        self.assert_found(check.python_check, "x.py", f"x = '{'x' * 200}'\n", "E501")
        self.assert_found(check.python_check, "x.py", "print(1)\n", None)

    def test_of_shell(self):
        self.assert_found(check.shell_check, "x", "#!/bin/sh\nrm -rf $1\n", "SC2086")
        self.assert_found(check.shell_check, "x", "#!/bin/sh\nif true; then\n", "SC1")
        self.assert_found(check.shell_check, "x", '#!/bin/sh\nrm -rf "$1"\n', None)


if __name__ == "__main__":
    unittest.main()
