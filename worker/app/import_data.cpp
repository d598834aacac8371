#include "worker/app/import_data.h"

#include "common/thread_pool.h"
#include "worker/data/digest.h"
#include "worker/data/readers/edge_list.h"
#include "worker/data/readers/gin.h"
#include "worker/data/readers/ogb.h"
#include "worker/data/readers/package_tags.h"
#include "worker/data/readers/reddit.h"
#include "worker/data/readers/taobao.h"
#include "worker/data/readers/tu.h"
#include "worker/data/transforms.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace gnn::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDumpavail = "apt-cache dumpavail";

// All files of the input with their digests, sorted by path.
Result<std::vector<data::InputFile>> input_files(const std::string& input, ProgressBar& progress) {
  std::vector<std::string> paths;
  std::error_code error;
  if (fs::is_directory(input, error)) {
    // A volume's lost+found is for its file system alone. Readers name a file that they miss.
    constexpr auto kOptions = fs::directory_options::skip_permission_denied;
    auto entry = fs::recursive_directory_iterator(input, kOptions, error);
    for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
      std::error_code unknown;
      if (entry->is_regular_file(unknown)) {
        paths.push_back(entry->path().string());
      }
    }
    if (error) {
      return fail(ErrorKind::Io, input + ": cannot list the folder: " + error.message());
    }
  } else {
    paths.push_back(input);
  }
  std::sort(paths.begin(), paths.end());
  std::vector<data::InputFile> files;
  progress.begin("hashing input", static_cast<int64_t>(paths.size()), "files");
  for (const std::string& path : paths) {
    GNN_ASSIGN_OR_RETURN(data::FileDigest digest, data::digest_file(data::DigestKind::Xxh64, path));
    files.push_back({.path = path, .bytes = digest.bytes, .digest = std::move(digest.digest)});
    progress.advance_to(static_cast<int64_t>(files.size()), {});
  }
  progress.end();
  return files;
}

// Formats of files and folders.
Result<data::DatasetArrays> read_files(
    const ImportRequest& request, data::ArrayStorage& storage, const DataConsole& console
) {
  switch (request.format) {
    case ImportFormat::Ogb:
      return data::read_ogb(request.input, request.reading, storage, console.progress);
    case ImportFormat::Tu:
      return data::read_tu(request.input, request.reading, storage, console.progress);
    case ImportFormat::Gin:
      return data::read_gin(request.input, request.reading, storage, console.progress);
    case ImportFormat::EdgeList:
      return data::read_edge_list(request.input, request.reading, storage, console.progress);
    case ImportFormat::Reddit:
      return data::read_reddit(request.input, request.reading, storage, console.progress);
    case ImportFormat::Taobao: {
      ThreadPool others(std::max(1U, std::thread::hardware_concurrency()) - 1);
      return data::read_taobao(request.input, others, storage, console.progress);
    }
    case ImportFormat::PackageIndex:
    case ImportFormat::PackageTags:
      break;
  }
  return fail(ErrorKind::Configuration, name_of(request.format) + ": read as a package index");
}

// Formats of a package index: of the input, or of `index_text` if there is none.
Result<data::DatasetArrays> read_index(
    const ImportRequest& request,
    const std::string& index_text,
    data::ArrayStorage& storage,
    const DataConsole& console
) {
  auto source =
      request.input.empty()
          ? Result<std::unique_ptr<data::ByteSource>>(data::from_memory(kDumpavail, index_text))
          : data::open_by_suffix(request.input);
  if (!source) {
    return tl::make_unexpected(std::move(source).error());
  }
  if (request.format == ImportFormat::PackageTags) {
    const data::PackageTagsOptions options{
        .num_features = request.package_index.num_features,
        .feature_dtype = request.reading.feature_dtype
    };
    return data::read_package_tags(std::move(*source), options, storage, console.progress);
  }
  data::PackageIndexOptions options = request.package_index;
  options.to_undirected = request.reading.to_undirected;
  options.feature_dtype = request.reading.feature_dtype;
  return data::read_package_index(std::move(*source), options, storage, console.progress);
}

}  // namespace

const std::map<std::string, ImportFormat>& import_formats() {
  static const std::map<std::string, ImportFormat> kFormats{
      {"ogb", ImportFormat::Ogb},
      {"tu", ImportFormat::Tu},
      {"gin", ImportFormat::Gin},
      {"edge-list", ImportFormat::EdgeList},
      {"reddit", ImportFormat::Reddit},
      {"taobao", ImportFormat::Taobao},
      {"package-index", ImportFormat::PackageIndex},
      {"package-tags", ImportFormat::PackageTags},
  };
  return kFormats;
}

std::string name_of(ImportFormat format) {
  for (const auto& [name, value] : import_formats()) {
    if (value == format) {
      return name;
    }
  }
  return "";
}

Status import_data(const ImportRequest& request, const DataConsole& console) {
  const bool reads_index =
      request.format == ImportFormat::PackageIndex || request.format == ImportFormat::PackageTags;
  if (request.input.empty() && !reads_index) {
    return fail(
        ErrorKind::Configuration, "--input is required with --format " + name_of(request.format)
    );
  }
  if (!request.input.empty() && holds(request.output.folder, request.input)) {
    return fail(
        ErrorKind::Configuration,
        "--output " + request.output.folder + " holds the input " + request.input +
            ", which would be lost; choose another folder"
    );
  }
  std::string options = data::describe(request.reading);
  if (reads_index) {
    options += ", features=" + std::to_string(request.package_index.num_features) +
               ", seed=" + std::to_string(request.package_index.seed);
  }
  const std::string more_options = request.add_reverse ? ", addReverse=true" : "";
  options += more_options;
  std::vector<data::InputFile> inputs;
  std::string index_text;
  if (request.input.empty()) {
    GNN_ASSIGN_OR_RETURN(index_text, console.dumpavail());
    inputs.push_back(
        {.path = kDumpavail,
         .bytes = static_cast<int64_t>(index_text.size()),
         .digest = data::digest_of(data::DigestKind::Sha256, std::as_bytes(std::span(index_text)))}
    );
  } else {
    GNN_ASSIGN_OR_RETURN(inputs, input_files(request.input, console.progress));
  }
  const std::string key = key_of(name_of(request.format), options, request.input, inputs);
  const auto make = [&](data::ArrayStorage& storage) -> Result<data::DatasetArrays> {
    GNN_ASSIGN_OR_RETURN(
        data::DatasetArrays arrays,
        reads_index ? read_index(request, index_text, storage, console)
                    : read_files(request, storage, console)
    );
    const data::TransformOptions transforms{
        .link = request.reading.link, .add_reverse = request.add_reverse
    };
    GNN_ASSIGN_OR_RETURN(
        arrays, data::transform(std::move(arrays), transforms, storage, console.progress)
    );
    arrays.origin.path = request.input;
    arrays.origin.inputs = inputs;
    arrays.origin.options += more_options;
    return arrays;
  };
  return publish_dataset(request.output, key, make, console);
}

}  // namespace gnn::app
