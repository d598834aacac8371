#include "controller/objects/meta.h"

#include <array>
#include <cstdio>

namespace gnn::objects {
namespace {

/// Reads exactly `digits` digits at `at` and moves on; -1 if they are not there.
int read_digits(std::string_view text, size_t& at, size_t digits) {
  if (at + digits > text.size()) return -1;
  int value = 0;
  for (size_t i = 0; i < digits; ++i) {
    const char c = text[at + i];
    if (c < '0' || c > '9') return -1;
    value = value * 10 + (c - '0');
  }
  at += digits;
  return value;
}

bool read_char(std::string_view text, size_t& at, char wanted) {
  if (at >= text.size() || text[at] != wanted) return false;
  ++at;
  return true;
}

std::string format_seconds(std::chrono::sys_seconds time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  std::array<char, 40> buffer{};
  const int written = std::snprintf(
      buffer.data(),
      buffer.size(),
      "%04d-%02u-%02uT%02d:%02d:%02d",
      static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()),
      static_cast<unsigned>(date.day()),
      static_cast<int>(clock.hours().count()),
      static_cast<int>(clock.minutes().count()),
      static_cast<int>(clock.seconds().count())
  );
  return {buffer.data(), static_cast<size_t>(written)};
}

Result<OwnerReference> decode_owner(const Json& json, const std::string& path) {
  OwnerReference owner;
  ObjectReader reader(json, path);
  reader.read("apiVersion", owner.api_version);
  reader.read("kind", owner.kind);
  reader.read("name", owner.name);
  reader.read("uid", owner.uid);
  reader.read("controller", owner.controller);
  reader.read("blockOwnerDeletion", owner.block_owner_deletion);
  return reader.finish(std::move(owner));
}

Json encode(const OwnerReference& owner) {
  return Json{
      {"apiVersion", owner.api_version},
      {"kind", owner.kind},
      {"name", owner.name},
      {"uid", owner.uid},
      {"controller", owner.controller},
      {"blockOwnerDeletion", owner.block_owner_deletion},
  };
}

}  // namespace

std::string to_string(const ObjectKey& key) {
  return key.namespace_.empty() ? key.name : key.namespace_ + "/" + key.name;
}

const OwnerReference* controller_of(const ObjectMeta& meta) {
  for (const OwnerReference& owner : meta.owner_references) {
    if (owner.controller) return &owner;
  }
  return nullptr;
}

Result<ObjectMeta> decode_meta(const Json& json, const std::string& path) {
  ObjectMeta meta;
  ObjectReader reader(json, path);
  reader.require("name");
  reader.read("name", meta.name);
  reader.read("namespace", meta.namespace_);
  reader.read("uid", meta.uid);
  reader.read("resourceVersion", meta.resource_version);
  reader.read("generation", meta.generation);
  reader.read_with("creationTimestamp", meta.creation_timestamp, decode_time);
  reader.read_with("deletionTimestamp", meta.deletion_timestamp, decode_time);
  reader.read("deletionGracePeriodSeconds", meta.deletion_grace_period_seconds);
  reader.read("finalizers", meta.finalizers);
  reader.read("labels", meta.labels);
  reader.read("annotations", meta.annotations);
  reader.read_list("ownerReferences", meta.owner_references, decode_owner);
  return reader.finish(std::move(meta));
}

Json encode(const ObjectMeta& meta) {
  Json json = {{"name", meta.name}};
  put_unless_empty(json, "namespace", meta.namespace_);
  put_unless_empty(json, "uid", meta.uid);
  put_unless_empty(json, "resourceVersion", meta.resource_version);
  put_unless_empty(json, "labels", meta.labels);
  put_unless_empty(json, "annotations", meta.annotations);
  put_unless_empty(json, "finalizers", meta.finalizers);
  for (const OwnerReference& owner : meta.owner_references) {
    json["ownerReferences"].push_back(encode(owner));
  }
  return json;
}

Result<TimePoint> parse_time(std::string_view text) {
  const auto refuse = [&] {
    return fail(
        ErrorKind::Data,
        "expected a time such as 2026-01-02T03:04:05Z, found '" + std::string(text.substr(0, 64)) +
            "'"
    );
  };
  size_t at = 0;
  const int year = read_digits(text, at, 4);
  if (year < 0 || !read_char(text, at, '-')) return refuse();
  const int month = read_digits(text, at, 2);
  if (month < 1 || !read_char(text, at, '-')) return refuse();
  const int day = read_digits(text, at, 2);
  if (day < 1 || !(read_char(text, at, 'T') || read_char(text, at, 't'))) return refuse();
  const int hour = read_digits(text, at, 2);
  if (hour < 0 || hour > 23 || !read_char(text, at, ':')) return refuse();
  const int minute = read_digits(text, at, 2);
  if (minute < 0 || minute > 59 || !read_char(text, at, ':')) return refuse();
  const int second = read_digits(text, at, 2);
  if (second < 0 || second > 60) return refuse();

  int64_t nanoseconds = 0;
  if (read_char(text, at, '.')) {
    int64_t unit = 100'000'000;
    const size_t first = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
      nanoseconds += (text[at] - '0') * unit;  // digits beyond the ninth add 0
      unit /= 10;
      ++at;
    }
    if (at == first) return refuse();
  }

  std::chrono::minutes offset{0};
  if (!read_char(text, at, 'Z') && !read_char(text, at, 'z')) {
    if (at >= text.size() || (text[at] != '+' && text[at] != '-')) return refuse();
    const int sign = text[at++] == '-' ? -1 : 1;
    const int hours = read_digits(text, at, 2);
    if (hours < 0 || !read_char(text, at, ':')) return refuse();
    const int minutes = read_digits(text, at, 2);
    if (minutes < 0) return refuse();
    offset = sign * (std::chrono::hours(hours) + std::chrono::minutes(minutes));
  }
  if (at != text.size()) return refuse();

  const std::chrono::year_month_day date{
      std::chrono::year(year),
      std::chrono::month(static_cast<unsigned>(month)),
      std::chrono::day(static_cast<unsigned>(day))
  };
  // Nanoseconds since 1970 in 64 bits end in 1677 and 2262.
  if (!date.ok() || year < 1678 || year > 2261) return refuse();
  return TimePoint(
      std::chrono::sys_days(date) + std::chrono::hours(hour) + std::chrono::minutes(minute) +
      std::chrono::seconds(second) + std::chrono::nanoseconds(nanoseconds) - offset
  );
}

std::string format_time(TimePoint time) {
  return format_seconds(std::chrono::floor<std::chrono::seconds>(time)) + "Z";
}

std::string format_micro_time(TimePoint time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const auto micros = std::chrono::floor<std::chrono::microseconds>(time - seconds).count();
  std::array<char, 16> fraction{};
  std::snprintf(fraction.data(), fraction.size(), ".%06dZ", static_cast<int>(micros));
  return format_seconds(seconds) + fraction.data();
}

Result<std::optional<TimePoint>> decode_time(const Json& json, const std::string& path) {
  if (!json.is_string()) {
    return fail(ErrorKind::Data, path + ": expected a time, found " + json.type_name());
  }
  auto time = parse_time(json.get_ref<const std::string&>());
  if (!time) return tl::unexpected<Error>(with_context(std::move(time).error(), path));
  return std::optional<TimePoint>(*time);
}

}  // namespace gnn::objects
