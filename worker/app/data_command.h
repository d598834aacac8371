#pragma once

#include "common/progress.h"
#include "common/result.h"
#include "worker/graph/generate.h"
#include "worker/graph/readers/package_index.h"
#include "worker/graph/readers/reader.h"

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>

namespace gnn::app {

/// The formats that `data import` reads.
enum class ImportFormat { Ogb, Tu, Gin, EdgeList, PackageIndex };

struct ImportRequest {
  ImportFormat format = ImportFormat::Ogb;
  std::string input;   // folder or file; empty for the package index: apt-cache is run
  std::string output;  // folder of the on-disk form
  bool replace = false;
  graph::ReadOptions reading;
  graph::PackageIndexOptions package_index;
};

struct GenerateRequest {
  std::string output;
  bool replace = false;
  graph::GenerateOptions options;
};

/// What the commands talk to.
struct DataConsole {
  std::ostream& out;
  Progress& progress;
  /// Text of `apt-cache dumpavail`.
  std::function<Result<std::string>()> dumpavail;
};

/// Reads `request.input` and publishes it in the on-disk form. An output made before from the same
/// inputs and options is left as it is; an interrupted import goes on from the arrays that are
/// whole.
Status import_data(const ImportRequest& request, const DataConsole& console);
/// Generates a data set and publishes it; the same rules.
Status generate_data(const GenerateRequest& request, const DataConsole& console);
/// Prints what a published data set holds, as text or as one JSON object.
Status inspect_data(const std::string& directory, bool json, const DataConsole& console);
/// Checks digests, ids, labels, features and split of a published data set.
Status verify_data(const std::string& directory, const DataConsole& console);

}  // namespace gnn::app
