"""What the check of the table of faults finds."""

import unittest

import faults

FILES = {
    "tests/common/CMakeLists.txt": "gnn_test(\n  gnn_a_test\n  SOURCES a_test.cpp\n  LABELS unit asan\n)\n",
    "tests/common/a_test.cpp": "TEST(A, Holds) {\n}\nTEST_F(B, Holds) {\n}\n",
    "tests/common/left_out_test.cpp": "TEST(LeftOut, Holds) {\n}\n",
    "tests/worker/agent/CMakeLists.txt": '  gnn_test(\n    p SOURCES p_test.cpp LINK x LABELS integration ENV "X=$<TARGET_FILE:x>"\n  )\n',
    "tests/worker/agent/p_test.cpp": "TEST_P(P, Holds) {\n}\n",
    "tests/integration/x/CMakeLists.txt":
        "gnn_test(x SOURCES x_test.cpp LABELS integration)\ngnn_test(y SOURCES x_test.cpp LABELS integration slow)\n",
    "tests/integration/x/x_test.cpp": "TEST(X, Holds) {\n}\n",
    "tests/e2e/CMakeLists.txt": "gnn_python_test(e SCRIPT e_test.py TOOLS demo LABELS e2e slow TIMEOUT 60)\n",
    "tests/e2e/e_test.py": "class First:\n    def test_one(self):\n        pass\nclass Second:\n    def test_two(self):\n        pass\n",
}


def page(**changed):
    """A page on which all is well, but for the changed rows: by "row" and the number."""
    rows = {f"row{number}": f"| {number} | a fault | none | – | – | not tested |" for number in range(1, 34)}
    return "| # |\n| --- |\n" + "\n".join(row for row in {**rows, **changed}.values() if row)


class Faults(unittest.TestCase):
    def assert_found(self, expected, **changed):
        self.assertEqual(faults.problems(page(**changed), faults.tests(FILES)), expected)

    def test_level_and_mode_of_a_test_are_those_of_its_program(self):
        self.assertEqual(faults.tests(FILES), {
            "A.Holds": {("U", False)}, "B.Holds": {("U", False)}, "P.Holds": {("P", False)},
            "X.Holds": {("A", False), ("A", True)}, "First.test_one": {("C", True)}, "Second.test_two": {("C", True)},
        })

    def test_a_row_that_agrees_with_its_tests_passes(self):
        self.assert_found([])
        self.assert_found([], row2="| 2 | a fault | `A.Holds`, `P.Holds` | U, P | default | ends |")
        self.assert_found([], row2="| 2 | a fault | `X.Holds` | A | both | ends |")
        self.assert_found([], row2="| 2 | a fault | `Second.test_two` | C | `--full` | ends |")

    def test_a_missing_row_is_found(self):
        self.assertIn("expected rows numbered from 1", faults.problems(page(row7=""), {})[0])

    def test_a_test_that_is_gone_or_in_no_program_is_found(self):
        self.assert_found(["fault 2: there is no test A.Gone"], row2="| 2 | a fault | `A.Holds`, `A.Gone` | U | default | ends |")
        self.assert_found(["fault 2: there is no test LeftOut.Holds"], row2="| 2 | a fault | `LeftOut.Holds` | U | default | ends |")

    def test_a_wrong_level_or_mode_is_found(self):
        self.assert_found(["fault 2: its tests have level U, A, not A"], row2="| 2 | a fault | `A.Holds`, `X.Holds` | A | both | ends |")
        self.assert_found(
            ["fault 2: its tests run in mode both, not default"], row2="| 2 | a fault | `A.Holds`, `X.Holds` | U, A | default | ends |"
        )

    def test_a_row_names_a_test_or_says_that_there_is_none(self):
        self.assert_found(
            ["fault 2: names no test in `quotes`; if there is none, say none, – and –"],
            row2="| 2 | a fault | A.Holds | U | default | ends |",
        )
        self.assert_found(["fault 2: expected six cells, each with text"], row2="| 2 | a fault | `A.Holds` | U | default | |")


if __name__ == "__main__":
    unittest.main()
