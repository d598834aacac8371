#pragma once

#include "common/result.h"

#include <stdexcept>
#include <utility>

namespace gnn::testing {

/// The value, or an exception with the error's text: what cannot go on without it, fails.
template <class T, class E>
T must(Result<T, E> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return *std::move(result);
}

template <class E>
void must(const Result<void, E>& status) {
  if (!status) throw std::runtime_error(status.error().message);
}

}  // namespace gnn::testing
