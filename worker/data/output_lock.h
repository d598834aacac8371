#pragma once

#include "common/result.h"

#include <string>

namespace gnn::data {

/// The right to write one output, which one process has at a time, on all machines that share the
/// folder. It is an open file description's lock on "<output>.lock": NFS passes such locks to its
/// server, and the kernel gives them back when their owner dies, on whatever machine. The file stays
/// when the lock is given back, and says who had it last: if it were removed, another machine could
/// still see it and lock a file that nobody else finds.
/// Threads: one thread.
class OutputLock {
 public:
  /// Takes the lock, or fails at once.
  /// Errors: Conflict, naming the owner, while another has it; Io, also where the file system has no
  /// locks.
  static Result<OutputLock> take(const std::string& output);
  OutputLock(OutputLock&& other) noexcept;
  OutputLock& operator=(OutputLock&&) = delete;
  ~OutputLock();

 private:
  explicit OutputLock(int file) : file_(file) {}
  int file_;
};

}  // namespace gnn::data
