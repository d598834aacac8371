#include "common/api/pod_rules.h"

#include "common/api/pod_metadata.h"
#include "common/api/quantity.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <regex>
#include <utility>

namespace gnn::api {
namespace {

constexpr std::string_view kHugePages = "hugepages-";
constexpr std::array<std::string_view, 3> kNativeResources = {"cpu", "memory", "ephemeral-storage"};
// From here on, a double has no digit after the point. Kubernetes cuts off at 2^63.
constexpr std::string_view kWholeFrom = "9e15";

bool is_native(std::string_view resource) {
  return std::ranges::find(kNativeResources, resource) != kNativeResources.end();
}

bool is_huge_pages(const std::string& resource) {
  static const std::regex kName("^hugepages-[1-9][0-9]{0,5}(Ki|Mi|Gi)$");
  return std::regex_match(resource, kName);
}

// A device that a plugin advertises. The longest prefix is what Kubernetes leaves beside "requests.".
bool is_extended(std::string_view resource) {
  constexpr size_t kMaxPrefix = 244;
  const size_t slash = resource.find('/');
  return slash != resource.npos && slash <= kMaxPrefix && is_qualified_key(resource) &&
         !resource.starts_with("requests.") && resource.find("kubernetes.io/") == resource.npos;
}

// Of what a pod may ask for less than it may use. What is none of Kubernetes' own is refused by its name.
bool may_differ(std::string_view resource) {
  return resource.find('/') == resource.npos && !resource.starts_with(kHugePages);
}

bool is_whole(const std::string& resource, const Quantity& amount) {
  if (is_huge_pages(resource)) {
    return amount.is_multiple_of(*Quantity::parse(resource.substr(kHugePages.size())));
  }
  return !is_extended(resource) || amount >= *Quantity::parse(kWholeFrom) ||
         amount.is_multiple_of(*Quantity::parse("1"));
}

bool names_are_known(const ResourceList& list) {
  return std::ranges::all_of(list, [](const auto& each) {
    return is_native(each.first) || is_huge_pages(each.first) || is_extended(each.first);
  });
}

bool amounts_are_whole(const ResourceList& list) {
  return std::ranges::all_of(list, [](const auto& each) {
    const auto amount = Quantity::parse(each.second);
    return !amount || is_whole(each.first, *amount);
  });
}

bool has_any(const Resources& resources, bool (*wanted)(const std::string&)) {
  const auto names_one = [&](const ResourceList& list) {
    return std::ranges::any_of(list, [&](const auto& each) { return wanted(each.first); });
  };
  return names_one(resources.requests) || names_one(resources.limits);
}

// Nothing where one of the two is missing or unreadable, which others report.
std::optional<std::strong_ordering> against_limit(
    const Resources& resources, const std::string& name
) {
  const auto limit = resources.limits.find(name);
  if (limit == resources.limits.end()) return std::nullopt;
  const auto requested = Quantity::parse(resources.requests.at(name));
  const auto allowed = Quantity::parse(limit->second);
  if (!requested || !allowed) return std::nullopt;
  return *requested <=> *allowed;
}

class Errors {
 public:
  void require(bool holds, const std::string& path, std::string_view message) {
    if (!holds) errors_.push_back({.path = path, .message = std::string(message)});
  }
  void add(std::vector<FieldError> more) { std::ranges::move(more, std::back_inserter(errors_)); }
  std::vector<FieldError> take() { return std::move(errors_); }

 private:
  std::vector<FieldError> errors_;
};

// The words that the CRD lists of a field that is plain text here. Nothing is said of what is absent.
void check_word(
    const std::optional<std::string>& word,
    std::initializer_list<std::string_view> known,
    const std::string& path,
    Errors& errors
) {
  if (!word || std::ranges::find(known, *word) != known.end()) return;
  std::string message = "must be one of:";
  for (const std::string_view each : known) message.append(" ").append(each);
  errors.require(false, path, message);
}

void check_toleration(const Toleration& toleration, const std::string& path, Errors& errors) {
  check_word(toleration.op, {"Exists", "Equal"}, path + ".operator", errors);
  check_word(
      toleration.effect, {"NoSchedule", "PreferNoSchedule", "NoExecute"}, path + ".effect", errors
  );
  const bool exists = toleration.op == "Exists";
  errors.require(
      exists || toleration.key, path + ".operator", "must be Exists in a toleration without key"
  );
  errors.require(
      !exists || toleration.value.value_or("").empty(),
      path + ".value",
      "must be empty with operator Exists"
  );
  errors.require(
      !toleration.toleration_seconds || toleration.effect == "NoExecute",
      path + ".effect",
      "must be NoExecute with tolerationSeconds"
  );
}

bool is_whole_number(const std::string& text) {
  constexpr size_t kMaxDigits = 18;
  return !text.empty() && text.size() <= kMaxDigits &&
         text.find_first_not_of("0123456789") == std::string::npos;
}

void check_expression(
    const NodeSelectorRequirement& expression, const std::string& path, Errors& errors
) {
  check_word(
      expression.op,
      {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"},
      path + ".operator",
      errors
  );
  const auto is_one_of = [&](std::string_view a, std::string_view b) {
    return expression.op == a || expression.op == b;
  };
  const std::vector<std::string>& values = expression.values;
  errors.require(
      !is_one_of("In", "NotIn") || !values.empty(),
      path + ".values",
      "must not be empty with operator In or NotIn"
  );
  errors.require(
      !is_one_of("Exists", "DoesNotExist") || values.empty(),
      path + ".values",
      "must be empty with operator Exists or DoesNotExist"
  );
  errors.require(
      !is_one_of("Gt", "Lt") || (values.size() == 1 && is_whole_number(values.front())),
      path + ".values",
      "must be one whole number with operator Gt or Lt"
  );
}

void check_term(const NodeSelectorTerm& term, const std::string& path, Errors& errors) {
  for (size_t i = 0; i < term.match_expressions.size(); ++i) {
    check_expression(
        term.match_expressions[i], path + ".matchExpressions[" + std::to_string(i) + "]", errors
    );
  }
}

void check_sources(const PodTemplate& pod, const std::string& path, Errors& errors) {
  for (size_t i = 0; i < pod.env.size(); ++i) {
    if (!pod.env[i].value_from) continue;
    check_word(
        pod.env[i].value_from->field_ref.field_path,
        {"metadata.name",
         "metadata.namespace",
         "metadata.uid",
         "spec.nodeName",
         "status.hostIP",
         "status.podIP"},
        path + ".env[" + std::to_string(i) + "].valueFrom.fieldRef.fieldPath",
        errors
    );
  }
  for (size_t i = 0; i < pod.volumes.size(); ++i) {
    if (!pod.volumes[i].empty_dir) continue;
    check_word(
        pod.volumes[i].empty_dir->medium,
        {"Memory"},
        path + ".volumes[" + std::to_string(i) + "].emptyDir.medium",
        errors
    );
  }
}

void check_affinity(const NodeAffinity& affinity, const std::string& path, Errors& errors) {
  if (affinity.required) {
    const std::string terms =
        path + ".requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[";
    for (size_t i = 0; i < affinity.required->node_selector_terms.size(); ++i) {
      check_term(
          affinity.required->node_selector_terms[i], terms + std::to_string(i) + "]", errors
      );
    }
  }
  const std::string preferred = path + ".preferredDuringSchedulingIgnoredDuringExecution[";
  for (size_t i = 0; i < affinity.preferred.size(); ++i) {
    check_term(
        affinity.preferred[i].preference, preferred + std::to_string(i) + "].preference", errors
    );
  }
}

}  // namespace

// The grammar of github.com/distribution/reference, by which container runtimes read it.
bool is_image_reference(const std::string& text) {
  static const std::regex kReference(
      "^(([A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?([.][A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*|"
      "[[][0-9a-fA-F:]+[\\]])(:[0-9]+)?/)?"
      "[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*"
      "(:[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?"
      "(@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?$"
  );
  return std::regex_match(text, kReference);
}

std::vector<FieldError> resource_errors(const Resources& resources, const std::string& path) {
  Errors errors;
  const auto& [requests, limits] = resources;
  for (const auto& [list, name] : {std::pair(&requests, ".requests"), {&limits, ".limits"}}) {
    errors.require(
        names_are_known(*list),
        path + name,
        "each must be cpu, memory, ephemeral-storage, hugepages-SIZE, or an extended resource with "
        "its domain, such as example.com/nic"
    );
  }
  errors.require(
      amounts_are_whole(limits),
      path + ".limits",
      "extended resources must be whole numbers, and huge pages multiples of the page size"
  );
  errors.require(
      std::ranges::all_of(
          requests,
          [&](const auto& each) {
            return !may_differ(each.first) ||
                   against_limit(resources, each.first).value_or(std::strong_ordering::equal) <= 0;
          }
      ),
      path + ".requests",
      "cpu, memory and ephemeral-storage must be at most their limits"
  );
  errors.require(
      std::ranges::all_of(
          requests,
          [&](const auto& each) {
            return may_differ(each.first) ||
                   against_limit(resources, each.first) == std::strong_ordering::equal;
          }
      ),
      path + ".requests",
      "extended resources and huge pages must have a limit of the same amount"
  );
  errors.require(
      !has_any(resources, is_huge_pages) ||
          has_any(
              resources, [](const std::string& name) { return name == "cpu" || name == "memory"; }
          ),
      path,
      "huge pages require cpu or memory besides"
  );
  return errors.take();
}

std::vector<FieldError> pod_errors(const PodTemplate& pod, const std::string& path) {
  Errors errors;
  errors.require(
      pod.image.empty() || is_image_reference(pod.image),
      path + ".image",
      "must be an image reference without spaces, the repository in lower case, such as "
      "registry.example.com/gnn-worker:0.1.0"
  );
  errors.add(resource_errors(pod.resources, path + ".resources"));
  for (size_t i = 0; i < pod.tolerations.size(); ++i) {
    check_toleration(pod.tolerations[i], path + ".tolerations[" + std::to_string(i) + "]", errors);
  }
  check_sources(pod, path, errors);
  if (pod.affinity && pod.affinity->node_affinity) {
    check_affinity(*pod.affinity->node_affinity, path + ".affinity.nodeAffinity", errors);
  }
  return errors.take();
}

}  // namespace gnn::api
