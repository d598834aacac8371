#pragma once

#include "common/result.h"

#include <new>
#include <stdexcept>
#include <string>

namespace gnn::gpu {

/// A call of CUDA that failed. Thrown inside worker/gpu, whose public functions return it as an
/// Error.
class CudaFailure : public std::runtime_error {
 public:
  CudaFailure(ErrorKind kind, const std::string& what) : std::runtime_error(what), kind_(kind) {}
  [[nodiscard]] ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

/// What `work` returns, or the error that it throws.
template <class Work>
[[nodiscard]] auto caught(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const CudaFailure& failure) {
    return fail(failure.kind(), failure.what());
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::OutOfMemory, "the host's memory is used up");
  }
}

}  // namespace gnn::gpu
