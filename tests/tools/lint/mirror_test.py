"""What the check of mirrored tests finds."""

import unittest

import mirror

TREE = [
    "common/a.h", "common/a.cpp", "common/b.h", "worker/x/c.cu", "docs/d.h",
    "tests/common/a_test.cpp", "tests/worker/x/all_test.cpp", "tests/worker/x/fixture.cpp",
]


class Mirror(unittest.TestCase):
    def assert_found(self, expected, covered, untested=()):
        found = mirror.problems(TREE, covered, dict.fromkeys(untested, ""))
        self.assertEqual([problem.split(": ")[0] for problem in found], expected)

    def test_a_source_without_a_test_is_found(self):
        self.assert_found(["common/b", "worker/x/c"], {})

    def test_the_table_names_the_test_or_the_reason(self):
        self.assert_found([], {"tests/worker/x/all_test.cpp": ["worker/x/c"]}, ["common/b"])

    def test_a_line_of_the_table_that_is_not_true_is_found(self):
        covered = {"tests/worker/x/all_test.cpp": ["worker/x/c", "common/b"]}
        self.assert_found(["common/a"], {**covered, "tests/common/a_test.cpp": ["common/a"]})
        self.assert_found(["common/gone"], covered, ["common/gone"])
        self.assert_found(["common/b"], covered, ["common/b"])
        self.assert_found(["tests/worker/x/gone_test.cpp"], {**covered, "tests/worker/x/gone_test.cpp": []})
        self.assert_found(["tests/worker/x/fixture.cpp"], {**covered, "tests/worker/x/fixture.cpp": []})


if __name__ == "__main__":
    unittest.main()
