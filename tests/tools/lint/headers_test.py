"""headers.py finds a header that does not compile alone, on a small tree."""

import contextlib
import io
import json
import re
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import headers


class Alone(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gnn-headers-")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.build = self.root / "build/dev"
        self.build.mkdir(parents=True)
        self.write("third/large.hpp", "#pragma once\n#include <string>\nstruct Large {};\n")
        command = f"ccache c++ -I{self.root} -isystem {self.root}/third -Werror -Winvalid-pch -include pch.hxx -o a.o -c common/a.cpp"
        (self.build / "compile_commands.json").write_text(json.dumps([
            {"file": str(self.root / folder / "a.cpp"), "command": command} for folder in ("common", "worker/tasks")
        ]), encoding="utf-8")
        for name, value in {"ROOT": self.root, "CACHE": self.root / "cache", "LARGE": ["large.hpp"], "WORTH_IT": 1}.items():
            patch = mock.patch.object(headers, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        headers.includes.cache_clear()

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text, encoding="utf-8")

    def check(self, *names):
        output = io.StringIO()
        with contextlib.redirect_stdout(output), mock.patch("sys.argv", ["headers.py", *names]):
            return headers.main(), output.getvalue()

    def test_a_header_that_names_what_it_needs_passes(self):
        self.write("common/own.h", "#include <large.hpp>\n")
        self.write("common/good.h", '#include "common/own.h"\ninline std::string f(Large) { return {}; }\n')
        self.write("worker/plain.h", "#include <string>\nstd::string g();\n")
        self.assertEqual(self.check("common/own.h", "common/good.h", "worker/plain.h"), (0, "headers: 3 headers, 0 known, 0 problems\n"))

    def test_a_header_that_misses_an_include_is_found(self):
        self.write("common/good.h", "#include <large.hpp>\nstd::string f(Large);\n")
        self.write("common/bad.h", "std::string f();\n")
        status, output = self.check("common/good.h", "common/bad.h")
        self.assertEqual(status, 1)
        self.assertIn("common/bad.h: does not compile alone", output)
        self.assertIn("headers: 2 headers, 0 known, 1 problems", output)

    def test_what_another_header_precompiles_hides_nothing(self):
        self.write("common/good.h", "#include <large.hpp>\n")
        self.write("common/bad.h", "struct Mine { Large large; };\n")
        self.assertEqual(self.check("common/good.h", "common/bad.h")[0], 1)

    def test_only_what_is_worth_it_is_precompiled(self):
        for name in ("a", "b"):
            self.write(f"common/{name}.h", "#include <large.hpp>\n")
        self.write("common/c.h", '#include "common/a.h"\n')
        with mock.patch.object(headers, "WORTH_IT", 3):
            self.assertEqual(headers.large_of_each(["common/a.h", "common/b.h"]), {"common/a.h": None, "common/b.h": None})
            self.assertEqual(headers.large_of_each([f"common/{name}.h" for name in "abc"])["common/c.h"], "large.hpp")

    def known(self, *names):
        """How many of the headers were known to be good."""
        headers.includes.cache_clear()
        return int(re.search(r"(\d+) known", self.check(*names)[1])[1])

    def test_a_good_header_is_compiled_again_when_it_or_one_that_it_includes_has_changed(self):
        both = ("common/own.h", "common/good.h")
        self.write("common/own.h", "struct Own {};\n")
        self.write("common/good.h", '#include "common/own.h"\ninline Own f() { return {}; }\n')
        self.assertEqual([self.known(*both) for _ in range(2)], [0, 2])
        self.write("common/good.h", '#include "common/own.h"\ninline Own g() { return {}; }\n')
        self.assertEqual([self.known(*both) for _ in range(2)], [1, 2])
        self.write("common/own.h", "struct Own { int x; };\n")
        self.assertEqual([self.known(*both) for _ in range(2)], [0, 2])
        with mock.patch.object(headers, "installed", return_value=b"others"):
            self.assertEqual(self.known(*both), 0)

    def test_a_bad_header_is_not_remembered(self):
        self.write("common/bad.h", "std::string f();\n")
        self.assertEqual([self.known("common/bad.h") for _ in range(2)], [0, 0])

    def test_something_large_that_does_not_compile_is_a_problem(self):
        self.write("third/large.hpp", "#pragma once\nstruct Large {\n")
        self.write("common/good.h", "#include <large.hpp>\n")
        self.assertEqual(self.check("common/good.h")[0], 1)


if __name__ == "__main__":
    unittest.main()
