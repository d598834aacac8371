#include "worker/rendezvous/rendezvous.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace gnn::rendezvous {
namespace {

using Variables = std::map<std::string, std::string>;

EnvironmentLookup lookup(Variables variables) {
  return [variables](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

Variables fifth_of_six() {
  return {
      {"RANK", "4"},
      {"WORLD_SIZE", "6"},
      {"LOCAL_RANK", "1"},
      {"LOCAL_WORLD_SIZE", "3"},
      {"GROUP_RANK", "1"},
      {"MASTER_ADDR", "arxiv-0.arxiv-gnn"},
      {"MASTER_PORT", "29400"},
      {"GNN_JOB", "arxiv"},
      {"GNN_JOB_UID", "6f0c"},
      {"GNN_ATTEMPT", "2"},
      {"GNN_ROUND", "1"},
  };
}

std::string error_with(const char* name, const char* value) {
  auto variables = fifth_of_six();
  variables[name] = value;
  const auto parsed = parse_rendezvous(lookup(variables));
  EXPECT_FALSE(parsed.has_value()) << name << "=" << value;
  if (parsed) return {};
  EXPECT_EQ(parsed.error().kind, ErrorKind::Configuration);
  return parsed.error().message;
}

TEST(Rendezvous, ReadsTheAgentsVariables) {
  const auto parsed = parse_rendezvous(lookup(fifth_of_six()));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->rank, 4);
  EXPECT_EQ(parsed->world_size, 6);
  EXPECT_EQ(parsed->local_rank, 1);
  EXPECT_EQ(parsed->node_rank, 1);
  EXPECT_EQ(parsed->local_world_size, 3);
  EXPECT_EQ(parsed->store_host, "arxiv-0.arxiv-gnn");
  EXPECT_EQ(parsed->store_port, 29400);
  EXPECT_EQ(round_prefix(parsed->incarnation), "6f0c/2/1/");
}

TEST(Rendezvous, WithoutRankIsTheOnlyRank) {
  const auto parsed = parse_rendezvous(lookup({}));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->world_size, 1);
  EXPECT_EQ(parsed->rank, 0);
}

TEST(Rendezvous, TheOnlyRankKnowsTheJobsUid) {
  const auto parsed = parse_rendezvous(lookup(
      {{"RANK", "0"},
       {"WORLD_SIZE", "1"},
       {"LOCAL_RANK", "0"},
       {"LOCAL_WORLD_SIZE", "1"},
       {"GROUP_RANK", "0"},
       {"GNN_JOB_UID", "6f0c"}}
  ));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->incarnation.job_uid, "6f0c");
}

TEST(Rendezvous, NamesTheVariableAndItsValue) {
  EXPECT_NE(error_with("WORLD_SIZE", "six").find("WORLD_SIZE"), std::string::npos);
  EXPECT_NE(error_with("WORLD_SIZE", "six").find("'six'"), std::string::npos);
  EXPECT_NE(error_with("RANK", "6").find("RANK"), std::string::npos);
  EXPECT_NE(error_with("RANK", "-1").find("RANK"), std::string::npos);
  EXPECT_NE(error_with("MASTER_PORT", "65536").find("MASTER_PORT"), std::string::npos);
  EXPECT_NE(error_with("GNN_ROUND", "1x").find("GNN_ROUND"), std::string::npos);
  EXPECT_NE(error_with("GNN_JOB_UID", "").find("GNN_JOB_UID"), std::string::npos);
  EXPECT_NE(error_with("MASTER_ADDR", "").find("MASTER_ADDR"), std::string::npos);
}

TEST(Rendezvous, RejectsAContradictoryPosition) {
  EXPECT_NE(error_with("RANK", "5").find("LOCAL_RANK"), std::string::npos);
  EXPECT_NE(error_with("LOCAL_WORLD_SIZE", "4").find("multiple"), std::string::npos);
}

}  // namespace
}  // namespace gnn::rendezvous
