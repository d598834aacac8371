#include "worker/app/partition_data.h"

#include "common/thread_pool.h"
#include "worker/data/native.h"
#include "worker/graph/load.h"
#include "worker/partition/extract.h"
#include "worker/partition/picture.h"
#include "worker/partition/report.h"

#include <algorithm>
#include <fstream>
#include <ostream>
#include <sstream>
#include <thread>
#include <utility>

namespace gnn::app {
namespace {

Status check_folders(const std::string& output, const std::string& input) {
  if (!holds(output, input)) {
    return {};
  }
  return fail(
      ErrorKind::Configuration,
      "--output " + output + " holds the input " + input +
          ", which would be lost; choose another folder"
  );
}

// Of a data set that is made from another native one.
std::string key_from(
    const std::string& kind, const std::string& options, const data::NativeDataset& input
) {
  return key_of(kind, options, "", {{.path = "", .bytes = 0, .digest = input.manifest_digest}});
}

// Files may be damaged, and ids lead to places in memory.
Status check_elements(const data::NativeDataset& input, const std::string& folder) {
  GNN_RETURN_IF_ERROR(graph::make_dataset(input.arrays, folder));
  return {};
}

Status write_picture(const std::string& path, const partition::Report& report) {
  std::ofstream file(path, std::ios::trunc);
  file << partition::report_picture(report);
  file.close();
  return file ? Status() : fail(ErrorKind::Io, path + ": can't write the picture");
}

}  // namespace

Status partition_data(const PartitionRequest& request, const DataConsole& console) {
  GNN_RETURN_IF_ERROR(check_folders(request.output.folder, request.input));
  GNN_ASSIGN_OR_RETURN(const data::NativeDataset input, data::open_native(request.input));
  const auto make = [&](data::ArrayStorage& storage) -> Result<data::DatasetArrays> {
    GNN_RETURN_IF_ERROR(check_elements(input, request.input));
    ThreadPool others(std::max(1U, std::thread::hardware_concurrency()) - 1);
    return partition::partition(input.arrays, request.options, storage, others, console.progress);
  };
  const std::string key = key_from("partition", partition::describe(request.options), input);
  // JSON stands alone.
  std::ostringstream unprinted;
  const bool is_json = request.report == ReportFormat::Json;
  const DataConsole publishing{
      .out = is_json ? unprinted : console.out,
      .progress = console.progress,
      .dumpavail = console.dumpavail,
      .await_writer = console.await_writer
  };
  GNN_RETURN_IF_ERROR(publish_dataset(request.output, key, make, publishing));
  GNN_ASSIGN_OR_RETURN(const data::NativeDataset made, data::open_native(request.output.folder));
  const auto limit = limit_mapped_pages(request.output);
  const partition::Report report = partition::make_report(made.arrays);
  console.out << (is_json ? partition::report_json(report) + "\n" : partition::report_text(report));
  return request.picture.empty() ? Status() : write_picture(request.picture, report);
}

Status extract_data(const ExtractRequest& request, const DataConsole& console) {
  GNN_RETURN_IF_ERROR(check_folders(request.output.folder, request.input));
  GNN_ASSIGN_OR_RETURN(const data::NativeDataset input, data::open_native(request.input));
  const auto make = [&](data::ArrayStorage& storage) -> Result<data::DatasetArrays> {
    GNN_RETURN_IF_ERROR(check_elements(input, request.input));
    return partition::extract(
        input.arrays, request.part, data::digest_of(input), storage, console.progress
    );
  };
  const std::string key = key_from("extract", "part=" + std::to_string(request.part), input);
  return publish_dataset(request.output, key, make, console);
}

}  // namespace gnn::app
