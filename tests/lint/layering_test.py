"""The layering check must catch what it is there for."""

import unittest

import layering


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
