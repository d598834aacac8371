#pragma once

#include "common/api/gnn_job.h"

#include <torch/nn/module.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace gnn::tasks {

/// Shapes of parameters and buffers, by their names in the module.
using TensorShapes = std::map<std::string, std::vector<int64_t>>;

/// The widths of a job's model that only its data set decides.
struct OpenWidths {
  int64_t first = 1;   ///< of the features; BipartiteSAGE: of the link's sources
  int64_t second = 1;  ///< number of classes, if there are any; BipartiteSAGE: of its destinations
};

/// The open widths of a model of these shapes, as its first and last layers have them; 1 where they
/// don't say. The other shapes may be those of another model.
/// Precondition: api::validate() accepted the spec.
[[nodiscard]] OpenWidths widths_of(const api::GnnJobSpec& spec, const TensorShapes& shapes);

/// The model of a job, without its data set.
/// Precondition: api::validate() accepted the spec; widths are above 0.
[[nodiscard]] std::shared_ptr<torch::nn::Module> make_model(
    const api::GnnJobSpec& spec, const OpenWidths& widths
);

}  // namespace gnn::tasks
