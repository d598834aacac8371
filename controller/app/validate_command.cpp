#include "controller/app/validate_command.h"

#include "common/api/codec.h"
#include "common/printable.h"
#include "common/text_file.h"
#include "controller/app/manifest_check.h"

#include <algorithm>
#include <filesystem>
#include <istream>
#include <map>
#include <ostream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace gnn::app {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestPath = 400;

bool has_manifest_name(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".yaml" || extension == ".yml" || extension == ".json";
}

// The manifests in a folder, sorted. Others than ordinary files are passed over: a pipe would be waited for.
template <class Iterator>
std::vector<std::string> list_folder(const std::string& folder, std::error_code& problem) {
  std::vector<std::string> files;
  for (Iterator entry(folder, problem); !problem && entry != Iterator(); entry.increment(problem)) {
    std::error_code unreadable;
    if (entry->is_regular_file(unreadable) && has_manifest_name(entry->path())) {
      files.push_back(entry->path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string count_of(int64_t count, const std::string& word) {
  return std::to_string(count) + " " + word + (count == 1 ? "" : "s");
}

class Validation {
 public:
  Validation(const Options& options, std::istream& input, std::ostream& output)
      : options_(options), input_(input), output_(output) {}

  void check_path(const std::string& path) {
    if (path == "-")
      return check_text(
          "standard input", read_text(input_, "standard input", api::kMaxDocumentBytes)
      );
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) return check_file(path);
    std::error_code problem;
    const std::vector<std::string> files =
        options_.recursive ? list_folder<fs::recursive_directory_iterator>(path, problem)
                           : list_folder<fs::directory_iterator>(path, problem);
    if (problem) return unreadable(path + ": " + problem.message());
    for (const std::string& file : files) check_file(file);
  }

  int finish() {
    output_ << count_of(jobs_, "GNNJob") << ": " << jobs_ - invalid_jobs_ << " valid, "
            << invalid_jobs_ << " invalid; " << count_of(warnings_, "warning") << "; "
            << count_of(broken_, "broken document") << "; " << count_of(skipped_, "object")
            << " of other kinds skipped\n";
    if (jobs_ + broken_ == 0 && unreadable_ == 0) unreadable("no GNNJob found");
    output_.flush();
    if (unreadable_ > 0) return kExitNoInput;
    return invalid_jobs_ + broken_ > 0 ? kExitInvalid : 0;
  }

 private:
  void check_file(const std::string& path) {
    check_text(path, read_text_file(path, api::kMaxDocumentBytes));
  }

  void check_text(const std::string& name, const Result<std::string>& text) {
    if (!text) return unreadable(text.error().message);
    const std::string shown = printable_line(name, kLongestPath);
    for (const CheckedObject& each :
         check_manifest(*text, options_.job_allowed_keys, options_.volcano_queues)) {
      report(shown + ":" + std::to_string(each.line) + ": ", each);
    }
  }

  void report(const std::string& place, const CheckedObject& checked) {
    const std::string object = (checked.name.empty() ? "" : checked.name + ", ") + "document " +
                               std::to_string(checked.document);
    for (const std::string& error : checked.errors) {
      output_ << place << "error: " << object << ": " << error << "\n";
    }
    for (const std::string& warning : checked.warnings) {
      output_ << place << "warning: " << object << ": " << warning << "\n";
    }
    const bool invalid = !checked.errors.empty();
    warnings_ += static_cast<int64_t>(checked.warnings.size());
    if (checked.is_job) {
      ++jobs_;
      if (invalid) ++invalid_jobs_;
      warn_of_double(place, object, checked.name);
    } else if (invalid) {
      ++broken_;
    } else {
      ++skipped_;
    }
    if (!invalid) output_ << place << (checked.is_job ? "valid: " : "skipped: ") << object << "\n";
  }

  void warn_of_double(
      const std::string& place, const std::string& object, const std::string& name
  ) {
    const auto [first, is_new] = places_.emplace(name.substr(0, name.find(", item ")), place);
    if (is_new || name.ends_with('*')) return;
    ++warnings_;
    output_ << place << "warning: " << object << ": metadata.name: is also that of "
            << first->second << "of two, the one applied last remains\n";
  }

  void unreadable(const std::string& problem) {
    ++unreadable_;
    output_ << "error: " << printable_line(problem, kLongestPath) << "\n";
  }

  const Options& options_;
  std::istream& input_;
  std::ostream& output_;
  std::map<std::string, std::string> places_;  // of each job's name
  int64_t jobs_ = 0;
  int64_t invalid_jobs_ = 0;
  int64_t broken_ = 0;
  int64_t skipped_ = 0;
  int64_t warnings_ = 0;
  int64_t unreadable_ = 0;
};

}  // namespace

int run_validate(const Options& options, std::istream& input, std::ostream& output) {
  Validation validation(options, input, output);
  for (const std::string& path : options.manifests) validation.check_path(path);
  return validation.finish();
}

}  // namespace gnn::app
