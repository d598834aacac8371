"""Every script refuses what it does not know with its usage and status 2, and tells its usage when asked."""

import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ["setup", "test", "images", "demo", "cluster"]


def run(script, *arguments):
    return subprocess.run(
        [ROOT / "scripts" / script, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


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
        self.assert_refused("images", "controller", "--tag")

    def test_options_that_contradict(self):
        self.assert_refused("setup", "--cuda", "--no-torch")
        self.assert_refused("setup", "--print-dir", "nonsense")

    def test_help_is_no_error(self):
        for script in SCRIPTS:
            with self.subTest(script=script):
                ran = run(script, "--help")
                self.assertEqual((ran.returncode, ran.stderr), (0, ""))
                self.assertIn(f"usage: scripts/{script}", ran.stdout)


if __name__ == "__main__":
    unittest.main()
