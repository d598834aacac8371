#pragma once

#include "common/result.h"

#include <cstddef>
#include <istream>
#include <string>

namespace gnn {

/// All of a file, which may be a pipe. Reads no more than a byte beyond the limit, however large it is.
/// Errors: Configuration, which name the file, if it can't be read or has more than `max_bytes`.
[[nodiscard]] Result<std::string> read_text_file(const std::string& path, size_t max_bytes);

/// The same of a stream, under that name.
[[nodiscard]] Result<std::string> read_text(
    std::istream& stream, const std::string& name, size_t max_bytes
);

}  // namespace gnn
