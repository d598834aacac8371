#include "controller/reconcile/spec_errors.h"

#include "tests/common/api/sample_job.h"
#include "tests/support/must.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace gnn::reconcile {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(SpecErrors, AreEachNamedWithItsField) {
  api::GnnJob job = api::sample_job();
  EXPECT_THAT(spec_errors(job, api::AllowedKeys()), IsEmpty());
  job.spec.workers.nodes = 0;
  job.spec.training.epochs = 0;
  EXPECT_THAT(
      spec_errors(job, api::AllowedKeys()),
      ElementsAre(
          "spec.training.epochs: must be at least 1", "spec.workers.nodes: must be at least 1"
      )
  );
}

TEST(SpecErrors, AreAboutTemplatesThatAClusterNeeds) {
  api::GnnJob job = api::sample_served_job();
  job.spec.workers.pod_template.reset();
  job.spec.servers->pod_template.reset();
  EXPECT_THAT(
      spec_errors(job, api::AllowedKeys()),
      ElementsAre(
          "spec.workers.template: required field is missing",
          "spec.servers.template: required field is missing"
      )
  );
}

TEST(SpecErrors, AreAboutKeysThatAreNotAllowed) {
  api::GnnJob job = api::sample_job();
  job.spec.workers.pod_template->metadata.emplace().labels["team"] = "a";
  EXPECT_THAT(spec_errors(job, api::AllowedKeys()), ElementsAre(HasSubstr("[\"team\"]")));
  EXPECT_THAT(spec_errors(job, testing::must(api::AllowedKeys::parse("team"))), IsEmpty());
}

TEST(IdleGpus, AreThoseThatAJobOnTheCpuRequests) {
  api::GnnJob job = api::sample_job();
  job.spec.workers.gpus_per_process = 1;
  job.spec.training.device = api::DeviceChoice::CPU;
  EXPECT_THAT(idle_gpus(job.spec), HasSubstr("workers.gpusPerProcess"));
  job.spec.training.device = api::DeviceChoice::CUDA;
  EXPECT_EQ(idle_gpus(job.spec), "");
  job.spec.workers.gpus_per_process = 0;
  job.spec.training.device = api::DeviceChoice::CPU;
  EXPECT_EQ(idle_gpus(job.spec), "");
}

}  // namespace
}  // namespace gnn::reconcile
