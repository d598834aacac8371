#include "worker/app/data_output.h"

#include "worker/agent/limits.h"
#include "worker/data/digest.h"
#include "worker/data/memory_plan.h"
#include "worker/graph/load.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <sys/stat.h>
#include <system_error>
#include <utility>

namespace gnn::app {

namespace fs = std::filesystem;

namespace {

// Part of all keys. Rises when the same inputs and options give other contents than before, not with
// data::kNativeVersion: older outputs stay complete.
constexpr int kKeyVersion = 1;

int64_t memory_of(const DataOutput& output) {
  return output.memory_bytes > 0 ? output.memory_bytes : default_memory();
}

// Whether another file system begins there.
bool is_mount_point(const std::string& folder) {
  struct stat own {};
  struct stat outer {};
  if (stat(folder.c_str(), &own) != 0 || stat((folder + "/..").c_str(), &outer) != 0) return false;
  return own.st_dev != outer.st_dev || own.st_ino == outer.st_ino;
}

// Why the output needs not be made; nothing if it has to be.
Result<std::optional<std::string>> look_at(const DataOutput& output, const std::string& key) {
  const std::string there = data::published_key(output.folder);
  if (there == key)
    return std::optional<std::string>("made from the same inputs with the same options");
  if (!there.empty() && output.takes) {
    if (auto why = output.takes()) return why;
  }
  if (is_mount_point(output.folder)) {
    return fail(
        ErrorKind::Configuration,
        output.folder +
            ": a volume is mounted there, which nothing can take the place of; choose a "
            "folder in it"
    );
  }
  if (data::is_vacant(output.folder)) return std::optional<std::string>();
  if (!data::is_replaceable(output.folder)) {
    return fail(
        ErrorKind::Conflict,
        output.folder +
            ": exists and is no data set, which nothing here replaces; choose another folder, or "
            "remove it yourself"
    );
  }
  if (!output.replace) {
    return fail(
        ErrorKind::Conflict,
        output.folder + ": exists and was made from other inputs or options; use " +
            output.replace_option + " to replace it"
    );
  }
  return std::optional<std::string>();
}

}  // namespace

bool holds(const std::string& folder, const std::string& input) {
  // A path that cannot be followed is compared as it is written.
  const auto followed = [](const std::string& path) {
    std::error_code error;
    fs::path real = fs::weakly_canonical(path, error);
    return error ? fs::absolute(path).lexically_normal() : real;
  };
  const fs::path outer = followed(folder);
  const fs::path inner = followed(input);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

int64_t default_memory() {
  return agent::usable_memory() / 2;
}

void add_memory_option(CLI::App& command, int64_t& bytes) {
  command
      .add_option(
          "--memory",
          bytes,
          "Memory that the command may take, mapped files included, as in 4GiB (default: half of "
          "what this process may use)"
      )
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber);
}

std::string summary(const data::DatasetArrays& arrays) {
  int64_t nodes = 0;
  int64_t edges = 0;
  for (const data::NodeTable& table : arrays.node_tables) {
    nodes += table.num_nodes;
  }
  for (const data::EdgeTable& table : arrays.edge_tables) {
    edges += table.indices.num_elements();
  }
  std::string text = std::to_string(nodes) + " nodes, " + std::to_string(edges) + " edges, " +
                     std::to_string(arrays.num_classes) + " classes";
  if (arrays.graph_labels.defined()) {
    text += ", " + std::to_string(arrays.graph_labels.num_elements()) + " graphs";
  }
  return text;
}

std::string key_of(
    const std::string& kind,
    const std::string& options,
    const std::string& root,
    const std::vector<data::InputFile>& inputs
) {
  std::string text = kind + "\n" + options + "\n" + std::to_string(kKeyVersion) + "\n";
  for (const data::InputFile& input : inputs) {
    text += input.path.substr(std::min(root.size(), input.path.size())) + " " + input.digest + "\n";
  }
  return data::digest_of(data::DigestKind::Sha256, std::as_bytes(std::span(text)));
}

std::unique_ptr<data::MappedPagesLimit> limit_mapped_pages(const DataOutput& output) {
  return std::make_unique<data::MappedPagesLimit>(memory_of(output) / 16);
}

namespace {

// What a command holds while it makes a data set.
struct Making {
  std::unique_ptr<data::MappedPagesLimit> limit;
  std::unique_ptr<data::NativeWriter> writer;  // null: the output is complete
};

Result<Making> begin_making(
    const DataOutput& output, const std::string& key, const DataConsole& console
) {
  const std::string& folder = output.folder;
  GNN_ASSIGN_OR_RETURN(
      const data::MemoryPlan memory, data::plan_memory(memory_of(output), data::resident_bytes())
  );
  Making making;
  while (true) {
    GNN_ASSIGN_OR_RETURN(const auto why_complete, look_at(output, key));
    if (why_complete) {
      if (making.writer != nullptr) making.writer->discard();
      console.out << folder << ": already complete, " << *why_complete << "\n";
      return Making{};
    }
    // Who had the right to write it before may have made it.
    if (making.writer != nullptr) break;
    auto opened = data::NativeWriter::open(folder, key, memory);
    if (opened) {
      making.writer = std::move(*opened);
    } else if (opened.error().kind != ErrorKind::Conflict || !console.await_writer) {
      return tl::make_unexpected(std::move(opened).error());
    } else {
      GNN_RETURN_IF_ERROR(console.await_writer(opened.error()));
    }
  }
  making.limit = std::make_unique<data::MappedPagesLimit>(memory.mapped_bytes);
  if (making.writer->num_resumed() > 0) {
    console.out << folder << ": resuming an interrupted run with " << making.writer->num_resumed()
                << " complete arrays\n";
  }
  return making;
}

using Publisher = std::function<Status(data::NativeWriter&, const data::DatasetArrays&)>;

Status make_and_publish(
    const DataOutput& output,
    const std::string& key,
    const DatasetMaker& make,
    const Publisher& publish,
    const DataConsole& console
) {
  GNN_ASSIGN_OR_RETURN(const Making making, begin_making(output, key, console));
  if (making.writer == nullptr) {
    return {};
  }
  GNN_ASSIGN_OR_RETURN(const data::DatasetArrays arrays, make(*making.writer));
  // Never publish what training would refuse.
  GNN_RETURN_IF_ERROR(graph::make_dataset(arrays, output.folder));
  GNN_RETURN_IF_ERROR(publish(*making.writer, arrays));
  console.out << output.folder << ": " << summary(arrays) << "\n";
  return {};
}

}  // namespace

Status publish_dataset(
    const DataOutput& output,
    const std::string& key,
    const DatasetMaker& make,
    const DataConsole& console
) {
  const auto publish = [&](data::NativeWriter& writer, const data::DatasetArrays& arrays) {
    return writer.publish(arrays, output.replace);
  };
  return make_and_publish(output, key, make, publish, console);
}

Status publish_other_form(
    const DataOutput& output,
    const std::string& key,
    const DatasetMaker& make,
    const FormWriter& write,
    const DataConsole& console
) {
  const auto publish = [&](data::NativeWriter& writer,
                           const data::DatasetArrays& arrays) -> Status {
    GNN_RETURN_IF_ERROR(write(arrays, writer.other_form()));
    return writer.publish_other_form(output.replace);
  };
  return make_and_publish(output, key, make, publish, console);
}

}  // namespace gnn::app
