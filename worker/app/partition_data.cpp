#include "worker/app/partition_data.h"

#include "common/thread_pool.h"
#include "worker/app/partition_links.h"
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

std::string key_of_parts(
    const PartitionRequest& request,
    const std::optional<data::LinkSplitOptions>& link_split,
    const data::NativeDataset& input
) {
  std::string options = partition::describe(request.options);
  if (link_split) options += data::text_of_split(*link_split);
  return key_from("partition", options, input);
}

// Whether the output is what is wanted but for how its links are split.
std::optional<std::string> made_with_other_link_split(
    const PartitionRequest& request, const data::NativeDataset& input
) {
  const auto there = data::open_native(request.output.folder);
  if (!there || !there->arrays.partitions) return std::nullopt;
  std::optional<data::LinkSplitOptions> options;
  if (const auto& split = there->arrays.partitions->link_split) options = split->options;
  if (there->key != key_of_parts(request, options, input)) return std::nullopt;
  return "made from the same inputs with the same options, but " +
         (options ? "its links split by " + data::describe(*options)
                  : "without a split of its links") +
         (request.link_split ? ": the job splits them itself" : "");
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
  // A job may have its links made of some edge type when it loads the data.
  const bool splits = input.arrays.links || !request.takes_other_link_split;
  const auto link_split = splits ? request.link_split : std::nullopt;
  const auto make = [&](data::ArrayStorage& storage) -> Result<data::DatasetArrays> {
    // Files may be damaged, and ids lead to places in memory.
    GNN_ASSIGN_OR_RETURN(
        const graph::Dataset checked, graph::make_dataset(input.arrays, request.input)
    );
    if (link_split) GNN_RETURN_IF_ERROR(check_link_split(checked, *link_split, storage));
    ThreadPool others(std::max(1U, std::thread::hardware_concurrency()) - 1);
    GNN_ASSIGN_OR_RETURN(
        data::DatasetArrays made,
        partition::partition(input.arrays, request.options, storage, others, console.progress)
    );
    if (link_split) {
      GNN_RETURN_IF_ERROR(keep_link_split(made, checked, *link_split, storage, console.progress));
    }
    return made;
  };
  const std::string key = key_of_parts(request, link_split, input);
  DataOutput output = request.output;
  if (request.takes_other_link_split && !output.replace) {
    output.takes = [&] { return made_with_other_link_split(request, input); };
  }
  // JSON stands alone.
  std::ostringstream unprinted;
  const bool is_json = request.report == ReportFormat::Json;
  const DataConsole publishing{
      .out = is_json ? unprinted : console.out,
      .progress = console.progress,
      .dumpavail = console.dumpavail,
      .await_writer = console.await_writer
  };
  GNN_RETURN_IF_ERROR(publish_dataset(output, key, make, publishing));
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
    GNN_RETURN_IF_ERROR(graph::make_dataset(input.arrays, request.input));
    return partition::extract(
        input.arrays, request.part, data::digest_of(input), storage, console.progress
    );
  };
  const std::string key = key_from("extract", "part=" + std::to_string(request.part), input);
  return publish_dataset(request.output, key, make, console);
}

}  // namespace gnn::app
