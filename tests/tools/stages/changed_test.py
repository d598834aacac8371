"""Which targets and tests scripts/test --changed takes for touched, on a small tree."""

import subprocess
import tempfile
import unittest
from pathlib import Path

import changed
from changed import Target, Test

FILES = {
    "common/log.h": "",
    "common/log.cpp": '#include "common/log.h"\n',
    "worker/graph.h": '#include "common/log.h"\n',
    "worker/graph.cpp": '#include "worker/graph.h"\n',
    "worker/main.cpp": '#include "common/log.h"\n',
    "tests/common/log_test.cpp": '#include "common/log.h"\n#include "near.h"\nauto crd = SOURCE "/manifests/crd.yaml";\n',
    "tests/common/near.h": "",
    "tests/worker/graph_test.cpp": '#include "worker/graph.h"\n',
    "tests/worker/parity/one.npy": "",
    "tests/run/agent_test.py": 'import agent\nPROGRAM = BUILD / "worker/main/gnn-worker"\n',
    "tests/run/docs_test.py": 'PAGES = ROOT / "docs"\n',
    "tests/run/script_test.py": 'run(ROOT / "scripts/images")\n',
    "tests/support/run_python_tests.py": "",
    "tools/agent/agent.py": "import wire\n",
    "tools/agent/wire.py": "",
    "scripts/images": '#!/bin/sh\nexec "$root/docker/bill.sh"\n',
    "docker/bill.sh": "",
    "docs/agent.md": "",
    "manifests/crd.yaml": "",
    "README.md": "",
}
TARGETS = [
    Target("gnn_pch", ".", []),
    Target("gnn_common", "common", ["common/log.cpp"], {"gnn_pch"}, ["common/libgnn_common.a"]),
    Target("gnn_graph", "worker", ["worker/graph.cpp"], {"gnn_common"}),
    Target("gnn-worker", "worker/main", ["worker/main.cpp"], {"gnn_graph"}, ["worker/main/gnn-worker"]),
    Target("gnn_common_test", "tests/common", ["tests/common/log_test.cpp"], {"gnn_common"}),
    Target("gnn_graph_test", "tests/worker", ["tests/worker/graph_test.cpp"], {"gnn_graph"}),
]
TESTS = [
    Test("gnn_common_test", ["unit"]),
    Test("gnn_graph_test", ["unit"]),
    Test("agent", ["unit", "python"], "tests/run/agent_test.py", ["tools/agent"]),
    Test("docs", ["unit", "python"], "tests/run/docs_test.py"),
    Test("script", ["unit", "python"], "tests/run/script_test.py"),
]
ALL = {test.name for test in TESTS}


class Changed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gnn-changed-")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for name, text in FILES.items():
            self.write(name, text)

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text, encoding="utf-8")

    def touched(self, *files):
        return changed.touched(changed.Tree(self.root), files, {target.name: target for target in TARGETS}, TESTS)

    def assert_tests(self, files, tests):
        for file in files:
            with self.subTest(file=file):
                self.assertEqual({test.name for test in self.touched(file).tests}, set(tests))

    def test_a_source_touches_what_is_made_of_it(self):
        self.assertEqual(self.touched("worker/graph.cpp").targets, ["gnn-worker", "gnn_graph", "gnn_graph_test"])
        self.assert_tests(["worker/graph.cpp"], ["gnn_graph_test", "agent"])
        self.assert_tests(["worker/main.cpp"], ["agent"])

    def test_a_header_touches_what_includes_it(self):
        self.assert_tests(["common/log.h"], ["gnn_common_test", "gnn_graph_test", "agent"])
        self.assert_tests(["worker/graph.h"], ["gnn_graph_test", "agent"])
        self.assert_tests(["tests/common/near.h"], ["gnn_common_test"])

    def test_a_file_touches_the_tests_that_name_it_or_its_folder(self):
        self.assert_tests(["manifests/crd.yaml"], ["gnn_common_test"])
        self.assert_tests(["docs/agent.md", "docs/new/page.md"], ["docs"])

    def test_data_touches_the_targets_of_its_folder(self):
        self.assert_tests(["tests/worker/parity/one.npy", "tests/worker/CMakeLists.txt"], ["gnn_graph_test"])

    def test_a_module_touches_what_imports_it(self):
        self.assert_tests(["tools/agent/wire.py", "tools/agent/agent.py", "tests/run/agent_test.py"], ["agent"])
        self.assert_tests(["tests/support/run_python_tests.py"], ["agent", "docs", "script"])

    def test_a_script_touches_the_tests_that_run_it(self):
        self.assert_tests(["scripts/images", "docker/bill.sh"], ["script"])

    def test_what_all_targets_are_made_with_touches_all_of_them(self):
        for file in ("CMakeLists.txt", "cmake/Warnings.cmake", "pins/debian-build.txt", "CMakePresets.json"):
            with self.subTest(file=file):
                self.assertEqual(len(self.touched(file).targets), len(TARGETS))

    def test_what_nothing_reads_touches_nothing(self):
        for file in ("README.md", "charts/values.yaml"):
            with self.subTest(file=file):
                found = self.touched(file)
                self.assertEqual((found.targets, found.tests), ([], []))

    def git(self, *arguments):
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=self.root, check=True, capture_output=True
        )

    def test_changes_are_those_since_main_and_those_not_committed(self):
        self.git("init", "-b", "main")
        self.git("add", ".")
        self.git("commit", "-m", "all")
        self.assertEqual(changed.changed_files(self.root), [])
        self.git("checkout", "-b", "mine")
        self.write("worker/graph.h", "#pragma once\n")
        self.git("mv", "docs/agent.md", "docs/agents.md")
        self.git("commit", "-a", "-m", "mine")
        self.git("checkout", "main")
        self.write("README.md", "of main\n")
        self.git("commit", "-a", "-m", "main's")
        self.git("checkout", "mine")
        self.write("common/log.h", "#pragma once\n")
        self.write("worker/a file.h", "")
        self.assertEqual(
            changed.changed_files(self.root),
            ["common/log.h", "docs/agent.md", "docs/agents.md", "worker/a file.h", "worker/graph.h"],
        )

    def test_without_a_main_it_says_so(self):
        self.git("init", "-b", "other")
        with self.assertRaisesRegex(RuntimeError, "neither main nor origin/main"):
            changed.changed_files(self.root)


if __name__ == "__main__":
    unittest.main()
