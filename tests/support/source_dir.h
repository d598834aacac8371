#pragma once

#include <string>

namespace gnn::testing {

/// The root of the source tree. A function of one file, so that no other file's compile command has the path: a compiler
/// cache then serves every checkout.
[[nodiscard]] const std::string& source_dir();

}  // namespace gnn::testing
