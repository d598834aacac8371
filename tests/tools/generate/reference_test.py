"""Holds docs/reference/gnnjob.md against the CRD that it is generated from."""

import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools/generate/reference.py"


class ReferenceTest(unittest.TestCase):
    def test_page_is_up_to_date(self):
        done = subprocess.run([sys.executable, TOOL, "--check"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_unknown_option_is_refused(self):
        done = subprocess.run([sys.executable, TOOL, "--frobnicate"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("usage", done.stderr)


if __name__ == "__main__":
    unittest.main()
