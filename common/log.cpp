#include "common/log.h"

#include "common/guarded.h"

#include <nlohmann/json.hpp>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>

namespace gnn {
namespace {

struct LogState {
  std::shared_ptr<spdlog::logger> logger;
  std::atomic<LogFormat> format{LogFormat::Console};
  std::atomic<LogLevel> level{LogLevel::Warning};
  Guarded<ScopedLogOutput::Output> output;  // instead of the logger, if set
};

LogState& state() {
  // Leaked on purpose: other threads may still log while static objects are destroyed.
  static auto* const kState = [] {
    auto* made = new LogState;  // NOLINT(cppcoreguidelines-owning-memory): see above.
    made->logger =
        std::make_shared<spdlog::logger>("gnn", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->logger->set_pattern("%v");
    made->logger->set_level(spdlog::level::trace);
    made->logger->flush_on(spdlog::level::trace);
    return made;
  }();
  return *kState;
}

std::string timestamp_now() {
  using std::chrono::system_clock;
  const auto now = system_clock::now();
  const std::time_t seconds = system_clock::to_time_t(now);
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 40> text{};
  const auto length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::string result(text.data(), length);
  std::string digits = std::to_string(1000 + millis);
  return result + "." + digits.substr(1) + "Z";
}

std::string_view name_of(LogLevel level) {
  switch (level) {
    case LogLevel::Debug:
      return "debug";
    case LogLevel::Info:
      return "info";
    case LogLevel::Warning:
      return "warning";
    case LogLevel::Error:
      return "error";
  }
  return "error";
}

nlohmann::ordered_json to_json(const LogField::Value& value) {
  return std::visit([](const auto& held) { return nlohmann::ordered_json(held); }, value);
}

// Invalid UTF-8 (a pod's message, say) becomes U+FFFD instead of an exception.
std::string dump(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

// U+0080 to U+009F: control characters, which terminals obey.
bool starts_with_high_control(std::string_view text) {
  if (text.size() < 2 || text[0] != '\xc2') return false;
  const auto second = static_cast<unsigned char>(text[1]);
  return second >= 0x80 && second <= 0x9f;
}

// Text of a file or a peer must neither look like more lines nor control the terminal.
void append_escaped(std::string& line, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  for (size_t i = 0; i < text.size(); ++i) {
    auto byte = static_cast<unsigned char>(text[i]);
    if (starts_with_high_control(text.substr(i))) {
      byte = static_cast<unsigned char>(text[++i]);
    } else if (byte >= 0x20 && byte != 0x7f) {
      line += text[i];
      continue;
    }
    if (byte == '\n') {
      line += "\\n";
    } else if (byte == '\t') {
      line += "\\t";
    } else {
      line += "\\x";
      line += kHex[byte >> 4U];
      line += kHex[byte & 0xfU];
    }
  }
}

}  // namespace

void init_logging(const LogOptions& options) {
  state().format = options.format;
  state().level = options.level;
}

ScopedLogOutput::ScopedLogOutput(Output output)
    : before_(std::exchange(*state().output.lock(), std::move(output))) {}

ScopedLogOutput::~ScopedLogOutput() {
  *state().output.lock() = std::move(before_);
}

Result<LogFormat> parse_log_format(std::string_view text) {
  if (text == "console") return LogFormat::Console;
  if (text == "json") return LogFormat::Json;
  return fail(
      ErrorKind::Configuration,
      "log format: expected 'console' or 'json', found '" + std::string(text) + "'"
  );
}

Result<LogLevel> parse_log_level(std::string_view text) {
  for (const LogLevel level :
       {LogLevel::Debug, LogLevel::Info, LogLevel::Warning, LogLevel::Error}) {
    if (text == name_of(level)) return level;
  }
  return fail(
      ErrorKind::Configuration,
      "log level: expected debug, info, warning or error, found '" + std::string(text) + "'"
  );
}

std::string format_log_line(
    LogFormat format,
    LogLevel level,
    std::string_view timestamp,
    std::string_view message,
    std::initializer_list<LogField> fields
) {
  if (format == LogFormat::Json) {
    nlohmann::ordered_json line;
    line["time"] = timestamp;
    line["level"] = name_of(level);
    line["message"] = message;
    for (const LogField& field : fields) line[std::string(field.key)] = to_json(field.value);
    return dump(line);
  }
  std::string line(timestamp);
  line += ' ';
  line += name_of(level);
  line.resize(timestamp.size() + 1 + 8, ' ');
  append_escaped(line, message);
  for (const LogField& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    append_escaped(line, dump(to_json(field.value)));
  }
  return line;
}

bool log_enabled(LogLevel level) {
  return level >= state().level.load();
}

void log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  if (!log_enabled(level)) return;
  const std::string line =
      format_log_line(state().format.load(), level, timestamp_now(), message, fields);
  if (const auto output = state().output.lock(); *output) return (*output)(line);
  state().logger->log(spdlog::level::info, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace gnn
