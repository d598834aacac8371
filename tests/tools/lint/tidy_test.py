"""What tidy.py remembers as clean, on a small tree with a stand-in for clang-tidy that takes "BAD" for a finding."""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import tidy

STAND_IN = """#!/bin/sh
for file; do :; done
echo "$file" >>"$(dirname "$0")/checked"
if grep BAD "$file"; then exit 1; fi
"""


class Remembers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "common").mkdir()
        (self.root / "build/tidy").mkdir(parents=True)
        (self.root / ".clang-tidy").write_text("Checks: '*'\n")
        self.source = self.root / "common/one.cpp"
        self.header = self.root / "common/one.h"
        self.header.write_text("#pragma once\n")
        self.write("int one();\n")
        self.compile_with("")
        program = self.root / "clang-tidy"
        program.write_text(STAND_IN)
        program.chmod(0o755)
        for name, value in (("ROOT", self.root), ("CACHE", self.root / "cache"), ("tool", lambda: program)):
            patch = mock.patch.object(tidy, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def write(self, text):
        self.source.write_text('#include "common/one.h"\n' + text)

    def compile_with(self, flags):
        (self.root / "build/tidy/compile_commands.json").write_text(json.dumps([{
            "directory": str(self.root / "build/tidy"), "file": str(self.source),
            "command": f"ccache c++ -I{self.root} {flags} -o one.o -c {self.source}",
        }]))

    def check(self):
        """The exit status, and whether clang-tidy ran."""
        checked = self.root / "checked"
        checked.unlink(missing_ok=True)
        with mock.patch("sys.argv", ["tidy.py"]), contextlib.redirect_stdout(io.StringIO()):
            status = tidy.main()
        return status, checked.exists()

    def test_a_clean_file_is_not_checked_again(self):
        self.assertEqual(self.check(), (0, True))
        self.assertEqual(self.check(), (0, False))

    def test_a_file_with_a_finding_is(self):
        self.write("int BAD();\n")
        self.assertEqual(self.check(), (1, True))
        self.assertEqual(self.check(), (1, True))

    def test_what_it_may_find_anew_is_checked_again(self):
        self.check()
        for change in (
            lambda: self.write("int two();\n"),
            lambda: self.write("int two();  // NOLINT\n"),
            lambda: self.header.write_text("#pragma once\n#define UNUSED 1\n"),
            lambda: self.compile_with("-DSOMETHING"),
            lambda: (self.root / ".clang-tidy").write_text("Checks: 'bugprone-*'\n"),
        ):
            change()
            self.assertEqual(self.check(), (0, True))
            self.assertEqual(self.check(), (0, False))

    def test_a_comment_in_a_macro_whose_value_is_pasted_does_not_keep_it_from_that(self):
        self.write("#define VERSION 3 /* of it */\n#define PASTE_(a, b) a##b\n#define PASTE(a, b) PASTE_(a, b)\n"
                   "int PASTE(one_, PASTE(VERSION, _x))();\n")
        self.check()
        self.assertEqual(self.check(), (0, False))

    def test_a_file_that_cannot_be_read_by_the_compiler_is_a_problem(self):
        self.write('#include "nowhere.h"\n')
        self.assertEqual(self.check()[0], 1)


if __name__ == "__main__":
    unittest.main()
