#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace gnn::data {

/// Memory that this process holds now, pages of mapped files included.
[[nodiscard]] int64_t resident_bytes();

/// How much of mapped files may be resident at once: what MappedPagesLimit says, or the largest number.
/// Who reads a file in no order reads it in several passes, each of less than that.
[[nodiscard]] int64_t mapped_pages_limit();

/// A shared mapping of a file that MappedPagesLimit counts. Ends before the mapping does.
/// Threads: any thread.
class CountedMapping {
 public:
  /// `address`: of a page. `protection`: the mapping's, as mmap() takes it.
  CountedMapping(void* address, size_t bytes, int protection);
  ~CountedMapping();
  CountedMapping(const CountedMapping&) = delete;
  CountedMapping& operator=(const CountedMapping&) = delete;

 private:
  void* address_;
};

/// While it lives, mapped files (mapped_file.h) take no more than a limit of this process's memory, however
/// much of them is read and written, in any loop and by any thread. They are closed to the program but for
/// some windows. Touching another place opens the window around it, by a handler of SIGSEGV, and closes the
/// one that has been open for longest. Nothing is lost, as the kernel keeps the contents in its own cache
/// or on disk.
///
/// Opening a window takes some microseconds: only what is read or written in order should lie in files.
/// The kernel opens none. So no system call may be given an address in a mapped file; it fails with EFAULT.
/// A debugger should pass SIGSEGV on. Faults elsewhere go to the handler that was there before.
/// There is one limit at a time.
class MappedPagesLimit {
 public:
  /// `bytes`: how much of files may be resident. At least a few windows of 64 KiB are.
  explicit MappedPagesLimit(int64_t bytes);
  /// Opens all mappings wholly.
  ~MappedPagesLimit();
  MappedPagesLimit(const MappedPagesLimit&) = delete;
  MappedPagesLimit& operator=(const MappedPagesLimit&) = delete;
};

/// In a child made by fork(): a limit goes on, but any other fault ends the child as if no handler had
/// ever been there.
void leave_other_faults_to_the_kernel();

}  // namespace gnn::data
