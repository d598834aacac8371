#include "worker/data/digest.h"
#include "worker/data/io/npy.h"
#include "worker/data/manifest.h"
#include "worker/data/native.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <set>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace gnn::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kJournalFile = "journal.yaml";
constexpr int64_t kHeaderBytes = 4096;

tl::unexpected<Error> io_failure(
    const std::string& path, const std::string& what, const std::string& why
) {
  return fail(ErrorKind::Io, path + ": " + what + ": " + why);
}

Result<Array> map_array(const std::string& path, const ManifestArray& entry) {
  GNN_ASSIGN_OR_RETURN(const Mapping mapping, map_file(path));
  auto* data = static_cast<std::byte*>(mapping.address.get()) + kHeaderBytes;
  return Array(entry.name, entry.dtype, entry.shape, mapping.address, data);
}

// An owner of the same memory; `end` is called after its last copy is gone.
template <class End>
std::shared_ptr<void> and_then(std::shared_ptr<void> owner, const End& end) {
  void* const address = owner.get();
  return {address, [owner = std::move(owner), end](void*) mutable {
            owner.reset();
            end();
          }};
}

}  // namespace

NativeWriter::NativeWriter(
    std::string output, std::string key, OutputLock lock, const MemoryPlan& memory
)
    : output_(std::move(output)),
      partial_(output_ + ".partial"),
      key_(std::move(key)),
      lock_(std::move(lock)),
      memory_(memory) {}

Result<std::unique_ptr<NativeWriter>> NativeWriter::open(
    const std::string& output_path, const std::string& key, const MemoryPlan& memory
) {
  std::error_code error;
  std::string output = fs::absolute(output_path, error).lexically_normal().string();
  while (output.size() > 1 && output.ends_with('/')) {
    output.pop_back();
  }
  fs::create_directories(fs::path(output).parent_path(), error);
  if (error) {
    return io_failure(output, "can't create its parent folder", error.message());
  }
  GNN_ASSIGN_OR_RETURN(OutputLock lock, OutputLock::take(output));
  std::unique_ptr<NativeWriter> writer(new NativeWriter(output, key, std::move(lock), memory));
  GNN_RETURN_IF_ERROR(writer->load_journal());
  return writer;
}

void NativeWriter::discard() {
  std::error_code error;
  fs::remove_all(partial_, error);
}

Status NativeWriter::load_journal() {
  std::error_code error;
  const std::string journal = path_of(kJournalFile);
  auto entries = read_journal(journal, key_);
  if (!entries) {
    fs::remove_all(partial_, error);
    if (error) {
      return io_failure(partial_, "can't remove the leftovers of another run", error.message());
    }
    fs::create_directories(partial_, error);
    if (error) {
      return io_failure(partial_, "can't create", error.message());
    }
    return write_and_sync(journal, journal_head(key_));
  }
  std::set<std::string> keep{kJournalFile};
  for (ManifestArray& entry : *entries) {
    // Checked even though the journal lists it: the machine may have lost power since.
    const auto digest = digest_file(DigestKind::Xxh64, path_of(entry.file));
    if (digest && digest->bytes == entry.file_bytes && digest->digest == entry.digest) {
      keep.insert(entry.file);
      whole_.push_back(std::move(entry));
    }
  }
  num_resumed_ = static_cast<int64_t>(whole_.size());
  for (const auto& file : fs::directory_iterator(partial_, error)) {
    if (!keep.contains(file.path().filename().string())) {
      fs::remove_all(file.path(), error);
    }
  }
  return {};
}

Result<Array> NativeWriter::create(std::string name, DType dtype, std::vector<int64_t> shape) {
  GNN_ASSIGN_OR_RETURN(const int64_t elements, checked_elements(shape, dtype_size(dtype)));
  GNN_ASSIGN_OR_RETURN(const std::string header, make_npy_header(dtype, shape));
  const std::string path = path_of(name + ".npy");
  GNN_ASSIGN_OR_RETURN(
      const Mapping mapping, create_mapped_file(path, kHeaderBytes + elements * dtype_size(dtype))
  );
  auto* begin = static_cast<std::byte*>(mapping.address.get());
  std::memcpy(begin, header.data(), header.size());
  return Array(std::move(name), dtype, std::move(shape), mapping.address, begin + kHeaderBytes);
}

Result<Array> NativeWriter::scratch(DType dtype, std::vector<int64_t> shape) {
  GNN_ASSIGN_OR_RETURN(const int64_t elements, checked_elements(shape, dtype_size(dtype)));
  const int64_t bytes = elements * dtype_size(dtype);
  // The first scratch memory is anonymous; the rest is backed by unlinked files, so that a graph
  // larger than memory can be sorted.
  if (*scratch_bytes_ + bytes <= memory_.scratch_bytes) {
    GNN_ASSIGN_OR_RETURN(Array array, MemoryStorage().scratch(dtype, shape));
    *scratch_bytes_ += bytes;
    const auto owner =
        and_then(array.owner(), [in_use = scratch_bytes_, bytes] { *in_use -= bytes; });
    return Array(array.name(), dtype, std::move(shape), owner, array.mutable_bytes());
  }
  const std::string path = path_of("scratch");
  GNN_ASSIGN_OR_RETURN(const Mapping mapping, create_mapped_file(path, bytes));
  unlink(path.c_str());
  return Array("scratch", dtype, std::move(shape), mapping.address, mapping.address.get());
}

int64_t NativeWriter::memory_bytes() const {
  return memory_.step_bytes - *held_bytes_;
}

Result<MemoryHold> NativeWriter::hold(int64_t bytes, const std::string& what) {
  if (bytes > memory_bytes() / 2) {
    return fail(
        ErrorKind::Configuration,
        "--memory: " + what + " takes " + bytes_text(bytes) + ", more than half of the " +
            bytes_text(memory_bytes()) + " that are left for it; allow more"
    );
  }
  *held_bytes_ += bytes;
  return MemoryHold(nullptr, [in_use = held_bytes_, bytes](void*) { *in_use -= bytes; });
}

Result<Array> NativeWriter::commit(Array array, int64_t length) {
  std::vector<int64_t> shape = array.shape();
  GNN_ASSERT(!shape.empty() && length <= shape[0], "an array can only be cut, not grown");
  shape[0] = length;
  ManifestArray entry;
  entry.name = array.name();
  entry.file = array.name() + ".npy";
  entry.dtype = array.dtype();
  GNN_ASSIGN_OR_RETURN(const int64_t elements, checked_elements(shape, dtype_size(entry.dtype)));
  entry.file_bytes = kHeaderBytes + elements * dtype_size(entry.dtype);
  GNN_ASSIGN_OR_RETURN(const std::string header, make_npy_header(entry.dtype, shape));
  entry.shape = std::move(shape);
  std::byte* begin = array.mutable_bytes() - kHeaderBytes;
  std::memcpy(begin, header.data(), header.size());
  entry.digest =
      digest_of(DigestKind::Xxh64, std::span(begin, static_cast<size_t>(entry.file_bytes)));
  const std::string path = path_of(entry.file);
  array = Array();  // unmapped before the file is cut
  GNN_RETURN_IF_ERROR(truncate_and_sync(path, entry.file_bytes));
  GNN_RETURN_IF_ERROR(append_journal(path_of(kJournalFile), entry));
  GNN_ASSIGN_OR_RETURN(Array whole, map_array(path, entry));
  whole_.push_back(std::move(entry));
  return whole;
}

Result<Array> NativeWriter::find(const std::string& name) {
  for (const ManifestArray& entry : whole_) {
    if (entry.name == name) {
      return map_array(path_of(entry.file), entry);
    }
  }
  return Array();
}

Status NativeWriter::publish(const DatasetArrays& dataset, bool replace) {
  std::error_code error;
  const auto work = std::stable_partition(whole_.begin(), whole_.end(), [](const auto& entry) {
    return !entry.name.starts_with(kWorkPrefix);
  });
  const std::vector<ManifestArray> kept(whole_.begin(), work);
  GNN_ASSIGN_OR_RETURN(const std::string manifest, encode_manifest(dataset, kept, key_));
  fs::remove(path_of(kManifestFile), error);
  GNN_RETURN_IF_ERROR(write_and_sync(path_of(kManifestFile), manifest));
  for (auto entry = work; entry != whole_.end(); ++entry) fs::remove(path_of(entry->file), error);
  GNN_RETURN_IF_ERROR(sync_directory(partial_));
  GNN_RETURN_IF_ERROR(move_to_output(partial_, replace));
  fs::remove(output_ + "/" + kJournalFile, error);
  return sync_directory(fs::path(output_).parent_path().string());
}

Status NativeWriter::publish_other_form(bool replace) {
  GNN_RETURN_IF_ERROR(move_to_output(other_form(), replace));
  std::error_code error;
  fs::remove_all(partial_, error);
  return sync_directory(fs::path(output_).parent_path().string());
}

Status NativeWriter::move_to_output(const std::string& folder, bool replace) {
  std::error_code error;
  if (!is_vacant(output_)) {
    if (!replace) {
      return fail(ErrorKind::Conflict, output_ + ": already exists; remove it or replace it");
    }
    if (renameat2(AT_FDCWD, folder.c_str(), AT_FDCWD, output_.c_str(), RENAME_EXCHANGE) != 0) {
      return io_failure(output_, "can't replace", std::strerror(errno));
    }
    fs::remove_all(folder, error);
  } else if (rename(folder.c_str(), output_.c_str()) != 0) {
    return io_failure(output_, "can't publish", std::strerror(errno));
  }
  return {};
}

bool is_vacant(const std::string& output) {
  std::error_code error;
  // Of a link itself: no folder can be renamed to it, wherever it leads.
  const auto status = fs::symlink_status(output, error);
  return !fs::exists(status) || (fs::is_directory(status) && fs::is_empty(output, error));
}

bool is_replaceable(const std::string& output) {
  std::error_code error;
  const auto status = fs::symlink_status(output, error);
  if (fs::is_symlink(status)) return true;
  if (!fs::is_directory(status)) return false;
  if (fs::exists(output + "/" + kManifestFile, error)) return true;
  // The top of what write_ogb() writes.
  for (fs::directory_iterator entry(output, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name != "raw" && name != "split") return false;
  }
  return !error;
}

std::string published_key(const std::string& directory) {
  const auto manifest = read_manifest(directory + "/" + kManifestFile);
  return manifest ? manifest->key : "";
}

}  // namespace gnn::data
