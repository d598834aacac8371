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

    def test_the_rows_allow_what_the_check_allows(self):
        """Before the semicolon a row lists modules; what follows narrows them, or is about others' libraries."""
        for modules, allowed in re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", self.rules, re.MULTILINE)[2:]:
            listed = [word for word in allowed.split(";")[0].split(", ") if word in layering.ALLOWED]
            for module in modules.split(", "):
                with self.subTest(module=module):
                    self.assertEqual(listed, layering.ALLOWED[module])

    def test_the_targets_of_a_module_are_in_its_row(self):
        for module in layering.ALLOWED:
            with self.subTest(module=module):
                row = re.search(rf"^\| \[{module}\].*$", self.where, re.MULTILINE).group()
                named = set(re.findall(r"`([^`]+)`", row.split("|")[2]))
                made = layering.targets_in((layering.ROOT / module / "CMakeLists.txt").read_text(encoding="utf-8"))
                self.assertEqual(named, {re.sub("^gnn_", "gnn::", target) for target in made})

    def test_every_source_of_the_product_is_in_a_module(self):
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "common/*", "controller/*", "worker/*"],
            cwd=layering.ROOT, check=True, stdout=subprocess.PIPE, text=True,
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
        self.assert_problem("worker/agent/x.h", "#pragma once\n#include <ATen/ATen.h>\n", "may not be included")

    def test_finds_the_header_that_makes_every_compile_slow(self):
        for name in ("worker/nn/x.cpp", "tests/worker/nn/x_test.cpp"):
            with self.subTest(name=name):
                self.assert_problem(name, "#include <torch/torch.h>\n", "include what is used of it")

    def test_cpprestsdk_is_in_one_file(self):
        include = "#include <cpprest/http_client.h>\n"
        self.assertEqual(layering.problems_in("controller/client/cpprest_transport.cpp", include), [])
        self.assert_problem("controller/client/cpprest_json.cpp", include, "may not be included")
        self.assert_problem("controller/client/cpprest_transport.h", "#pragma once\n" + include, "may not be included")

    def test_the_agent_knows_reports_of_training_alone(self):
        self.assertEqual(
            layering.problems_in("worker/agent/x.h", '#pragma once\n#include "worker/progress/progress_sink.h"\n'), []
        )
        self.assert_problem(
            "worker/agent/x.h", '#pragma once\n#include "worker/training/trainer.h"\n', "may not include worker/training"
        )

    def test_torch_stays_where_the_table_has_it(self):
        for module in ("worker/data", "worker/sampling/core", "worker/rendezvous", "worker/progress", "worker/agent"):
            with self.subTest(module=module):
                self.assert_problem(f"{module}/x.cpp", "#include <ATen/ATen.h>\n", "may not be included")
        self.assertEqual(layering.problems_in("worker/graph/x.cpp", "#include <ATen/ATen.h>\n"), [])

    def test_decisions_have_no_threads_io_or_log(self):
        for header in ("<thread>", "<mutex>", "<fstream>", "<random>", "<unistd.h>", '"common/log.h"', '"common/guarded.h"'):
            with self.subTest(header=header):
                self.assert_problem("controller/reconcile/x.cpp", f"#include {header}\n", "decides and does nothing else")
        self.assertEqual(layering.problems_in("controller/runtime/x.cpp", '#include <thread>\n#include "common/log.h"\n'), [])

    def test_decisions_are_told_the_time(self):
        for code in ("std::chrono::system_clock::now()", "clock.now ()", "const Clock& clock", 'std::getenv("HOME")'):
            with self.subTest(code=code):
                self.assert_problem("controller/reconcile/x.cpp", f"void f() {{\n  {code};\n}}\n", "x.cpp:2: controller/reconcile is told")
        harmless = '// now() is the caller\'s\nauto f(TimePoint now) { return text("not now()", now); }\nauto g = refused_now(x);\n'
        self.assertEqual(layering.problems_in("controller/reconcile/x.cpp", harmless), [])

    def test_finds_paths_that_are_not_from_the_root(self):
        self.assert_problem("common/x.cpp", '#include "result.h"\n', "include from the root")

    def test_finds_product_code_that_includes_tests(self):
        self.assert_problem("common/x.cpp", '#include "tests/support/fake_clock.h"\n', "includes the tests'")

    def test_finds_python_that_imports_the_tests(self):
        tree = ["tests/charts/support.py", "tests/tools/lint/layering.py", "tools/lint/layering.py", "tools/lint/x.py"]
        for code in (
            "import tests.charts.support", "from tests.charts import support", "import support", "def f():\n    from support import g",
        ):
            with self.subTest(code=code):
                found = layering.python_problems_in("tools/lint/x.py", code, tree)
                self.assertRegex(" ".join(found), "x.py:[12]: imports .* of the tests")
        path = layering.python_problems_in("tools/lint/x.py", 'import sys\nsys.path.insert(0, "../charts")\n', tree)
        self.assertRegex(path[0], "x.py:2: sys.path")
        self.assertEqual(layering.python_problems_in("tools/lint/x.py", "import re\nimport layering\n", tree), [])

    def test_finds_cmake_and_shell_that_use_the_tests(self):
        for code in ("gnn_library(gnn_x SOURCES ../../tests/support/http.cpp)", 'python3 "$root/tests/e2e/demo.py"'):
            with self.subTest(code=code):
                found = layering.text_problems_in("common/CMakeLists.txt", code)
                self.assertRegex(found[0], "common/CMakeLists.txt: uses tests/.* of the tests")
        self.assertEqual(layering.text_problems_in("x", "# see tests/cmake\n[ $# -gt 0 ] && run scripts/test  # not tests/x\n"), [])

    def test_the_tree_uses_no_tests(self):
        self.assertEqual(layering.use_of_tests(), [])

    def test_lets_good_files_pass(self):
        self.assertEqual(
            layering.problems_in("worker/sampling/x.h", '#pragma once\n#include "worker/graph/block.h"\n'), []
        )


class Links(unittest.TestCase):
    OWNERS = {
        "gnn_common": "common", "gnn_graph": "worker/graph", "gnn_training": "worker/training", "gnn_progress": "worker/progress",
        "gnn_agent": "worker/agent", "gnn_client": "controller/client",
    }

    def problems(self, module, text):
        return layering.link_problems_in(f"{module}/CMakeLists.txt", text, self.OWNERS)

    def test_reads_the_lists_of_every_command(self):
        text = """
        # gnn_library(gnn_x PUBLIC gnn::agent)
        gnn_library(gnn_x TORCH
          SOURCES a.cpp b.cpp  # gnn::agent
          PUBLIC gnn::common PRIVATE gnn::graph)
        target_link_libraries(gnn_x PUBLIC LibTorch::cuda)
        gnn_executable(x SOURCES main.cpp PRIVATE gnn::x COMPONENT worker)
        """
        self.assertEqual(list(layering.links_in(text)), [
            ("gnn_x", "LibTorch::cpu"), ("gnn_x", "gnn::common"), ("gnn_x", "gnn::graph"), ("gnn_x", "LibTorch::cuda"),
            ("x", "gnn::x"),
        ])
        self.assertEqual(layering.targets_in("gnn_library(gnn_x SOURCES a.cpp)\ngnn_executable(gnn-y SOURCES b.cpp)"), ["gnn_x", "gnn-y"])

    def test_finds_a_link_against_the_table(self):
        for module, library in (
            ("common", "gnn::graph"), ("worker/graph", "gnn::agent"), ("worker/agent", "gnn::training"),
            ("controller/runtime", "gnn::graph"),
        ):
            with self.subTest(module=module, library=library):
                found = self.problems(module, f"gnn_library(gnn_x SOURCES a.cpp PRIVATE {library})")
                self.assertEqual(len(found), 1)
                self.assertIn(f"{module} may not link {library}", found[0])

    def test_finds_others_libraries_where_they_do_not_belong(self):
        for module, text in (
            ("worker/agent", "gnn_library(gnn_x TORCH SOURCES a.cpp)"),
            ("common", "gnn_library(gnn_x SOURCES a.cpp)\ntarget_link_libraries(gnn_x PRIVATE LibTorch::cpu)"),
            ("controller/runtime", "gnn_library(gnn_x SOURCES a.cpp PRIVATE cpprestsdk::cpprest)"),
            ("worker/tasks", "gnn_library(gnn_x SOURCES a.cpp PRIVATE prometheus-cpp::core)"),
        ):
            with self.subTest(module=module):
                self.assertRegex(" ".join(self.problems(module, text)), "may not be linked here")

    def test_finds_a_library_that_nobody_makes(self):
        self.assertRegex(self.problems("common", "gnn_library(gnn_x PUBLIC gnn::nowhere)")[0], "no module makes")

    def test_lets_good_links_pass(self):
        self.assertEqual(self.problems("worker/agent", "gnn_library(gnn_x SOURCES a.cpp PUBLIC gnn::common gnn::progress)"), [])
        self.assertEqual(self.problems("worker/training", "gnn_library(gnn_x TORCH SOURCES a.cpp PUBLIC gnn::graph gnn::progress)"), [])

    def test_a_folder_is_one_target(self):
        two = "gnn_library(gnn_x SOURCES a.cpp)\ngnn_executable(x SOURCES main.cpp)\n"
        self.assertRegex(layering.folder_problems_in("common/CMakeLists.txt", two)[0], r"makes 2 targets \(gnn_x, x\)")
        self.assertRegex(layering.folder_problems_in("common/CMakeLists.txt", "")[0], "makes 0 targets")
        either = "if(A)\n gnn_library(gnn_x SOURCES a.cpp)\nelse()\n gnn_library(gnn_x SOURCES b.cpp)\nendif()\n"
        self.assertEqual(layering.folder_problems_in("common/CMakeLists.txt", either), [])

    def test_the_table_has_no_circle(self):
        self.assertEqual(layering.table_problems({"a": [], "b": ["a"]}), [])
        self.assertRegex(layering.table_problems({"a": ["b"], "b": ["a"]})[0], "a may include b")
        self.assertRegex(layering.table_problems({"a": ["a"]})[0], "a may include a")

    def test_the_tree_keeps_to_the_table(self):
        self.assertEqual(layering.link_problems(), [])


if __name__ == "__main__":
    unittest.main()
