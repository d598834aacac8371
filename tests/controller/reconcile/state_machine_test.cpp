#include "tests/support/read_file.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>

// Compares docs/state-machine.md with the constants of controller/reconcile/conditions.h.
namespace gnn::reconcile {
namespace {

std::string read(const std::string& path) {
  return gnn::testing::read_file(std::string(GNN_SOURCE_DIR) + "/" + path);
}

std::set<std::string> matches(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  std::set<std::string> found;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), regex);
       it != std::sregex_iterator();
       ++it) {
    found.insert((*it)[1].str());
  }
  return found;
}

// The text between a heading and the next.
std::string section(const std::string& text, const std::string& heading) {
  const size_t start = text.find("## " + heading + "\n");
  EXPECT_NE(start, std::string::npos) << heading;
  const size_t end = text.find("\n## ", start + 1);
  return text.substr(start, end - start);
}

std::string constants_of(const std::string& header, const std::string& name) {
  const size_t start = header.find("namespace " + name + " {");
  return header.substr(start, header.find("}  // namespace " + name) - start);
}

TEST(StateMachine, PageAndConstantsAgree) {
  const std::string header = read("controller/reconcile/conditions.h");
  const std::string page = read("docs/state-machine.md");
  constexpr const char* kConstant = R"re(= "(\w+)")re";
  constexpr const char* kFirstCell = R"(\n\| `(\w+)` \|)";
  EXPECT_EQ(
      matches(section(page, "Conditions"), kFirstCell),
      matches(constants_of(header, "condition"), kConstant)
  );
  EXPECT_EQ(
      matches(section(page, "Reasons"), kFirstCell),
      matches(constants_of(header, "reason"), kConstant)
  );
  EXPECT_EQ(
      matches(section(page, "States"), kFirstCell),
      matches(constants_of(header, "state"), kConstant)
  );
}

}  // namespace
}  // namespace gnn::reconcile
