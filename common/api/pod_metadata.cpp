#include "common/api/pod_metadata.h"

#include "common/contract.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace gnn::api {
namespace {

constexpr size_t kMaxNameLength = 63;
constexpr size_t kMaxPrefixLength = 253;
constexpr std::array kReservedLabels = {
    contract::kLabelAppName,
    contract::kLabelAppInstance,
    contract::kLabelAppComponent,
    contract::kLabelAppManagedBy,
};

constexpr std::string_view kLowerCase = "abcdefghijklmnopqrstuvwxyz0123456789";
constexpr std::string_view kAlphanumeric =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

// Whether it has only these characters, and at both ends one of the alphanumeric ones.
bool is_made_of(std::string_view text, std::string_view alphanumeric, std::string_view marks) {
  if (text.empty()) return false;
  const auto is_in = [](std::string_view set, char c) { return set.find(c) != set.npos; };
  return is_in(alphanumeric, text.front()) && is_in(alphanumeric, text.back()) &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return is_in(alphanumeric, c) || is_in(marks, c);
         });
}

// An RFC 1123 subdomain.
bool is_prefix(std::string_view text) {
  if (text.size() > kMaxPrefixLength) return false;
  while (true) {
    const size_t dot = text.find('.');
    if (!is_made_of(text.substr(0, dot), kLowerCase, "-")) return false;
    if (dot == text.npos) return true;
    text.remove_prefix(dot + 1);
  }
}

bool is_own_prefix(std::string_view prefix) {
  return prefix == contract::kApiGroup || prefix.ends_with("." + std::string(contract::kApiGroup));
}

std::string_view without_spaces(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

void find_refused(
    const std::map<std::string, std::string>& entries,
    const std::string& path,
    const AllowedKeys& allowed,
    std::string& problems
) {
  for (const auto& [key, value] : entries) {
    if (allowed.contains(key)) continue;
    if (!problems.empty()) problems += "; ";
    problems.append(path).append("[\"").append(key).append(
        "\"]: is not among the keys that jobs may put on their pods; an administrator allows it by "
        "the chart's value jobs.podMetadata.allowedKeys"
    );
  }
}

}  // namespace

bool is_qualified_key(std::string_view key) {
  const size_t slash = key.find('/');
  if (slash != key.npos && !is_prefix(key.substr(0, slash))) return false;
  const std::string_view name = slash == key.npos ? key : key.substr(slash + 1);
  return name.size() <= kMaxNameLength && is_made_of(name, kAlphanumeric, "-_.");
}

bool is_reserved_key(std::string_view key) {
  const size_t slash = key.find('/');
  return (slash != key.npos && is_own_prefix(key.substr(0, slash))) ||
         std::find(kReservedLabels.begin(), kReservedLabels.end(), key) != kReservedLabels.end();
}

AllowedKeys::AllowedKeys() : AllowedKeys(*parse(kDefaultAllowedKeys)) {}

Result<AllowedKeys> AllowedKeys::parse(std::string_view list) {
  std::set<std::string, std::less<>> keys;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    const std::string_view entry = without_spaces(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
    const bool whole_prefix = entry.ends_with("/*");
    const std::string_view key = whole_prefix ? entry.substr(0, entry.size() - 1) : entry;
    // A name that is not reserved, so that of a reserved prefix alone is refused.
    const std::string sample = std::string(key) + (whole_prefix ? "x" : "");
    if (!is_qualified_key(sample)) {
      return fail(
          ErrorKind::Configuration,
          "\"" + std::string(entry) +
              "\" is no key of a label or an annotation, such as example.com/team or example.com/*"
      );
    }
    if (is_reserved_key(sample)) {
      return fail(
          ErrorKind::Configuration,
          "\"" + std::string(entry) + "\" is the operator's own: jobs may never set it"
      );
    }
    keys.emplace(key);
  }
  return AllowedKeys(std::move(keys));
}

bool AllowedKeys::contains(std::string_view key) const {
  if (is_reserved_key(key)) return false;
  const size_t slash = key.find('/');
  return keys_.contains(key) || (slash != key.npos && keys_.contains(key.substr(0, slash + 1)));
}

Status check_pod_metadata(const GnnJobSpec& spec, const AllowedKeys& allowed) {
  std::string problems;
  const auto check = [&](const std::optional<PodTemplate>& chosen, const std::string& path) {
    if (!chosen || !chosen->metadata) return;
    find_refused(chosen->metadata->labels, path + ".metadata.labels", allowed, problems);
    find_refused(chosen->metadata->annotations, path + ".metadata.annotations", allowed, problems);
  };
  check(spec.workers.pod_template, "spec.workers.template");
  if (spec.servers) check(spec.servers->pod_template, "spec.servers.template");
  if (problems.empty()) return {};
  return fail(ErrorKind::Configuration, std::move(problems));
}

}  // namespace gnn::api
