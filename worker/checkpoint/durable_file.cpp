#include "worker/checkpoint/durable_file.h"

#include <array>
#include <string>
#include <vector>

namespace gnn::checkpoint {
namespace {

namespace fs = std::filesystem;

Status append(FileOps& files, int file, std::string_view piece) {
  for (size_t done = 0; done < piece.size();) {
    GNN_ASSIGN_OR_RETURN(
        const size_t count, files.write(file, piece.data() + done, piece.size() - done)
    );
    if (count == 0) return fail(ErrorKind::Io, "write() wrote no byte");
    done += count;
  }
  return {};
}

Status fill(FileOps& files, int file, std::span<const std::string_view> pieces) {
  for (const std::string_view piece : pieces) GNN_RETURN_IF_ERROR(append(files, file, piece));
  return files.sync(file);
}

}  // namespace

Status write_file(FileOps& files, const fs::path& path, std::span<const std::string_view> pieces) {
  GNN_ASSIGN_OR_RETURN(const int file, files.create(path));
  const Status filled = fill(files, file, pieces);
  const Status closed = files.close(file);
  if (filled && closed) return {};
  // Gives a full disk its room back; what can't be removed is never read.
  static_cast<void>(files.remove_file(path));
  return filled ? closed : tl::make_unexpected(with_context(filled.error(), path.string()));
}

Status replace_file(
    FileOps& files, const fs::path& path, std::span<const std::string_view> pieces
) {
  const fs::path temporary = temporary_name(path);
  GNN_RETURN_IF_ERROR(write_file(files, temporary, pieces));
  GNN_RETURN_IF_ERROR(files.rename(temporary, path));
  return files.sync_directory(path.has_parent_path() ? path.parent_path() : ".");
}

fs::path folder_named(const std::string& path) {
  fs::path folder = fs::absolute(path).lexically_normal();
  return folder.has_filename() ? folder : folder.parent_path();
}

Status make_writable_folder(FileOps& files, const fs::path& folder) {
  if (Result<std::vector<std::string>> names = files.list(folder); !names) {
    if (names.error().kind != ErrorKind::NotFound) return tl::unexpected(names.error());
    GNN_RETURN_IF_ERROR(files.make_directory(folder));
    GNN_RETURN_IF_ERROR(files.sync_directory(folder.parent_path()));
  }
  const fs::path probe = temporary_name(folder / "writable");
  GNN_RETURN_IF_ERROR(write_file(files, probe, std::array<std::string_view, 1>{"writable?"}));
  return files.remove_file(probe);
}

fs::path temporary_name(const fs::path& path) {
  return path.string() + std::string(kTemporarySuffix);
}

}  // namespace gnn::checkpoint
