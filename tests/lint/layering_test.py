"""The layering check must catch what it is there for."""

import re
import subprocess
import unittest

import layering


class ArchitecturePage(unittest.TestCase):
    """docs/architecture.md, the table of layering.py and the tree name the same modules."""

    def setUp(self):
        page = (layering.ROOT / "docs/architecture.md").read_text(encoding="utf-8")
        self.where, self.rules = page.split("## Layering")

    def test_every_module_has_a_row_and_is_there(self):
        rows = {
            folder for row in re.findall(r"^\| ([^|]+) \|", self.rules, re.MULTILINE) for folder in row.split(", ")
        }
        for folder in layering.ALLOWED:
            with self.subTest(module=folder):
                self.assertIn(folder, rows)
                self.assertIn(f"[{folder}](../{folder})", self.where)
                self.assertTrue((layering.ROOT / folder / "CMakeLists.txt").is_file())

    def test_every_source_of_the_product_is_in_a_module(self):
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "common/*", "controller/*", "worker/*"],
            cwd=layering.ROOT, check=True, capture_output=True, text=True,
        ).stdout.splitlines()
        self.assertGreater(len(listed), 200)
        self.assertEqual([name for name in listed if layering.module_of(name) is None], [])

    def test_every_folder_the_page_names_is_there(self):
        for folder in re.findall(r"\]\(\.\./([^)]+)\)", self.where):
            self.assertTrue((layering.ROOT / folder).is_dir(), folder)


class Layering(unittest.TestCase):
    def assert_problem(self, name, text, part):
        self.assertTrue(any(part in problem for problem in layering.problems_in(name, text)), (name, text))

    def test_finds_an_include_against_the_table(self):
        self.assert_problem(
            "common/x.h", '#pragma once\n#include "worker/graph/block.h"\n', "common may not include worker/graph"
        )

    def test_finds_restricted_third_party_headers(self):
        self.assert_problem("controller/runtime/x.cpp", "#include <cpprest/http_client.h>\n", "may not be included")
        self.assert_problem("worker/nn/x.h", "#pragma once\n#include <torch/torch.h>\n", "may not be included")

    def test_finds_paths_that_are_not_from_the_root(self):
        self.assert_problem("common/x.cpp", '#include "result.h"\n', "include from the root")

    def test_finds_product_code_that_includes_tests(self):
        self.assert_problem("common/x.cpp", '#include "tests/support/fake_clock.h"\n', "includes the tests'")

    def test_lets_good_files_pass(self):
        self.assertEqual(
            layering.problems_in("worker/sampling/x.h", '#pragma once\n#include "worker/graph/block.h"\n'), []
        )


if __name__ == "__main__":
    unittest.main()
