"""Holds the agent's part of docs/metrics.md against the names in the worker's code."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


class MetricsPage(unittest.TestCase):
    def test_page_and_code_name_the_same_series(self):
        sources = [file for kind in ("*.cpp", "*.h") for file in (ROOT / "worker").rglob(kind)]
        code = set()
        for file in sources:
            code.update(re.findall(r'"(gnn_[a-z0-9_]+)"', file.read_text(encoding="utf-8")))
        self.assertGreater(len(code), 20)
        page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
        section = page.partition("\n## Agent")[2].partition("\n## ")[0]
        self.assertEqual(code, set(re.findall(r"`(gnn_[a-z0-9_]+)`", section)))


if __name__ == "__main__":
    unittest.main()
