#pragma once

#include <tl/expected.hpp>

#include <string>
#include <string_view>
#include <utility>

namespace gnn {

/// What a caller can do about an error; contract.h maps each kind to the worker's exit code.
enum class ErrorKind {
  Configuration,  ///< The user's configuration is wrong; retrying cannot help.
  Data,           ///< The input data is wrong or damaged; retrying cannot help.
  Io,             ///< A file operation failed.
  Network,        ///< A connection failed or broke.
  Timeout,        ///< A deadline passed.
  Cancelled,      ///< The caller asked to stop.
  PeerLost,       ///< Another node or rank of the job is gone.
  Preempted,      ///< The pod was told to leave; state was saved.
  OutOfMemory,    ///< Memory ran out.
  NotFound,       ///< The named thing does not exist.
  Conflict,       ///< The thing changed meanwhile or belongs to somebody else.
  Internal,       ///< Anything else.
};

/// The kind's name as it is logged, e.g. "Configuration".
[[nodiscard]] std::string_view to_string(ErrorKind kind);

/// An expected failure: what was expected, what was found and where. Holds no secrets.
struct Error {
  ErrorKind kind = ErrorKind::Internal;
  std::string message;

  friend bool operator==(const Error&, const Error&) = default;
};

/// A value, or why there is none; the caller must look at it.
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

/// Ends the process when something impossible happened; `why` says why it cannot. Never used on
/// what a user, a file or a peer can send.
#define GNN_ASSERT(condition, why)                                                         \
  do {                                                                                     \
    if (!(condition)) ::gnn::internal::assert_failed(#condition, why, __FILE__, __LINE__); \
  } while (false)
