"""Holds the parts of docs/metrics.md on agents and servers against the names in the worker's code."""

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
        series = set()
        for title in ("Agent", "Sampling server"):
            section = page.partition(f"\n## {title} (")[2].partition("\n## ")[0]
            series.update(re.findall(r"`(gnn_[a-z0-9_]+)`", section))
        self.assertEqual(code, series)


if __name__ == "__main__":
    unittest.main()
