#pragma once

#include "common/result.h"

#include <string>
#include <string_view>
#include <utility>

namespace gnn::app {

/// A temporary file that only this user can read, as long as the object lives.
class PrivateFile {
 public:
  /// In TMPDIR or /tmp, with a name that starts with `name`.
  /// Errors: Io naming the file.
  [[nodiscard]] static Result<PrivateFile> create(
      const std::string& name, std::string_view content
  );
  ~PrivateFile();
  PrivateFile(PrivateFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  PrivateFile& operator=(PrivateFile&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  PrivateFile(const PrivateFile&) = delete;
  PrivateFile& operator=(const PrivateFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit PrivateFile(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace gnn::app
