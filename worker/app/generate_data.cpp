#include "worker/app/generate_data.h"

#include <string>

namespace gnn::app {

Status generate_data(const GenerateRequest& request, const DataConsole& console) {
  const data::GenerateOptions& options = request.options;
  const std::string text = std::string(data::shape_name(options.shape)) + " " +
                           std::to_string(options.scale) + " " + std::to_string(options.seed) +
                           " " + std::to_string(options.flipped_labels);
  const std::string key = key_of("generate", text, "", {});
  const auto make = [&](data::ArrayStorage& storage) {
    return data::generate(options, storage, console.progress);
  };
  return publish_dataset(request.output, key, make, console);
}

}  // namespace gnn::app
