"""Every relative link of a Markdown page leads to a file of the tree."""

import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Links(unittest.TestCase):
    def test_relative_links_lead_somewhere(self):
        pages = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout.splitlines()
        self.assertGreater(len(pages), 10)
        broken = []
        for page in pages:
            text = (ROOT / page).read_text(encoding="utf-8")
            for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
                if "://" not in target and not (ROOT / page).parent.joinpath(target).exists():
                    broken.append(f"{page}: {target}")
        self.assertEqual(broken, [])


if __name__ == "__main__":
    unittest.main()
