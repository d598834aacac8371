#include "common/page_buffer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/mman.h>

namespace gnn {

#ifdef GNN_SANITIZED

// The sanitizers get heap memory: the address sanitizer then sees a write past its end, and the
// thread sanitizer a change of owner (it does not intercept mremap and reports the next owner's
// writes as a race).
void PageBuffer::reserve(size_t bytes) {
  if (bytes <= bytes_) return;
  void* grown = std::realloc(data_, bytes);
  if (grown == nullptr) throw std::bad_alloc();
  std::memset(static_cast<char*>(grown) + bytes_, 0, bytes - bytes_);
  data_ = grown;
  bytes_ = bytes;
}

void PageBuffer::release() noexcept {
  std::free(data_);
  data_ = nullptr;
  bytes_ = 0;
}

#else

namespace {
constexpr size_t kPageBytes = 4096;
constexpr size_t kHugePageBytes = size_t{2} << 20;

size_t rounded(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}
}  // namespace

void PageBuffer::reserve(size_t bytes) {
  if (bytes <= bytes_) return;
  // Growing by half at least keeps the number of moves logarithmic; untouched pages cost nothing.
  const size_t wanted = std::max(bytes, bytes_ + bytes_ / 2);
  const size_t size = rounded(wanted, wanted >= kHugePageBytes ? kHugePageBytes : kPageBytes);
  void* grown =
      data_ == nullptr
          ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
          : mremap(data_, bytes_, size, MREMAP_MAYMOVE);
  if (grown == MAP_FAILED) throw std::bad_alloc();
  // Advice only: a kernel without transparent huge pages gives 4 KiB pages and the same results.
  if (size >= kHugePageBytes) madvise(grown, size, MADV_HUGEPAGE);
  data_ = grown;
  bytes_ = size;
}

void PageBuffer::release() noexcept {
  if (data_ != nullptr) munmap(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
}

#endif

}  // namespace gnn
