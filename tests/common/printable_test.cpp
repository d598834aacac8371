#include "common/printable.h"

#include <gtest/gtest.h>

#include <string>

namespace gnn {
namespace {

TEST(PrintableLine, KeepsTextAndDropsControlCharacters) {
  EXPECT_EQ(printable_line("two words, Größe 5 µs – ok…", 100), "two words, Größe 5 µs – ok…");
  EXPECT_EQ(printable_line("a\n\tb\x1b[31mred", 100), "a b [31mred");
  EXPECT_EQ(printable_line("a\xff\xfe\x80z", 100), "a z");
  EXPECT_EQ(printable_line("right\u202Eleft\u200B\u2028end", 100), "right left end");
  EXPECT_EQ(printable_line("\xC0\x80\xED\xA0\x80\xF5\x80\x80\x80", 100), "");
  EXPECT_EQ(printable_line("ends in half \xE2\x82", 100), "ends in half");
}

TEST(PrintableLine, CutsBetweenCharactersAndMarksIt) {
  EXPECT_EQ(printable_line("abcdefgh", 8), "abcdefgh");
  EXPECT_EQ(printable_line("abcdefghi", 8), "abcde…");
  EXPECT_EQ(printable_line("ääääää", 8), "ää…");
  EXPECT_LE(printable_line(std::string(100000, 'x'), 1024).size(), 1024U);
  EXPECT_EQ(printable_line("abc", 2), "");
}

TEST(PrintableAscii, KeepsLinesAndTabsAndQuestionsTheRest) {
  EXPECT_EQ(printable_ascii("two\tcolumns\nlines~", 100), "two\tcolumns\nlines~");
  EXPECT_EQ(printable_ascii("\x1b[31m\r\x7f\xc3\xa4", 100), "?[31m????");
}

TEST(PrintableAscii, CutsWithoutAMark) {
  EXPECT_EQ(printable_ascii("abcdefgh", 5), "abcde");
  EXPECT_EQ(printable_ascii("abc", 0), "");
}

}  // namespace
}  // namespace gnn
