"""Holds the controller's part of docs/metrics.md against the names in its code."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PREFIXES = "gnnjob|gnn_operator|workqueue|rest_client|controller_runtime|leader_election|process"


class MetricsPage(unittest.TestCase):
    def test_page_and_code_name_the_same_series(self):
        sources = [file for kind in ("*.cpp", "*.h") for file in (ROOT / "controller").rglob(kind)]
        code = set()
        for file in sources:
            code.update(re.findall(rf'"((?:{PREFIXES})_[a-z0-9_]+)"', file.read_text(encoding="utf-8")))
        self.assertGreater(len(code), 30)
        page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
        _, _, section = page.partition("## Controller")
        self.assertEqual(code, set(re.findall(rf"`((?:{PREFIXES})_[a-z0-9_]+)`", section)))


if __name__ == "__main__":
    unittest.main()
