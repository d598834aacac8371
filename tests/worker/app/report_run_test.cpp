#include "worker/app/report_run.h"

#include "common/contract.h"
#include "tests/support/read_file.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/app/samples.h"
#include "worker/app/command.h"
#include "worker/report/record_json.h"

#include <CLI/CLI.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace gnn::app {
namespace {

using gnn::testing::read_file;
using gnn::testing::TemporaryFolder;
using ::testing::HasSubstr;

// The exit code of `gnn-worker report` with these arguments, and what it printed.
struct Printed {
  int exit_code = -1;
  std::string out;
  std::string err;
};

Printed run_report(std::vector<std::string> arguments) {
  CLI::App root;
  Subcommand chosen;
  add_report_command(root, chosen);
  arguments.insert(arguments.begin(), "report");
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  root.parse(arguments);
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Printed printed;
  printed.exit_code = chosen();
  printed.out = ::testing::internal::GetCapturedStdout();
  printed.err = ::testing::internal::GetCapturedStderr();
  return printed;
}

TEST(ReportCommand, ShowsARunOfThisMachine) {
  const TemporaryFolder folder;
  const std::string checkpoints = folder.path("checkpoints");
  const std::vector<std::string> overrides = {
      "dataset.synthetic.scale=\"0.01\"",
      "training.epochs=2",
      "training.batchSize=32",
      "checkpoint.path=" + checkpoints
  };
  const auto result = run_job(sample("fake-gcn.yaml", overrides));
  ASSERT_TRUE(result.has_value()) << result.error().message;
  const auto record = report::parse_record(read_file(checkpoints + "/run.json"));
  ASSERT_TRUE(record.has_value()) << record.error().message;
  EXPECT_EQ(record->epochs.size(), 2U);
  EXPECT_EQ(record->facts.task, "NodeClassification");
  EXPECT_TRUE(record->data && record->data->labels && record->confusion && record->outcome);
  EXPECT_THAT(record->data->description, HasSubstr("nodes"));

  const std::string page = folder.path("report.html");
  for (const std::string& run : {checkpoints, checkpoints + "/run.json"}) {
    const Printed printed = run_report({run, "--output", page});
    EXPECT_EQ(printed.exit_code, contract::kExitDone) << printed.err;
    EXPECT_THAT(printed.out, HasSubstr(page));
    EXPECT_THAT(read_file(page), HasSubstr("<title>Training report</title>"));
  }
}

TEST(ReportCommand, SaysWhatIsWrongWithAFolderOrARecord) {
  const TemporaryFolder folder;
  const std::string page = folder.path("report.html");
  const auto expect = [&](const std::string& run, int exit_code, const std::string& words) {
    const Printed printed = run_report({run, "--output", page});
    EXPECT_EQ(printed.exit_code, exit_code) << run;
    EXPECT_THAT(printed.err, HasSubstr(words));
    EXPECT_FALSE(std::filesystem::exists(page));
  };
  expect(folder.path("none"), contract::kExitData, "there is no such file or folder");
  expect(folder.path(""), contract::kExitData, "found no run.json; expected the folder of a job's");
  std::filesystem::create_directories(folder.path("folds/fold-0"));
  expect(folder.path("folds"), contract::kExitData, "name one of them");
  folder.write("run.json", "{\"format\": 7}");
  expect(folder.path(""), contract::kExitData, "format: expected 1");
  folder.write("run.json", report::to_text({}));
  const Printed printed =
      run_report({folder.path(""), "--output", folder.path("no/such/page.html")});
  EXPECT_EQ(printed.exit_code, contract::kExitOther);
}

}  // namespace
}  // namespace gnn::app
