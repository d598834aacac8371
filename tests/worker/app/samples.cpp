#include "tests/worker/app/samples.h"

#include "tests/support/source_dir.h"

#include <filesystem>

namespace gnn::app {

api::GnnJob sample(const std::string& name, const std::vector<std::string>& overrides) {
  auto job = load_job(gnn::testing::source_dir() + "/manifests/samples/" + name, overrides);
  if (!job) {
    ADD_FAILURE() << job.error().message;
    return {};
  }
  return std::move(*job);
}

}  // namespace gnn::app
