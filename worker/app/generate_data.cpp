#include "worker/app/generate_data.h"

#include "worker/data/number_text.h"
#include "worker/data/ogb_writer.h"

#include <string>

namespace gnn::app {

Status generate_data(const GenerateRequest& request, const DataConsole& console) {
  const data::GenerateOptions& options = request.options;
  const std::string text = std::string(data::shape_name(options.shape)) + " " +
                           data::number_text(options.scale) + " " + std::to_string(options.seed) +
                           " " + data::number_text(options.flipped_labels) +
                           (options.feature_dtype == data::DType::Float32
                                ? ""
                                : " " + std::string(data::dtype_name(options.feature_dtype)));
  const std::string key = key_of("generate", text, "", {});
  const auto make = [&](data::ArrayStorage& storage) {
    return data::generate(options, storage, console.progress);
  };
  if (request.form == DataForm::Native) {
    return publish_dataset(request.output, key, make, console);
  }
  const auto write = [&](const data::DatasetArrays& arrays, const std::string& folder) {
    return data::write_ogb(arrays, folder, console.progress);
  };
  return publish_other_form(request.output, key, make, write, console);
}

}  // namespace gnn::app
