#pragma once

#include "common/api/gnn_job.h"
#include "worker/app/job_file.h"
#include "worker/app/run_rank.h"
#include "worker/progress/console_sink.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace gnn::app {

/// A sample of manifests/samples with fields of its spec set. A sample that does not load fails the
/// test.
api::GnnJob sample(const std::string& name, const std::vector<std::string>& overrides = {});

/// Runs a job in this process as its only rank, and tells `sink`.
inline Result<tasks::TaskResult> run_job(const api::GnnJob& job, progress::ProgressSink& sink) {
  StopToken stop;
  rendezvous::Rendezvous alone;
  alone.job = job.metadata.name;
  alone.incarnation.attempt = 1;
  return run_rank(job, {.rendezvous = alone, .progress = sink, .stop = stop, .activity = nullptr});
}

inline Result<tasks::TaskResult> run_job(const api::GnnJob& job) {
  progress::NullSink sink;
  return run_job(job, sink);
}

/// The folder that GNN_TEST_DATA names; empty where it names none.
inline std::string test_data() {
  const char* folder = std::getenv("GNN_TEST_DATA");
  return folder == nullptr ? "" : folder;
}

}  // namespace gnn::app

/// Ends the test when there is no test data: skipped by name here, failed in CI.
#define GNN_REQUIRE_TEST_DATA()                                                \
  do {                                                                         \
    if (::gnn::app::test_data().empty()) {                                     \
      if (std::getenv("CI") != nullptr) {                                      \
        FAIL() << "GNN_TEST_DATA must name the folder of the test data in CI"; \
      }                                                                        \
      GTEST_SKIP() << "GNN_TEST_DATA is not set: no cora and IMDBBINARY";      \
    }                                                                          \
  } while (false)
