#include "worker/training/npy_file.h"

#include "worker/checkpoint/durable_file.h"
#include "worker/data/io/npy.h"

#include <string>
#include <utility>

namespace gnn::training {

NpyFile::NpyFile(NpyFile&& other) noexcept
    : files_(std::move(other.files_)),
      path_(std::move(other.path_)),
      left_(other.left_),
      file_(std::exchange(other.file_, -1)),
      exists_(std::exchange(other.exists_, false)) {}

NpyFile::~NpyFile() {
  if (file_ >= 0) static_cast<void>(files_->close(file_));
  if (exists_) static_cast<void>(files_->remove_file(checkpoint::temporary_name(path_)));
}

Result<NpyFile> NpyFile::create(
    std::shared_ptr<checkpoint::FileOps> files,
    std::filesystem::path path,
    data::DType dtype,
    const std::vector<int64_t>& shape
) {
  GNN_ASSIGN_OR_RETURN(const std::string header, data::make_npy_header(dtype, shape));
  GNN_ASSIGN_OR_RETURN(
      const int64_t elements, data::checked_elements(shape, data::dtype_size(dtype))
  );
  const int64_t bytes = std::ssize(header) + elements * data::dtype_size(dtype);
  NpyFile made(std::move(files), std::move(path), bytes);
  GNN_ASSIGN_OR_RETURN(made.file_, made.files_->create(checkpoint::temporary_name(made.path_)));
  made.exists_ = true;
  if (Status reserved = made.files_->reserve(made.file_, bytes); !reserved)
    return tl::unexpected(with_context(std::move(reserved).error(), made.path_.string()));
  GNN_RETURN_IF_ERROR(made.append(std::as_bytes(std::span(header))));
  return made;
}

Status NpyFile::append(std::span<const std::byte> elements) {
  GNN_ASSERT(std::ssize(elements) <= left_, "no more elements than the shape has");
  left_ -= std::ssize(elements);
  const Status written = write(elements);
  if (written) return {};
  return tl::unexpected(with_context(written.error(), path_.string()));
}

Status NpyFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    GNN_ASSIGN_OR_RETURN(const size_t count, files_->write(file_, bytes.data(), bytes.size()));
    if (count == 0) return fail(ErrorKind::Io, "write() wrote no byte");
    bytes = bytes.subspan(count);
  }
  return {};
}

Status NpyFile::finish() {
  GNN_ASSERT(left_ == 0, "as many elements as the shape has");
  const Status synced = files_->sync(file_);
  const Status closed = files_->close(std::exchange(file_, -1));
  if (synced && closed) return {};
  return tl::unexpected(with_context(synced ? closed.error() : synced.error(), path_.string()));
}

Status NpyFile::publish() {
  GNN_RETURN_IF_ERROR(files_->rename(checkpoint::temporary_name(path_), path_));
  exists_ = false;
  return {};
}

}  // namespace gnn::training
