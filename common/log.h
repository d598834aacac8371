#pragma once

#include "common/result.h"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace gnn {

enum class LogLevel { Debug, Info, Warning, Error };
/// Json: one object per line, for machines. Console: lines for people.
enum class LogFormat { Console, Json };

struct LogOptions {
  LogFormat format = LogFormat::Console;
  LogLevel level = LogLevel::Info;
};

/// Sets format and level of the process's log, which goes to stderr, unbuffered. Before this call,
/// warnings and errors are written in the console format.
void init_logging(const LogOptions& options);

/// For its lifetime, log() hands each line, without its end, to `output` instead of stderr.
/// Threads: `output` is called by any thread, but never by two at once. It must not log.
class ScopedLogOutput {
 public:
  using Output = std::function<void(std::string_view line)>;
  explicit ScopedLogOutput(Output output);
  ~ScopedLogOutput();
  ScopedLogOutput(const ScopedLogOutput&) = delete;
  ScopedLogOutput& operator=(const ScopedLogOutput&) = delete;

 private:
  Output before_;
};

/// "console" or "json"; "debug", "info", "warning" or "error".
[[nodiscard]] Result<LogFormat> parse_log_format(std::string_view text);
[[nodiscard]] Result<LogLevel> parse_log_level(std::string_view text);

/// A key of a log line and its value, which must not be a secret.
struct LogField {
  using Value = std::variant<std::string, int64_t, double, bool>;

  template <class T>
  LogField(std::string_view name, const T& field_value) : key(name), value(convert(field_value)) {}

  std::string_view key;
  Value value;

 private:
  template <class T>
  static Value convert(const T& field_value) {
    if constexpr (std::is_same_v<T, bool>) {
      return field_value;
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<int64_t>(field_value);
    } else if constexpr (std::is_floating_point_v<T>) {
      return static_cast<double>(field_value);
    } else {
      return std::string(field_value);
    }
  }
};

/// Writes a line.
/// Threads: safe from any thread.
void log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});
[[nodiscard]] bool log_enabled(LogLevel level);

/// What log() prints, without the line end. It is always one line: the console format shows line
/// ends and other control characters of message and fields as "\n" or "\x1b".
[[nodiscard]] std::string format_log_line(
    LogFormat format,
    LogLevel level,
    std::string_view timestamp,
    std::string_view message,
    std::initializer_list<LogField> fields
);

inline void log_debug(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::Debug, message, fields);
}
inline void log_info(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::Info, message, fields);
}
inline void log_warning(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::Warning, message, fields);
}
inline void log_error(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::Error, message, fields);
}

}  // namespace gnn
