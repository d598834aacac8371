#include "worker/data/readers/package_list.h"

#include "worker/data/digest.h"
#include "worker/data/readers/reader.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <xxhash.h>

namespace gnn::data {
namespace {

constexpr size_t kMaxWordBytes = 64;

// Passes bytes through and digests them.
class DigestingSource final : public ByteSource {
 public:
  DigestingSource(std::unique_ptr<ByteSource> inner, Digester& digester)
      : inner_(std::move(inner)), digester_(digester) {}
  Result<size_t> read(std::span<std::byte> out) override {
    GNN_ASSIGN_OR_RETURN(const size_t got, inner_->read(out));
    digester_.add(out.first(got));
    return got;
  }
  const std::string& name() const override { return inner_->name(); }
  int64_t file_bytes_read() const override { return inner_->file_bytes_read(); }
  int64_t file_bytes_total() const override { return inner_->file_bytes_total(); }
  int64_t bytes_left() const override { return inner_->bytes_left(); }

 private:
  std::unique_ptr<ByteSource> inner_;
  Digester& digester_;
};

// Calls `visit` with the lower-cased words (letters and digits, two at least) of a text.
template <class Visit>
void for_each_word(std::string_view text, const Visit& visit) {
  std::array<char, kMaxWordBytes> word{};
  size_t length = 0;
  const auto finish = [&] {
    if (length >= 2) {
      visit(std::string_view(word.data(), length));
    }
    length = 0;
  };
  for (const char raw : text) {
    const auto byte = static_cast<unsigned char>(raw);
    const bool upper = byte >= 'A' && byte <= 'Z';
    // Bytes from 0x80 on are parts of letters in UTF-8.
    if (upper || (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte >= 0x80) {
      if (length < word.size()) {
        word.at(length++) = static_cast<char>(upper ? byte + ('a' - 'A') : byte);
      }
    } else {
      finish();
    }
  }
  finish();
}

// Where a field's value goes; nullptr for fields that are not used.
std::string* place_for(Package& package, std::string_view field) {
  if (field == "Package") {
    return &package.name;
  }
  if (field == "Section") {
    return &package.section;
  }
  // Translated indices have the language in the name of the field.
  if (field == "Description" || field.starts_with("Description-en")) {
    return &package.description;
  }
  if (field == "Provides") {
    return &package.provides;
  }
  if (field == "Tag") {
    return &package.tags;
  }
  for (size_t i = 0; i < kPackageRelations.size(); ++i) {
    if (field == kPackageRelations.at(i)) {
      return &package.relations.at(i);
    }
  }
  return nullptr;
}

Status keep(Package&& package, const std::string& where, PackageList& index) {
  if (package.name.empty()) {
    return fail(ErrorKind::Data, where + ": the paragraph ending here has no field Package");
  }
  std::string name = package.name;
  if (!index.packages.try_emplace(std::move(name), std::move(package)).second) {
    ++index.num_duplicates;
  }
  return {};
}

}  // namespace

std::string_view trim_blanks(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  return begin == std::string_view::npos
             ? std::string_view()
             : text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

Result<PackageList> read_packages(std::unique_ptr<ByteSource> source, ProgressBar& progress) {
  PackageList index;
  Digester digester(DigestKind::Sha256);
  LineReader lines(std::make_unique<DigestingSource>(std::move(source), digester));
  progress.begin("reading packages", lines.source().file_bytes_total(), "bytes");
  Package package;
  bool in_paragraph = false;
  std::string* value = nullptr;
  while (true) {
    GNN_ASSIGN_OR_RETURN(const LineReader::Line line, lines.next());
    if (line.at_end || line.text.empty()) {
      if (in_paragraph) {
        GNN_RETURN_IF_ERROR(keep(std::exchange(package, {}), lines.where(), index));
      }
      in_paragraph = false;
      if (line.at_end) {
        break;
      }
      progress.advance_to(lines.source().file_bytes_read(), {});
      continue;
    }
    if (line.text.front() == ' ' || line.text.front() == '\t') {  // the field goes on
      if (!in_paragraph) {
        return fail(
            ErrorKind::Data, lines.where() + ": a continuation line without a field before it"
        );
      }
      if (value != nullptr) {
        *value += " ";
        *value += trim_blanks(line.text);
      }
      continue;
    }
    const size_t colon = line.text.find(':');
    if (colon == std::string_view::npos || colon == 0) {
      return fail(
          ErrorKind::Data,
          lines.where() + ": expected \"Field: value\", found '" +
              std::string(line.text.substr(0, 40)) + "'"
      );
    }
    in_paragraph = true;
    value = place_for(package, line.text.substr(0, colon));
    if (value != nullptr) {
      if (!value->empty()) {
        *value += " ";
      }
      *value += trim_blanks(line.text.substr(colon + 1));
    }
  }
  progress.end();
  if (index.packages.empty()) {
    return fail(ErrorKind::Data, lines.source().name() + ": expected packages, found none");
  }
  index.digest = digester.finish();
  return index;
}

Result<Array> store_word_features(
    std::span<const std::string_view> texts, const WordFeatures& options, ArrayStorage& storage
) {
  if (options.num_features < 1 || options.num_features > 65536) {
    return fail(
        ErrorKind::Configuration,
        "features: expected between 1 and 65536 columns, found " +
            std::to_string(options.num_features)
    );
  }
  ReadOptions reading;
  reading.feature_dtype = options.dtype;
  reading.normalize_rows = true;
  const auto read = [&](const FeatureRows::Visit& visit) -> Status {
    int64_t row = 0;
    std::vector<float> counts(static_cast<size_t>(options.num_features));
    for (const std::string_view text : texts) {
      std::fill(counts.begin(), counts.end(), 0.0F);
      for_each_word(text, [&](std::string_view word) {
        counts[XXH64(word.data(), word.size(), 0) % counts.size()] += 1.0F;
      });
      GNN_RETURN_IF_ERROR(visit(row++, counts));
    }
    return {};
  };
  return store_features(
      {.name = options.name,
       .num_rows = static_cast<int64_t>(texts.size()),
       .width = options.num_features,
       .read = read},
      reading,
      storage
  );
}

Result<std::string> run_dumpavail() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return fail(
        ErrorKind::Io, std::string("apt-cache: can't make a pipe: ") + std::strerror(errno)
    );
  }
  const pid_t child = fork();
  if (child == 0) {
    // Only calls that are safe between fork and exec.
    dup2(ends[1], STDOUT_FILENO);
    execlp("apt-cache", "apt-cache", "dumpavail", static_cast<char*>(nullptr));
    _exit(127);
  }
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return fail(ErrorKind::Io, std::string("apt-cache: can't start: ") + std::strerror(errno));
  }
  std::string output;
  std::array<char, 65536> buffer{};
  while (true) {
    const ssize_t got = read(ends[0], buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      break;
    }
    output.append(buffer.data(), static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
    return fail(
        ErrorKind::NotFound,
        "apt-cache: not found; on a machine without it, give a saved index as --input"
    );
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return fail(ErrorKind::Io, "apt-cache dumpavail: failed with status " + std::to_string(status));
  }
  return output;
}

}  // namespace gnn::data
