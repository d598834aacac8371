#include "worker/app/job_file.h"

#include "common/api/codec.h"
#include "common/api/defaults.h"
#include "common/api/validation.h"
#include "common/text_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace gnn::app {
namespace {

Status apply_override(nlohmann::json& spec, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return fail(
        ErrorKind::Configuration, "--set " + text + ": expected path=value, e.g. training.epochs=3"
    );
  }
  nlohmann::json* place = &spec;
  std::string path = text.substr(0, equals);
  if (path.rfind("spec.", 0) == 0) path.erase(0, 5);
  for (size_t begin = 0; begin <= path.size();) {
    const size_t dot = std::min(path.find('.', begin), path.size());
    if (!place->is_object() && !place->is_null()) {
      return fail(
          ErrorKind::Configuration,
          "--set " + text + ": " + path.substr(0, begin) + " is not an object"
      );
    }
    place = &(*place)[path.substr(begin, dot - begin)];
    begin = dot + 1;
  }
  const std::string value = text.substr(equals + 1);
  nlohmann::json parsed = nlohmann::json::parse(value, nullptr, /*allow_exceptions=*/false);
  *place = parsed.is_discarded() ? nlohmann::json(value) : std::move(parsed);
  return {};
}

}  // namespace

Result<api::GnnJob> parse_job(std::string_view text, const std::vector<std::string>& overrides) {
  GNN_ASSIGN_OR_RETURN(api::GnnJob job, api::parse_job_yaml(text, api::UnknownFields::Reject));
  if (!overrides.empty()) {
    nlohmann::json object = api::encode(job);
    for (const std::string& text_of_one : overrides) {
      GNN_RETURN_IF_ERROR(apply_override(object["spec"], text_of_one));
    }
    GNN_ASSIGN_OR_RETURN(job, api::decode_job(object, api::UnknownFields::Reject));
  }
  api::apply_defaults(job.spec);
  GNN_RETURN_IF_ERROR(api::check(job));
  return job;
}

Result<api::GnnJob> load_job(const std::string& path, const std::vector<std::string>& overrides) {
  GNN_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, api::kMaxDocumentBytes));
  Result<api::GnnJob> job = parse_job(text, overrides);
  if (!job) return tl::unexpected(with_context(std::move(job).error(), path));
  return job;
}

}  // namespace gnn::app
