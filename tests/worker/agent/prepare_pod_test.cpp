#include "worker/agent/prepare_pod.h"

#include "common/contract.h"
#include "tests/support/read_file.h"
#include "tests/support/schema.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_folder.h"
#include "worker/agent/final_result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <new>
#include <string>
#include <unistd.h>

namespace gnn::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PreparePod : public ::testing::Test {
 protected:
  AgentOptions options() {
    AgentOptions options;
    options.job = "arxiv";
    options.job_uid = "6f0c";
    options.attempt = 2;
    options.http_address = "127.0.0.1:0";
    options.termination_log = folder_.path("result");
    return options;
  }
  nlohmann::json result() {
    return nlohmann::json::parse(gnn::testing::read_file(folder_.path("result")));
  }

  gnn::testing::TemporaryFolder folder_;
};

TEST_F(PreparePod, ShowsHowMuchOfATaskIsDoneAndEndsWithTheContractsCodesAndTheWordsOfTheWork) {
  SilentProgressBar silent;
  const AgentOptions pod = options();
  PrepareProgress progress(pod, silent);
  progress.begin("reading edges", 200, "edges");
  progress.advance_to(86, {});
  const gnn::testing::Schema schema(gnn::testing::source_dir() + "/docs/schemas/progress.v1.json");
  EXPECT_THAT(schema.problems(progress.progress_page()), IsEmpty());
  const auto page = nlohmann::json::parse(progress.progress_page());
  EXPECT_EQ(page["phase"], "Prepare");
  EXPECT_EQ(page["attempt"], 2);
  EXPECT_EQ(page["doing"], "reading edges");
  EXPECT_EQ(page["percent"], 43);
  EXPECT_THAT(
      progress.metrics_page(), HasSubstr(R"(gnn_prepare_ratio{job="arxiv",node="0"} 0.43)")
  );
  progress.begin("hashing input", 0, "files");
  EXPECT_FALSE(nlohmann::json::parse(progress.progress_page()).contains("percent"));

  EXPECT_EQ(
      run_prepare_pod(pod, [](ProgressBar&) -> Result<std::string> { return "/data/x: 6 nodes"; }),
      contract::kExitDone
  );
  EXPECT_EQ(result()["message"], "/data/x: 6 nodes");
  EXPECT_EQ(result()["exitCode"], 0);
  const auto bad = [](ProgressBar&) -> Result<std::string> {
    return fail(ErrorKind::Data, "edge.csv, line 3: expected 2 numbers");
  };
  EXPECT_EQ(run_prepare_pod(pod, bad), contract::kExitData);
  EXPECT_EQ(result()["reason"], "Data");
  EXPECT_EQ(result()["message"], "edge.csv, line 3: expected 2 numbers");
  const auto large = [](ProgressBar&) -> Result<std::string> { throw std::bad_alloc(); };
  EXPECT_EQ(run_prepare_pod(pod, large), contract::kExitOutOfMemory);
}

using PreparePodDeathTest = PreparePod;

TEST_F(PreparePodDeathTest, LeavesAtOnceWhenToldToStopWhateverTheWorkDoes) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const AgentOptions pod = options();
  EXPECT_EXIT(
      (void)run_prepare_pod(
          pod,
          [](ProgressBar&) -> Result<std::string> {
            ::kill(::getpid(), SIGTERM);
            while (true) ::pause();
          }
      ),
      ::testing::ExitedWithCode(contract::kExitPreempted),
      ""
  );
}

}  // namespace
}  // namespace gnn::agent
