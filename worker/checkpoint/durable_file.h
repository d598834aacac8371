#pragma once

#include "common/result.h"
#include "worker/checkpoint/file_ops.h"

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace gnn::checkpoint {

/// Writes the pieces one after another to a file, created or emptied, and syncs it; removes it if
/// that fails.
/// Errors: Io with the path.
[[nodiscard]] Status write_file(
    FileOps& files, const std::filesystem::path& path, std::span<const std::string_view> pieces
);

/// Replaces `path` durably by a file of these pieces: under a temporary name beside it, synced,
/// renamed, and the folder synced. Wherever it stops, `path` is what it was before, or whole.
/// Errors: Io with the path.
[[nodiscard]] Status replace_file(
    FileOps& files, const std::filesystem::path& path, std::span<const std::string_view> pieces
);

/// The folder that a field names, as an absolute path: "models/" and "models" are one folder, whose
/// parent has a name.
[[nodiscard]] std::filesystem::path folder_named(const std::string& path);

/// Makes the folder, if its parent exists, and writes a file there for a moment.
/// Errors: those of the calls, with the path.
[[nodiscard]] Status make_writable_folder(FileOps& files, const std::filesystem::path& folder);

/// What replace_file() writes to before it renames: `path` with this at its end.
inline constexpr std::string_view kTemporarySuffix = ".tmp";
[[nodiscard]] std::filesystem::path temporary_name(const std::filesystem::path& path);

}  // namespace gnn::checkpoint
