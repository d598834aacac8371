"""Every relative link of a Markdown page leads to a file of the tree, and every decision has its four parts."""

import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Links(unittest.TestCase):
    def test_relative_links_lead_somewhere(self):
        pages = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
        ).stdout.splitlines()
        self.assertGreater(len(pages), 10)
        broken = []
        for page in pages:
            text = (ROOT / page).read_text(encoding="utf-8")
            targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
            broken += [
                f"{page}: {target}" for target in targets
                if "://" not in target and not (ROOT / page).parent.joinpath(target).exists()
            ]
        self.assertEqual(broken, [])


class Decisions(unittest.TestCase):
    def test_have_context_decision_alternatives_and_consequences(self):
        pages = sorted((ROOT / "docs/adr").glob("*.md"))
        self.assertGreater(len(pages), 5)
        for number, page in enumerate(pages, 1):
            with self.subTest(page=page.name):
                text = page.read_text(encoding="utf-8")
                self.assertTrue(text.startswith(f"# {number}. "))
                self.assertTrue(page.name.startswith(f"{number:04}-"))
                self.assertEqual(re.findall(r"^## (.*)$", text, re.MULTILINE), ["Context", "Decision", "Alternatives", "Consequences"])


if __name__ == "__main__":
    unittest.main()
