#include "worker/training/predictions.h"

#include "common/hash.h"
#include "common/log.h"
#include "worker/checkpoint/durable_file.h"
#include "worker/data/array.h"
#include "worker/training/agreement.h"
#include "worker/training/node_list.h"
#include "worker/training/npy_file.h"
#include "worker/training/parameters_hash.h"
#include "worker/training/scattered_rows.h"
#include "worker/training/scores.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <span>
#include <utility>

namespace gnn::training {
namespace {

namespace fs = std::filesystem;

constexpr const char* kField = "spec.predictions.path";
constexpr const char* kNodesField = "spec.predictions.nodes";
constexpr const char* kFailure = "could not write to spec.predictions.path";
constexpr const char* kIdsFile = "ids.npy";
constexpr std::string_view kLayersFolder = "layers";
constexpr std::array kOutputs = {
    api::Output::Classes, api::Output::Scores, api::Output::Embeddings
};
// Between two times that ranks agree on stopping while they send rows.
constexpr size_t kPiecesBetweenStops = 64;

const char* file_of(api::Output output) {
  switch (output) {
    case api::Output::Classes:
      return "classes.npy";
    case api::Output::Scores:
      return "scores.npy";
    case api::Output::Embeddings:
      break;
  }
  return "embeddings.npy";
}

std::span<const std::byte> bytes_of(const at::Tensor& rows) {
  return {static_cast<const std::byte*>(rows.const_data_ptr()), rows.nbytes()};
}

// The rows of one output. Where they ascend over the ranks, in their order, rank 0 writes its own as they
// come, and then those that the others have gathered until then; elsewhere all gather theirs.
class OutputRows {
 public:
  OutputRows(api::Output output, int64_t width, bool ascend) : output_(output), width_(width) {
    if (ascend) return;
    scattered_.emplace(
        is_classes() ? at::kLong : at::kFloat,
        is_classes() ? std::vector<int64_t>() : std::vector{width}
    );
  }

  [[nodiscard]] api::Output output() const { return output_; }
  [[nodiscard]] std::optional<NpyFile>& file() { return file_; }

  [[nodiscard]] data::DType dtype() const {
    return is_classes() ? data::DType::Int64 : data::DType::Float32;
  }
  [[nodiscard]] std::vector<int64_t> shape_of(int64_t rows) const {
    return is_classes() ? std::vector{rows} : std::vector{rows, width_};
  }

  // Of logits or embeddings, and where they stand in the file unless rows ascend; what fails is told at the
  // end.
  void take(const at::Tensor& places, const at::Tensor& rows) {
    const at::Tensor plain = (is_classes() ? answers_of(rows) : rows.to(at::kFloat)).contiguous();
    if (file_ && !scattered_) return write(plain);
    // Rows may lie in a matrix that goes away.
    const at::Tensor kept = plain.is_alias_of(rows) ? plain.clone() : plain;
    if (scattered_) {
      scattered_->add(places, kept);
    } else {
      pieces_.push_back(kept);
    }
  }

  // Has rank 0 write the rows of all others. Returns whether no rank was asked to stop. Collective.
  Result<bool> send(
      int64_t num_rows, comm::Communicator& communicator, const EvaluationContext& context
  ) {
    if (!scattered_) return send_pieces(communicator, context);
    return scattered_->send(num_rows, communicator, context, [this](const at::Tensor& rows) {
      write(rows);
    });
  }

  // On rank 0.
  Status finish() {
    GNN_RETURN_IF_ERROR(written_);
    return file_->finish();
  }

 private:
  [[nodiscard]] bool is_classes() const { return output_ == api::Output::Classes; }

  void write(const at::Tensor& rows) {
    if (written_) written_ = file_->append(bytes_of(rows));
  }

  Result<bool> send_pieces(comm::Communicator& communicator, const EvaluationContext& context) {
    std::vector<int64_t> mine;
    mine.reserve(pieces_.size());
    for (const at::Tensor& piece : pieces_) mine.push_back(piece.size(0));
    GNN_ASSIGN_OR_RETURN(
        const std::vector<std::string> all,
        comm::all_gather_bytes(
            communicator,
            std::string(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(int64_t))
        )
    );
    size_t sent = 0;
    for (int64_t rank = 1; rank < communicator.world_size(); ++rank) {
      const std::string& bytes = all[static_cast<size_t>(rank)];
      std::vector<int64_t> counts(bytes.size() / sizeof(int64_t));
      std::memcpy(counts.data(), bytes.data(), counts.size() * sizeof(int64_t));
      for (size_t piece = 0; piece < counts.size(); ++piece) {
        if (sent++ % kPiecesBetweenStops == 0) {
          GNN_ASSIGN_OR_RETURN(const bool going_on, none_stops(communicator, context.stop));
          if (!going_on) return false;
        }
        const at::Tensor rows =
            communicator.rank() == rank
                ? std::exchange(pieces_[piece], at::Tensor())
                : at::empty(shape_of(counts[piece]), is_classes() ? at::kLong : at::kFloat);
        GNN_RETURN_IF_ERROR(communicator.broadcast(rows, rank));
        if (file_) write(rows);
        context.progress.on_mark();
      }
    }
    return none_stops(communicator, context.stop);
  }

  api::Output output_;
  int64_t width_ = 0;
  std::optional<NpyFile> file_;  // on rank 0
  Status written_;
  std::vector<at::Tensor> pieces_;  // on the others
  std::optional<ScatteredRows> scattered_;
};

// A file that is not there is as good as removed.
Status remove_if_there(checkpoint::FileOps& files, const fs::path& path) {
  Status removed = files.remove_file(path);
  if (!removed && removed.error().kind == ErrorKind::NotFound) return {};
  return removed;
}

int64_t width_of(api::Output output, nn::NodeModel& model, int64_t feature_width) {
  const int64_t last = model.num_layers() - 1;
  if (output != api::Output::Embeddings) return model.conv(last).out_channels();
  return last == 0 ? feature_width : model.conv(last - 1).out_channels();
}

// The files of one pass.
class OutputFiles {
 public:
  struct Rows {
    int64_t feature_width = 0;
    bool ascend = false;  // over the ranks
  };

  OutputFiles(const std::vector<api::Output>& outputs, nn::NodeModel& model, const Rows& rows) {
    for (const api::Output output : outputs)
      outputs_.emplace_back(output, width_of(output, model, rows.feature_width), rows.ascend);
  }

  // On rank 0: takes the room of all files.
  Status begin(
      const std::shared_ptr<checkpoint::FileOps>& files,
      const fs::path& folder,
      const at::Tensor& nodes
  ) {
    const int64_t rows = nodes.numel();
    GNN_ASSIGN_OR_RETURN(
        NpyFile ids, NpyFile::create(files, folder / kIdsFile, data::DType::Int64, {rows})
    );
    GNN_RETURN_IF_ERROR(ids.append(bytes_of(nodes)));
    ids_.emplace(std::move(ids));
    for (OutputRows& output : outputs_) {
      GNN_ASSIGN_OR_RETURN(
          NpyFile file,
          NpyFile::create(
              files, folder / file_of(output.output()), output.dtype(), output.shape_of(rows)
          )
      );
      output.file().emplace(std::move(file));
    }
    return {};
  }

  // Takes rows of logits, or of embeddings.
  void take(bool embeddings, const at::Tensor& places, const at::Tensor& rows) {
    for (OutputRows& output : outputs_) {
      if ((output.output() == api::Output::Embeddings) == embeddings) output.take(places, rows);
    }
  }

  // Has rank 0 write all rows. Returns whether no rank was asked to stop. Collective.
  Result<bool> send(
      int64_t num_rows, comm::Communicator& communicator, const EvaluationContext& context
  ) {
    for (OutputRows& output : outputs_) {
      GNN_ASSIGN_OR_RETURN(const bool sent, output.send(num_rows, communicator, context));
      if (!sent) return false;
    }
    return true;
  }

  // On rank 0: puts the files in the place of old ones. Between the two, there is no ids.npy.
  Status publish(checkpoint::FileOps& files, const fs::path& folder) {
    GNN_RETURN_IF_ERROR(ids_->finish());
    for (OutputRows& output : outputs_) GNN_RETURN_IF_ERROR(output.finish());
    GNN_RETURN_IF_ERROR(remove_if_there(files, folder / kIdsFile));
    GNN_RETURN_IF_ERROR(files.sync_directory(folder));
    // An output that is not written now is of other nodes, or another model.
    for (const api::Output output : kOutputs)
      GNN_RETURN_IF_ERROR(remove_if_there(files, folder / file_of(output)));
    for (OutputRows& output : outputs_) GNN_RETURN_IF_ERROR(output.file()->publish());
    GNN_RETURN_IF_ERROR(files.sync_directory(folder));
    GNN_RETURN_IF_ERROR(ids_->publish());
    return files.sync_directory(folder);
  }

 private:
  std::vector<OutputRows> outputs_;
  std::optional<NpyFile> ids_;
};

Status in_field(Status status) {
  if (status) return status;
  return tl::unexpected(with_context(std::move(status).error(), kField));
}

}  // namespace

std::optional<PredictionsOptions> predictions_options(const api::GnnJobSpec& spec) {
  if (!spec.predictions) return std::nullopt;
  return PredictionsOptions{
      .path = spec.predictions->path,
      .outputs = spec.predictions->outputs.value_or(std::vector{api::Output::Classes}),
      .nodes = spec.predictions->nodes,
  };
}

Predictions::Predictions(
    PredictionsOptions options,
    std::shared_ptr<comm::Communicator> communicator,
    std::shared_ptr<checkpoint::FileOps> files
)
    : options_(std::move(options)),
      folder_(checkpoint::folder_named(options_.path)),
      communicator_(std::move(communicator)),
      files_(std::move(files)) {}

Status Predictions::take_folder() {
  if (Status writable = checkpoint::make_writable_folder(*files_, folder_); !writable)
    return fail(
        ErrorKind::Configuration,
        std::string(kField) + ": can't write there: " + writable.error().message
    );
  Result<data::OutputLock> lock = data::OutputLock::take((folder_ / "predictions").string());
  if (!lock) return tl::unexpected(with_context(std::move(lock).error(), kField));
  lock_.emplace(std::move(*lock));
  return {};
}

Result<Predictions> Predictions::open(
    PredictionsOptions options,
    std::shared_ptr<comm::Communicator> communicator,
    std::shared_ptr<checkpoint::FileOps> files
) {
  Predictions made(std::move(options), std::move(communicator), std::move(files));
  const Status taken = made.writes() ? made.take_folder() : Status();
  GNN_RETURN_IF_ERROR(agree(*made.communicator_, taken, kFailure));
  return made;
}

Status Predictions::choose_nodes(int64_t num_nodes) {
  if (!options_.nodes) {
    nodes_ = at::arange(num_nodes);
    return {};
  }
  Result<at::Tensor> listed =
      writes() ? read_node_list(*options_.nodes, num_nodes) : Result<at::Tensor>(at::Tensor());
  Status read;
  if (!listed) {
    Error error = with_context(std::move(listed).error(), kNodesField);
    if (error.kind == ErrorKind::NotFound) error.kind = ErrorKind::Configuration;
    read = tl::unexpected(std::move(error));
  }
  GNN_RETURN_IF_ERROR(agree(*communicator_, read, "could not read spec.predictions.nodes"));
  const at::Tensor count = at::full({1}, writes() ? listed->numel() : 0, at::kLong);
  GNN_RETURN_IF_ERROR(communicator_->broadcast(count, 0));
  nodes_ = writes() ? *listed : at::empty({count.item<int64_t>()}, at::kLong);
  return communicator_->broadcast(nodes_, 0);
}

KeptLayers Predictions::kept_layers(const Inputs& inputs, const std::string& layout) const {
  std::vector<at::Tensor> values = inputs.model.parameters();
  for (const at::Tensor& buffer : inputs.model.buffers()) values.push_back(buffer);
  uint64_t hash =
      fnv1a(inputs.config + "\n" + inputs.dataset_digest + "\n" + hash_of(values) + "\n" + layout);
  hash = fnv1a(has_embeddings() ? " with embeddings" : " without", hash);
  hash = fnv1a(bytes_of(nodes_), hash);
  for (const at::Tensor& part : inputs.parts) hash = fnv1a(bytes_of(part.contiguous()), hash);
  std::array<char, 17> key{};
  std::snprintf(key.data(), key.size(), "%016llx", static_cast<unsigned long long>(hash));
  return KeptLayers(
      {.folder = folder_ / kLayersFolder,
       .key = key.data(),
       .rank = communicator_->rank(),
       .world_size = communicator_->world_size(),
       .worth_seconds = options_.worth_seconds},
      files_
  );
}

Status Predictions::warn_of(int64_t unanswered) const {
  GNN_ASSIGN_OR_RETURN(
      const std::vector<double> all,
      comm::all_reduce_sums(*communicator_, {static_cast<double>(unanswered)})
  );
  if (all[0] == 0 || !writes()) return {};
  log_warning(
      "scores of nodes are no numbers, so that they have no class: features of theirs, or of their "
      "neighbourhood, are NaN or too large",
      {{"nodes", static_cast<int64_t>(all[0])}, {"of", num_nodes()}}
  );
  return {};
}

bool Predictions::has_embeddings() const {
  return std::ranges::find(options_.outputs, api::Output::Embeddings) != options_.outputs.end();
}

void Predictions::name_nodes(Pass& pass, int64_t first, const at::Tensor& original_ids) const {
  at::Tensor places = original_ids.contiguous();
  if (options_.nodes) {
    const at::Tensor found = at::searchsorted(nodes_, places).clamp_max_(nodes_.numel() - 1);
    places = found.masked_fill(nodes_.index_select(0, found).ne(places), -1);
  }
  pass.nodes = places.ge(0).nonzero().squeeze(1).add_(first).contiguous();
  pass.places = [places, first](const at::Tensor& nodes) {
    return places.index_select(0, nodes - first);
  };
}

Result<EvaluatedParts> Predictions::write(
    const Inputs& inputs,
    const WholeGraph& whole,
    const comm::RankGroups& groups,
    const EvaluationContext& context,
    const LayerWiseOptions& options
) {
  Pass pass{
      .feature_width = whole.features.size(1),
      .layout = "whole",
      .nodes = nodes_,
      .places = {},
      .run =
          [&](const AlsoWanted& also) {
            return evaluate_layer_wise(
                inputs.model, whole, inputs.parts, groups, context, options, also
            );
          }
  };
  if (inputs.original_ids.defined()) name_nodes(pass, 0, inputs.original_ids);
  return write(inputs, pass, context);
}

Result<EvaluatedParts> Predictions::write(
    const Inputs& inputs,
    const PartOfGraph& part,
    const comm::RankGroups& groups,
    const EvaluationContext& context,
    const PartInferenceOptions& options
) {
  const data::IdRange own = part.part->own(0);
  Pass pass{
      .feature_width = part.part->features(0).rows.size(1),
      .layout = "part " + std::to_string(part.part->index()) + ", rank " +
                std::to_string(groups.node->rank()) + " of " +
                std::to_string(groups.node->world_size()),
      .nodes = {},
      .places = {},
      .run =
          [&](const AlsoWanted& also) {
            return evaluate_part_layer_wise(
                inputs.model, part, inputs.parts, groups, context, options, also
            );
          }
  };
  name_nodes(
      pass,
      own.begin,
      inputs.original_ids.defined() ? inputs.original_ids : at::arange(own.begin, own.end)
  );
  return write(inputs, pass, context);
}

Result<EvaluatedParts> Predictions::write(
    const Inputs& inputs, const Pass& pass, const EvaluationContext& context
) {
  const bool ascend = !pass.places;
  OutputFiles outputs(
      options_.outputs, inputs.model, {.feature_width = pass.feature_width, .ascend = ascend}
  );
  const Status begun = writes() ? outputs.begin(files_, folder_, nodes_) : Status();
  GNN_RETURN_IF_ERROR(agree(*communicator_, in_field(begun), kFailure));

  int64_t unanswered = 0;
  const auto take = [&](bool embeddings, const at::Tensor& nodes, const at::Tensor& rows) {
    outputs.take(embeddings, ascend ? at::Tensor() : pass.places(nodes), rows);
  };
  KeptLayers kept = kept_layers(inputs, pass.layout);
  AlsoWanted also{
      .nodes = pass.nodes,
      .logits =
          [&](const at::Tensor& nodes, const at::Tensor& rows) {
            unanswered += answers_of(rows).lt(0).sum().item<int64_t>();
            take(false, nodes, rows);
          },
      .kept = &kept
  };
  if (has_embeddings())
    also.embeddings = [&](const at::Tensor& nodes, const at::Tensor& rows) {
      take(true, nodes, rows);
    };
  GNN_ASSIGN_OR_RETURN(const EvaluatedParts evaluated, pass.run(also));
  if (!evaluated) return EvaluatedParts();
  GNN_ASSIGN_OR_RETURN(const bool sent, outputs.send(num_nodes(), *communicator_, context));
  if (!sent) return EvaluatedParts();
  const Status published = writes() ? outputs.publish(*files_, folder_) : Status();
  GNN_RETURN_IF_ERROR(agree(*communicator_, in_field(published), kFailure));
  kept.remove();
  GNN_RETURN_IF_ERROR(warn_of(unanswered));
  return evaluated;
}

}  // namespace gnn::training
