#include "common/api/codec.h"
#include "common/api/enums.h"
#include "common/api/fields.h"
#include "common/api/validation.h"
#include "common/api/yaml.h"
#include "common/contract.h"
#include "tests/support/read_file.h"
#include "tests/support/source_dir.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <set>
#include <sstream>
#include <string>
#include <type_traits>

// Holds the structs of common/api against the CRD, field by field.
namespace gnn::api {
namespace {

using nlohmann::json;

json read_crd() {
  auto documents = parse_yaml(
      gnn::testing::read_file(gnn::testing::source_dir() + "/manifests/crds/gnnjobs.gnn.dev.yaml")
  );
  EXPECT_TRUE(documents) << documents.error().message;
  EXPECT_EQ(documents->size(), 1U);
  return documents->front();
}

json schema_of(const std::string& part) {
  return read_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][part];
}

template <class T>
struct Inner {
  using Type = T;
  static constexpr bool kOptional = false;
};
template <class T>
struct Inner<std::optional<T>> {
  using Type = T;
  static constexpr bool kOptional = true;
};

// Visits a struct made with defaults and compares each field with the schema of its object.
class SchemaChecker {
 public:
  SchemaChecker(const json& schema, std::string path) : schema_(schema), path_(std::move(path)) {}

  template <class T>
  void required(std::string_view name, const T& value, const Bounds& bounds) {
    check(std::string(name), value, bounds, true);
  }

  template <class T>
  void field(std::string_view name, const T& value, const Bounds& bounds) {
    check(std::string(name), value, bounds, false);
  }

  void added(std::string_view name, bool value, const Bounds& bounds) {
    EXPECT_FALSE(value) << path_ << "." << name << " is left out while it is off";
    check(std::string(name), value, bounds, false);
  }

  // After the visit: the schema must have nothing that the struct lacks.
  void finish() const {
    const json properties = schema_.value("properties", json::object());
    for (const auto& [name, schema] : properties.items()) {
      EXPECT_TRUE(seen_.contains(name)) << path_ << "." << name << " is in the CRD alone";
    }
  }

 private:
  template <class T>
  void check(const std::string& name, const T& value, const Bounds& bounds, bool required) {
    seen_.insert(name);
    const std::string path = path_ + "." + name;
    SCOPED_TRACE(path);
    ASSERT_TRUE(schema_.contains("properties") && schema_["properties"].contains(name))
        << "is in the structs alone";
    const json& property = schema_["properties"][name];
    const json listed = schema_.value("required", json::array());
    const bool in_crd = std::find(listed.begin(), listed.end(), name) != listed.end();
    // Pods exist in clusters only: a manifest for `gnn-worker run` needs no workers and no
    // template.
    const bool cluster_only = path == "spec.workers" || path == "spec.workers.template" ||
                              path == "spec.servers.template";
    EXPECT_EQ(in_crd, required || cluster_only);
    EXPECT_FALSE(property.value("description", "").empty());
    using Value = typename Inner<T>::Type;
    if constexpr (Inner<T>::kOptional) {
      EXPECT_FALSE(property.contains("default")) << "absence has a meaning";
      check_type(Value{}, property, bounds, path);
    } else {
      check_type(value, property, bounds, path);
      check_default(value, property, in_crd);
    }
  }

  template <class T>
  void check_default(const T& value, const json& property, bool required) {
    const bool is_spec = path_.starts_with("spec");
    if constexpr (std::same_as<T, std::string>) {
      EXPECT_EQ(property.value("default", json()), value.empty() ? json() : json(value));
    } else if constexpr (requires { value.empty(); }) {
      EXPECT_FALSE(property.contains("default"));
    } else if constexpr (requires(SchemaChecker& v) { visit(v, value); }) {
      // Without `default: {}` the API server would not fill the defaults inside an absent object.
      const bool has_defaults_inside =
          property.value("properties", json::object()).dump().find("\"default\"") !=
          std::string::npos;
      if (is_spec && !required && has_defaults_inside) {
        EXPECT_EQ(property.value("default", json()), json::object());
      }
    } else if (is_spec && !required && path_.find("[]") == std::string::npos) {
      const json wanted = default_of(value);
      EXPECT_EQ(property.value("default", json()), wanted);
    } else {
      EXPECT_FALSE(property.contains("default"));
    }
  }

  template <class T>
  static json default_of(const T& value) {
    if constexpr (ApiEnum<T>) {
      return std::string(to_string(value));
    } else if constexpr (std::same_as<T, Decimal>) {
      return value.text;
    } else if constexpr (std::same_as<T, TimePoint>) {
      return {};
    } else {
      return value;
    }
  }

  template <class T>
  void check_type(
      const T& value, const json& property, const Bounds& bounds, const std::string& path
  ) {
    if constexpr (std::same_as<T, bool>) {
      EXPECT_EQ(property["type"], "boolean");
    } else if constexpr (std::same_as<T, int64_t>) {
      check_integer(property, bounds);
    } else if constexpr (std::same_as<T, TimePoint>) {
      EXPECT_EQ(property["type"], "string");
      EXPECT_EQ(property["format"], "date-time");
    } else if constexpr (std::same_as<T, Decimal>) {
      check_decimal(property, bounds);
    } else if constexpr (std::same_as<T, std::string>) {
      EXPECT_EQ(property["type"], "string");
      check_text(property, bounds);
    } else if constexpr (ApiEnum<T>) {
      json words = json::array();
      for (const auto& [each, word] : EnumTable<T>::kWords) words.push_back(std::string(word));
      EXPECT_EQ(property["enum"], words);
    } else if constexpr (std::same_as<T, std::map<std::string, std::string>>) {
      EXPECT_EQ(property["type"], "object");
      EXPECT_EQ(property["maxProperties"], bounds.max_items);
      check_text(property["additionalProperties"], bounds);
    } else if constexpr (requires { typename T::value_type; }) {
      check_list<typename T::value_type>(property, bounds, path);
    } else {
      EXPECT_EQ(property["type"], "object");
      SchemaChecker inside(property, path);
      visit(inside, value);
      inside.finish();
    }
  }

  template <class Item>
  void check_list(const json& property, const Bounds& bounds, const std::string& path) {
    EXPECT_EQ(property["type"], "array");
    EXPECT_EQ(property["maxItems"], bounds.max_items);
    EXPECT_EQ(property.value("minItems", 0), bounds.min_items);
    EXPECT_TRUE(property.contains("x-kubernetes-list-type"));
    EXPECT_FALSE(property["items"].value("description", "").empty());
    check_type(Item{}, property["items"], bounds, path + "[]");
  }

  static void check_integer(const json& property, const Bounds& bounds) {
    EXPECT_EQ(property["type"], "integer");
    EXPECT_EQ(property["format"], "int64");
    EXPECT_EQ(property.contains("minimum"), bounds.min.has_value());
    EXPECT_EQ(property.contains("maximum"), bounds.max.has_value());
    if (bounds.min) {
      EXPECT_EQ(property["minimum"], *bounds.min);
    }
    if (bounds.max) {
      EXPECT_EQ(property["maximum"], *bounds.max);
    }
  }

  // Words that Kubernetes defines are an enum in the CRD and plain text in the structs.
  static void check_text(const json& property, const Bounds& bounds) {
    if (property.contains("enum")) return;
    EXPECT_EQ(property.value("minLength", 0), bounds.min_length);
    EXPECT_EQ(property.value("maxLength", 0), bounds.max_length);
    EXPECT_EQ(property.value("pattern", ""), pattern(bounds.form));
  }

  static std::string decimal_text(double value) {
    std::ostringstream text;
    text << value << (value == static_cast<double>(static_cast<int64_t>(value)) ? ".0" : "");
    return text.str();
  }

  static void check_decimal(const json& property, const Bounds& bounds) {
    EXPECT_EQ(property["type"], "string");
    EXPECT_EQ(property["maxLength"], 32);
    EXPECT_EQ(property["pattern"], R"(^[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$)");
    const std::string rule = std::string("double(self) ") + (bounds.above_min ? "> " : ">= ") +
                             decimal_text(bounds.min_decimal) + " && double(self) " +
                             (bounds.below_max ? "< " : "<= ") + decimal_text(bounds.max_decimal);
    ASSERT_TRUE(property.contains("x-kubernetes-validations"));
    EXPECT_EQ(property["x-kubernetes-validations"][0]["rule"], rule);
  }

  const json& schema_;
  std::string path_;
  std::set<std::string> seen_;
};

TEST(Crd, HasTheFieldsEnumsBoundsAndDefaultsOfTheStructs) {
  const json spec = schema_of("spec");
  SchemaChecker spec_checker(spec, "spec");
  const GnnJobSpec default_spec;
  visit(spec_checker, default_spec);
  spec_checker.finish();
  const json status = schema_of("status");
  SchemaChecker status_checker(status, "status");
  const GnnJobStatus empty_status;
  visit(status_checker, empty_status);
  status_checker.finish();
}

TEST(Crd, NamesAreThoseOfTheContract) {
  const json crd = read_crd();
  EXPECT_EQ(crd["spec"]["group"], contract::kApiGroup);
  EXPECT_EQ(crd["spec"]["names"]["kind"], contract::kKind);
  EXPECT_EQ(crd["spec"]["names"]["plural"], contract::kPlural);
  EXPECT_EQ(crd["spec"]["versions"][0]["name"], contract::kApiVersion);
  EXPECT_EQ(crd["spec"]["scope"], "Namespaced");
  EXPECT_TRUE(crd["spec"]["versions"][0]["subresources"].contains("status"));
}

void collect_rules(const json& schema, std::vector<json>& rules) {
  if (schema.is_array()) {
    for (const json& element : schema) collect_rules(element, rules);
  }
  if (!schema.is_object()) return;
  for (const auto& [name, value] : schema.items()) {
    if (name == "x-kubernetes-validations") {
      rules.insert(rules.end(), value.begin(), value.end());
    } else {
      collect_rules(value, rules);
    }
  }
}

TEST(Crd, EveryRuleHasAMessage) {
  std::vector<json> rules;
  collect_rules(read_crd(), rules);
  EXPECT_GT(rules.size(), 40U);
  for (const json& rule : rules) EXPECT_FALSE(rule.value("message", "").empty()) << rule;
}

void find_defaults(
    const json& schema, const std::string& path, bool in_list, std::vector<std::string>& found
) {
  if (in_list && schema.contains("default")) found.push_back(path);
  const json fields = schema.value("properties", json::object());
  for (const auto& [name, field] : fields.items()) {
    find_defaults(field, path + "." + name, in_list, found);
  }
  if (schema.contains("items")) find_defaults(schema["items"], path + "[]", true, found);
}

// Tools that compare what they applied with what is stored, such as Argo CD, know a list by its whole
// content: with a default in it the two would differ for ever.
TEST(Crd, ElementsOfListsHaveNoDefaults) {
  std::vector<std::string> found;
  for (const char* part : {"spec", "status"}) find_defaults(schema_of(part), part, false, found);
  EXPECT_EQ(found, std::vector<std::string>{});
}

// The CRD names reserved variables in CEL, the contract in a list.
TEST(Crd, ReservesTheContractsEnvironment) {
  const json item = schema_of("spec")["properties"]["workers"]["properties"]["template"]
                                     ["properties"]["env"]["items"]["properties"]["name"];
  const std::string rule = item["x-kubernetes-validations"][0]["rule"];
  for (const std::string_view name : contract::kReservedEnv) {
    const bool named = rule.find("'" + std::string(name) + "'") != std::string::npos;
    EXPECT_TRUE(named || name.starts_with("GNN_")) << name;
    EXPECT_TRUE(is_reserved_env(name));
  }
  EXPECT_FALSE(is_reserved_env("NCCL_DEBUG"));
}

}  // namespace
}  // namespace gnn::api
