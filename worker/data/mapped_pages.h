#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace gnn::data {

/// Memory that this process holds now, pages of mapped files included.
[[nodiscard]] int64_t resident_bytes();

/// A shared mapping of a file whose pages MappedPagesLimit may give back. Ends before the mapping does.
/// Threads: any thread.
class ReturnablePages {
 public:
  ReturnablePages(void* address, size_t bytes);
  ~ReturnablePages();
  ReturnablePages(const ReturnablePages&) = delete;
  ReturnablePages& operator=(const ReturnablePages&) = delete;

 private:
  void* address_;
};

/// While it lives, mapped files (mapped_file.h) take little of this process's memory, however much of
/// them is read and written: a thread looks every millisecond and, if more than a limit is
/// resident, gives all their pages back. Nothing is lost, as the kernel keeps the contents in its own
/// cache or on disk; what is touched again is mapped again. So only what is read or written in order
/// should lie in files.
/// There is one limit at a time.
class MappedPagesLimit {
 public:
  /// `bytes`: how much may be resident beyond what is now.
  explicit MappedPagesLimit(int64_t bytes);
  /// Joins the thread.
  ~MappedPagesLimit();
  MappedPagesLimit(const MappedPagesLimit&) = delete;
  MappedPagesLimit& operator=(const MappedPagesLimit&) = delete;

 private:
  struct Watch;
  std::unique_ptr<Watch> watch_;
};

/// Looks at once, if there is a limit. For loops that read or write files so fast that a thread that
/// waits for its turn comes too late; to be called every few MB.
void keep_mapped_pages_few();

}  // namespace gnn::data
