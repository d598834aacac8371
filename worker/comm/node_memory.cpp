#include "worker/comm/node_memory.h"

#include "common/log.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <tl/expected.hpp>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace gnn::comm {
namespace {

template <class T>
using OrReason = tl::expected<T, std::string>;

tl::unexpected<std::string> why_failed(const std::string& call) {
  return tl::unexpected(call + ": " + std::generic_category().message(errno));
}

// Closes a file descriptor at the end of its scope.
class MemoryFile {
 public:
  explicit MemoryFile(int descriptor) : descriptor_(descriptor) {}
  MemoryFile(MemoryFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  MemoryFile& operator=(MemoryFile&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~MemoryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

// Says where other processes of this machine find the file, and which it is: ranks that do not see
// the same processes would open another one, or none.
std::string address_of(const MemoryFile& file) {
  struct stat found = {};
  if (::fstat(file.descriptor(), &found) != 0) return {};
  return std::to_string(::getpid()) + " " + std::to_string(file.descriptor()) + " " +
         std::to_string(found.st_dev) + " " + std::to_string(found.st_ino);
}

OrReason<MemoryFile> create_memory(int64_t bytes) {
  MemoryFile file(::memfd_create("gnn-node-memory", MFD_CLOEXEC));
  if (file.descriptor() < 0) return why_failed("memfd_create");
  if (::ftruncate(file.descriptor(), bytes) != 0)
    return why_failed("ftruncate to " + std::to_string(bytes) + " bytes");
  return file;
}

OrReason<MemoryFile> open_memory(const std::string& address) {
  long long pid = 0;
  int descriptor = -1;
  unsigned long long device = 0;
  unsigned long long inode = 0;
  if (std::sscanf(address.c_str(), "%lld %d %llu %llu", &pid, &descriptor, &device, &inode) != 4)
    return tl::unexpected(std::string("local rank 0 has no shared memory"));
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(descriptor);
  MemoryFile file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (file.descriptor() < 0) return why_failed("open " + path);
  struct stat found = {};
  if (::fstat(file.descriptor(), &found) != 0) return why_failed("fstat " + path);
  if (found.st_dev != device || found.st_ino != inode)
    return tl::unexpected(path + " is not what local rank 0 made");
  return file;
}

// The whole pages of [memory, memory + bytes). Only a hint: without large pages all is as right, and
// slower.
void ask_for_large_pages(void* memory, size_t bytes) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t into_page = reinterpret_cast<uintptr_t>(memory) % page;
  const size_t skipped = into_page == 0 ? 0 : page - into_page;
  if (bytes < skipped + page) return;
  static_cast<void>(::madvise(
      static_cast<char*>(memory) + skipped, (bytes - skipped) / page * page, MADV_HUGEPAGE
  ));
}

OrReason<at::Tensor> map_memory(
    const MemoryFile& file, at::IntArrayRef sizes, at::ScalarType dtype
) {
  const int64_t bytes =
      c10::multiply_integers(sizes) * static_cast<int64_t>(c10::elementSize(dtype));
  const auto size = static_cast<size_t>(bytes);
  void* const memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor(), 0);
  if (memory == MAP_FAILED) return why_failed("mmap of " + std::to_string(bytes) + " bytes");
  ask_for_large_pages(memory, size);
  return at::from_blob(
      memory,
      sizes,
      [size](void* mapped) { ::munmap(mapped, size); },
      at::TensorOptions().dtype(dtype)
  );
}

}  // namespace

Result<std::optional<at::Tensor>> zeros_shared_by(
    Communicator& node, at::IntArrayRef sizes, at::ScalarType dtype
) {
  const int64_t elements = c10::multiply_integers(sizes);
  if (node.world_size() == 1 || elements == 0) return std::optional(at::zeros(sizes, dtype));
  const int64_t bytes = elements * static_cast<int64_t>(c10::elementSize(dtype));

  const bool first = node.rank() == 0;
  OrReason<MemoryFile> file = first ? create_memory(bytes) : tl::unexpected(std::string());
  GNN_ASSIGN_OR_RETURN(
      const auto addresses, all_gather_bytes(node, file ? address_of(*file) : std::string())
  );
  if (!first) file = open_memory(addresses[0]);
  const OrReason<at::Tensor> mapped =
      file ? map_memory(*file, sizes, dtype) : tl::unexpected(file.error());
  // Also keeps rank 0's descriptor open until the others have it.
  GNN_ASSIGN_OR_RETURN(
      const auto reasons, all_gather_bytes(node, mapped ? std::string() : mapped.error())
  );
  for (size_t rank = 0; rank < reasons.size(); ++rank) {
    if (reasons[rank].empty()) continue;
    if (first)
      log_warning(
          "the ranks of this node cannot share memory; each holds its own copy",
          {{"localRank", std::to_string(rank)}, {"reason", reasons[rank]}}
      );
    return std::optional<at::Tensor>();
  }
  return std::optional(*mapped);
}

at::Tensor empty_on_large_pages(at::IntArrayRef sizes, at::ScalarType dtype) {
  at::Tensor tensor = at::empty(sizes, dtype);
  // What is smaller shares pages with other things.
  constexpr size_t kLeast = size_t{4} << 20;
  if (tensor.nbytes() >= kLeast) ask_for_large_pages(tensor.mutable_data_ptr(), tensor.nbytes());
  return tensor;
}

}  // namespace gnn::comm
