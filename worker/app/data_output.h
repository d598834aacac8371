#pragma once

#include "common/progress_bar.h"
#include "common/result.h"
#include "worker/data/dataset_arrays.h"
#include "worker/data/mapped_pages.h"
#include "worker/data/native.h"

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}

namespace gnn::app {

/// What the data commands read from and write to, besides files.
struct DataConsole {
  std::ostream& out;
  ProgressBar& progress;
  /// Returns the output of `apt-cache dumpavail`.
  std::function<Result<std::string>()> dumpavail;
  /// What to do while another process writes the output: success to try again, after a wait. Absent:
  /// that is an error.
  std::function<Status(const Error& busy)> await_writer{};
};

/// Where a command puts a data set.
struct DataOutput {
  std::string folder;
  bool replace = false;  ///< exchange a data set made from other inputs or options
  std::string replace_option = "--replace";  ///< what a user sets for that, in messages
  /// Memory that the command may take, mapped files included; 0: default_memory().
  int64_t memory_bytes = 0;
  /// Why a data set of another key, which is in the folder, is as good; nothing if it is not. Absent: it
  /// never is.
  std::function<std::optional<std::string>()> takes{};
};

/// Whether `input` is `folder` or in it, so that replacing the folder would remove it.
[[nodiscard]] bool holds(const std::string& folder, const std::string& input);

/// Half of what this process may use: the rest is the kernel's, to cache files.
[[nodiscard]] int64_t default_memory();

/// While it lives, mapped files take little of what --memory allows: for reading what a command has made.
[[nodiscard]] std::unique_ptr<data::MappedPagesLimit> limit_mapped_pages(const DataOutput& output);

/// Adds `--memory BYTES`, with units as in 4GiB.
void add_memory_option(CLI::App& command, int64_t& bytes);

/// "6 nodes, 16 edges, 3 classes"
[[nodiscard]] std::string summary(const data::DatasetArrays& arrays);

/// Identifies what a data set is made from: `kind`, options, and the inputs by their digests and
/// their paths below `root`, wherever that is.
[[nodiscard]] std::string key_of(
    const std::string& kind,
    const std::string& options,
    const std::string& root,
    const std::vector<data::InputFile>& inputs
);

using DatasetMaker = std::function<Result<data::DatasetArrays>(data::ArrayStorage&)>;

/// Makes a data set, checks that training would accept it, and publishes it. Leaves a complete data
/// set of the same key as it is, and resumes an interrupted one. Takes no more memory than `output`
/// allows.
/// Errors: Conflict if the folder has other contents and may not be replaced, or if another process
/// writes it and nobody waits; Configuration for too little memory; those of `make` and of
/// `await_writer`.
[[nodiscard]] Status publish_dataset(
    const DataOutput& output,
    const std::string& key,
    const DatasetMaker& make,
    const DataConsole& console
);

/// Writes a data set to a new folder in another form.
using FormWriter = std::function<Status(const data::DatasetArrays&, const std::string& folder)>;

/// Makes a data set as publish_dataset() does, and publishes what `write` makes of it.
/// Errors: Conflict if the folder has contents and may not be replaced; those of publish_dataset() and
/// of `write`.
[[nodiscard]] Status publish_other_form(
    const DataOutput& output,
    const std::string& key,
    const DatasetMaker& make,
    const FormWriter& write,
    const DataConsole& console
);

}  // namespace gnn::app
