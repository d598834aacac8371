#pragma once

#include <tl/expected.hpp>

#include <string>
#include <string_view>
#include <utility>

namespace gnn {

/// Kinds of errors, by what a caller can do about them; contract.h maps each to an exit code.
enum class ErrorKind {
  Configuration,  ///< the user's configuration is wrong; retrying cannot help
  Data,           ///< the input data is wrong or damaged; retrying cannot help
  Io,             ///< a file operation failed
  Network,        ///< a connection failed or broke
  Timeout,        ///< a deadline passed
  Cancelled,      ///< the caller asked to stop
  PeerLost,       ///< another node or rank of the job is gone
  Preempted,      ///< the pod was told to stop, and saved its state
  OutOfMemory,    ///< the process ran out of memory
  NotFound,       ///< the named thing does not exist
  Conflict,       ///< the named thing has changed meanwhile, or has another owner
  Internal,       ///< anything else
};

/// The kind's name as it is logged, e.g. "Configuration".
[[nodiscard]] std::string_view to_string(ErrorKind kind);

/// An expected failure. The message says what was expected, what was found and where, and holds no
/// secrets.
struct Error {
  ErrorKind kind = ErrorKind::Internal;
  std::string message;

  friend bool operator==(const Error&, const Error&) = default;
};

/// A value, or the reason why there is none. Callers must check it.
template <class T, class E = Error>
using Result = tl::expected<T, E>;

using Status = Result<void>;

/// The failing side of a Result: `return fail(ErrorKind::Data, "...")`.
[[nodiscard]] inline tl::unexpected<Error> fail(ErrorKind kind, std::string message) {
  return tl::unexpected<Error>(Error{.kind = kind, .message = std::move(message)});
}

/// The same error with "context: " put before its message.
[[nodiscard]] inline Error with_context(Error error, std::string_view context) {
  error.message.insert(0, std::string(context) + ": ");
  return error;
}

namespace internal {
[[noreturn]] void assert_failed(const char* condition, const char* why, const char* file, int line);
}  // namespace internal

}  // namespace gnn

// NOLINTBEGIN(bugprone-macro-parentheses): `lhs` may declare a variable.
#define GNN_CONCAT_INNER(a, b) a##b
#define GNN_CONCAT(a, b) GNN_CONCAT_INNER(a, b)

/// Gives `lhs` the value of `expr`, or returns its error from the enclosing function.
#define GNN_ASSIGN_OR_RETURN(lhs, expr) \
  GNN_ASSIGN_OR_RETURN_INNER(GNN_CONCAT(gnn_result_, __LINE__), lhs, expr)
#define GNN_ASSIGN_OR_RETURN_INNER(result, lhs, expr)                   \
  auto result = (expr);                                                 \
  if (!result) return ::tl::make_unexpected(std::move(result).error()); \
  lhs = std::move(*result)

// NOLINTEND(bugprone-macro-parentheses)

/// Returns the error of `expr`, if it has one, from the enclosing function.
#define GNN_RETURN_IF_ERROR(expr)                                  \
  do {                                                             \
    if (auto gnn_status = (expr); !gnn_status)                     \
      return ::tl::make_unexpected(std::move(gnn_status).error()); \
  } while (false)

/// Aborts the process if `condition`, which cannot be false, is false; `why` says why it cannot be.
/// Never for input of a user, a file or a peer.
#define GNN_ASSERT(condition, why)                                                         \
  do {                                                                                     \
    if (!(condition)) ::gnn::internal::assert_failed(#condition, why, __FILE__, __LINE__); \
  } while (false)
