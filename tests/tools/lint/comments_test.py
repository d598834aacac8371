"""Each bad layout of a comment is found, and each good one is left alone."""

import unittest

import comments


def found(text):
    return comments.problems_in("x.h", text)


class TrailingComments(unittest.TestCase):
    def test_good_ones_are_left_alone(self):
        for line in (
            "int64_t keep = 3;  ///< newest ones that save leaves",
            "Kind kind;  ///< Normal | Warning",
            "std::string checksum;  ///< XXH3, 128 bits",
            "std::string peer;  ///< PyG's name",
            "at::Tensor x;  ///< [num_rows, F], e.g. features",
        ):
            self.assertEqual(found(f"struct A {{\n  {line}\n}};\n"), [], line)

    def test_a_comment_on_two_lines_is_found(self):
        self.assertEqual(len(found("  int a;  ///< one\n          ///< more\n")), 1)

    def test_a_member_on_two_lines_is_found(self):
        self.assertEqual(len(found("  int64_t a =\n      0;  ///< one\n")), 1)
        self.assertEqual(len(found("  int a = int{1}\n          << 20;  ///< one\n")), 1)
        self.assertEqual(len(found("  int a{\n      1\n  };  ///< one\n")), 1)
        self.assertEqual(len(found("void f(\n    int a\n);  ///< one\n")), 1)
        self.assertEqual(len(found("  Map<int>\n      map;  ///< one\n")), 1)

    def test_parameters_and_enumerators_may_have_one_each(self):
        self.assertEqual(found("void f(\n    int a,  ///< one\n    int b   ///< two\n);\n"), [])
        self.assertEqual(found("enum class A {\n  B,  ///< one\n  C,  ///< two\n};\n"), [])

    def test_a_capital_a_full_stop_and_a_second_sentence_are_found(self):
        self.assertEqual(len(found("  int a;  ///< The one\n")), 1)
        self.assertEqual(len(found("  int a;  ///< the one.\n")), 1)
        self.assertEqual(len(found("  int a;  ///< the one. Not the other\n")), 1)


class OtherComments(unittest.TestCase):
    def test_a_banner_in_two_lines_is_found(self):
        self.assertEqual(len(found("// --- API\n// ------------\n")), 1)
        self.assertEqual(found("// ---- API\n"), [])

    def test_one_word_heads_what_is_said_of_threads(self):
        self.assertEqual(len(found("/// Threading: any.\n")), 1)
        self.assertEqual(found("/// Threads: any.\n"), [])

    def test_what_is_said_of_errors_starts_a_line(self):
        self.assertEqual(len(found("/// Reads it. Errors: Io.\n")), 1)
        self.assertEqual(found("/// Reads it.\n/// Errors: Io.\n"), [])

    def test_documentation_comments_are_for_headers(self):
        text = "/// Mine alone.\nvoid f();\n"
        self.assertEqual(len(comments.problems_in("x.cpp", text)), 1)
        self.assertEqual(comments.problems_in("x.h", text), [])


if __name__ == "__main__":
    unittest.main()
