#pragma once

#include "common/result.h"
#include "worker/app/data_output.h"
#include "worker/data/readers/package_index.h"
#include "worker/data/readers/reader.h"

#include <map>
#include <string>

namespace gnn::app {

/// The formats that `data import` reads.
enum class ImportFormat { Ogb, Tu, Gin, EdgeList, Reddit, Taobao, PackageIndex, PackageTags };

/// The formats by their names on the command line.
[[nodiscard]] const std::map<std::string, ImportFormat>& import_formats();
[[nodiscard]] std::string name_of(ImportFormat format);

struct ImportRequest {
  ImportFormat format = ImportFormat::Ogb;
  std::string input;  ///< folder or file; empty for PackageIndex and PackageTags: runs apt-cache
  DataOutput output;
  data::ReadOptions reading;
  bool add_reverse = false;                 ///< of each edge type between two node types
  data::PackageIndexOptions package_index;  ///< of PackageTags the number of features
};

/// Reads `request.input` and publishes it in the native format.
/// Errors: Configuration if the output is the input or holds it; those of the readers and of
/// publish_dataset().
[[nodiscard]] Status import_data(const ImportRequest& request, const DataConsole& console);

}  // namespace gnn::app
