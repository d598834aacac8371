#include "worker/app/job_file.h"

#include "common/contract.h"
#include "tests/support/read_file.h"
#include "tests/support/source_dir.h"
#include "tests/worker/app/samples.h"
#include "worker/tasks/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace gnn::app {
namespace {

using ::testing::HasSubstr;

bool is_gnn_job(const std::filesystem::path& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line == "kind: GNNJob") return true;
  }
  return false;
}

TEST(Samples, AllParseIntoATask) {
  int64_t found = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(gnn::testing::source_dir() + "/manifests/samples")) {
    if (!is_gnn_job(entry.path())) continue;  // data-import.yaml is a plain Job
    ++found;
    const auto job = load_job(entry.path().string());
    ASSERT_TRUE(job.has_value()) << job.error().message;
    EXPECT_TRUE(tasks::parse_task(*job)) << entry.path();
  }
  EXPECT_GE(found, 9);
}

TEST(LoadJob, SetsFieldsOfTheSpec) {
  const api::GnnJob job = sample(
      "cora.yaml",
      {"training.epochs=3",
       "spec.dataset.path=/elsewhere",
       "sampling.fanout=[5,5]",
       "training.optimizer.learningRate=\"0.5\""}
  );
  EXPECT_EQ(job.spec.training.epochs, 3);
  EXPECT_EQ(job.spec.dataset.path, "/elsewhere");
  EXPECT_EQ(job.spec.sampling->fanout, (std::vector<int64_t>{5, 5}));
  EXPECT_EQ(job.spec.training.optimizer.learning_rate.text, "0.5");
}

TEST(LoadJob, NamesAnUnknownField) {
  const auto job =
      load_job(gnn::testing::source_dir() + "/manifests/samples/cora.yaml", {"training.epocs=3"});
  ASSERT_FALSE(job.has_value());
  EXPECT_EQ(job.error().kind, ErrorKind::Configuration);
  EXPECT_THAT(job.error().message, HasSubstr("epocs"));
}

TEST(LoadJob, NamesEveryInvalidField) {
  const auto job = load_job(
      gnn::testing::source_dir() + "/manifests/samples/cora.yaml",
      {"training.epochs=-1", "sampling.fanout=[5]", "training.batchSize=0"}
  );
  ASSERT_FALSE(job.has_value());
  EXPECT_EQ(contract::exit_code_for(job.error().kind), contract::kExitConfiguration);
  EXPECT_THAT(job.error().message, HasSubstr("spec.training.epochs"));
  EXPECT_THAT(job.error().message, HasSubstr("spec.sampling.fanout"));
  EXPECT_THAT(job.error().message, HasSubstr("spec.training.batchSize"));
}

TEST(LoadJob, RejectsAMalformedOverride) {
  EXPECT_FALSE(
      load_job(gnn::testing::source_dir() + "/manifests/samples/cora.yaml", {"=3"}).has_value()
  );
  EXPECT_FALSE(
      load_job(gnn::testing::source_dir() + "/manifests/samples/cora.yaml", {"epochs"}).has_value()
  );
  EXPECT_FALSE(load_job(
                   gnn::testing::source_dir() + "/manifests/samples/cora.yaml",
                   {"training.epochs.more=1"}
  )
                   .has_value());
}

TEST(LoadJob, ReadsAPipe) {
  const std::string text =
      testing::read_file(gnn::testing::source_dir() + "/manifests/samples/cora.yaml");
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ::close(ends[1]);
  const auto job = load_job("/dev/fd/" + std::to_string(ends[0]));
  ::close(ends[0]);
  ASSERT_TRUE(job.has_value()) << job.error().message;
  EXPECT_EQ(job->metadata.name, "cora");
}

TEST(LoadJob, RefusesWhatIsNoManifestsFile) {
  const auto message = [](const std::string& path) { return load_job(path).error().message; };
  EXPECT_EQ(message("/"), "/: cannot be read");
  EXPECT_THAT(message("/dev/zero"), HasSubstr("larger than the limit of 2 MiB"));
}

TEST(LoadJob, NamesAMissingFile) {
  const auto job = load_job("/no/such/job.yaml");
  ASSERT_FALSE(job.has_value());
  EXPECT_THAT(job.error().message, HasSubstr("/no/such/job.yaml"));
}

}  // namespace
}  // namespace gnn::app
