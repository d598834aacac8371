#pragma once

#include "tests/worker/app/samples.h"
#include "worker/progress/progress_sink.h"

#include <nlohmann/json.hpp>

#include <string>
#include <utility>
#include <vector>

namespace gnn::app {

/// What DGL reached by one of the protocols of parity/make_imdb.py.
nlohmann::json dgl_imdb(const std::string& protocol);

/// A sample on IMDB-BINARY, of which GNN_TEST_DATA has a copy.
inline api::GnnJob imdb_sample(const std::string& name, std::vector<std::string> overrides = {}) {
  overrides.push_back("dataset.path=" + test_data() + "/IMDBBINARY/IMDBBINARY.txt");
  return sample(name, overrides);
}

/// The epochs of a run, in order.
class EpochList : public progress::ProgressSink {
 public:
  void on_phase(progress::Phase) override {}
  void on_step(const progress::StepReport&) override {}
  void on_epoch(const progress::EpochReport& report) override { epochs.push_back(report); }
  void on_final(const progress::FinalReport&) override {}
  void on_checkpoint(const progress::CheckpointReport&) override {}
  void on_message(const std::string&) override {}

  std::vector<progress::EpochReport> epochs;
};

}  // namespace gnn::app
