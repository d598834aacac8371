#pragma once

#include "worker/checkpoint/checkpoint_state.h"
#include "worker/checkpoint/file_ops.h"
#include "worker/comm/communicator.h"
#include "worker/training/workload.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gnn::training {

struct KeptLayersOptions {
  std::filesystem::path folder;  ///< made when missing; its parent must exist
  /// Of all that a layer's rows depend on: rows under another key are not found.
  std::string key{};
  int64_t rank = 0;
  int64_t world_size = 1;
  /// Layers that took less are computed again sooner than they are read.
  double worth_seconds = 60;
};

/// The rows of a hidden layer that a rank has computed, in a file, for the rank that comes after it. What
/// fails is logged: without these files, nothing but time is lost.
/// Threads: one.
class KeptLayers {
 public:
  KeptLayers(KeptLayersOptions options, std::shared_ptr<checkpoint::FileOps> files)
      : options_(std::move(options)), files_(std::move(files)) {}

  [[nodiscard]] bool has(int64_t layer);
  /// Fills all of `into`, or returns false where the file is not whole or has other rows; then its
  /// values are not to be used.
  [[nodiscard]] bool read(int64_t layer, const std::vector<checkpoint::CheckpointTensor>& into)
      const;
  void keep(int64_t layer, const std::vector<checkpoint::CheckpointTensor>& rows);
  /// Keeps the rows on all ranks, if the layer took long on one of them and none was asked to stop, whose rows
  /// are not all computed: what one rank keeps is of use if all do. Collective.
  [[nodiscard]] Status keep_on_all(
      int64_t layer,
      const std::vector<checkpoint::CheckpointTensor>& rows,
      double seconds,
      comm::Communicator& communicator,
      const EvaluationContext& context
  );
  /// Says that so many layers, of so many, are not computed again.
  static void tell_resumed(int64_t layers, int64_t of, progress::ProgressSink& progress);
  /// Removes the rows of other layers than the one that was kept last. Not before all ranks have kept
  /// it: one that is lost until then has the layer before.
  void remove_older();
  /// Removes this rank's files, of any key, and the folder once it is empty.
  void remove();

 private:
  [[nodiscard]] std::string ending() const;
  [[nodiscard]] std::string name_of(int64_t layer) const;
  // Files of this rank but for `kept`.
  void remove_others(const std::string& kept);

  KeptLayersOptions options_;
  std::shared_ptr<checkpoint::FileOps> files_;
  std::string newest_;  // file that was kept last
};

}  // namespace gnn::training
