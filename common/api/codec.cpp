#include "common/api/codec.h"

#include "common/api/enums.h"
#include "common/api/fields.h"
#include "common/api/yaml.h"
#include "common/contract.h"
#include "common/rfc3339.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace gnn::api {
namespace {

using nlohmann::json;

template <class T>
struct OptionalOf : std::false_type {};
template <class T>
struct OptionalOf<std::optional<T>> : std::true_type {};

// A user's value, made safe and short enough for a message.
std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  constexpr size_t kLongest = 60;
  if (text.size() > kLongest) {
    text.resize(kLongest);
    text += "…";
  }
  return text;
}

tl::unexpected<Error> wrong(const std::string& path, std::string_view expected, const json& found) {
  return fail(
      ErrorKind::Configuration,
      path + ": expected " + std::string(expected) + ", found " + shown(found)
  );
}

template <class E>
std::string words_of() {
  std::string words = "one of";
  for (const auto& [value, word] : EnumTable<E>::kWords) words += " " + std::string(word);
  return words;
}

// ---- decoding

// Fields that this version does not have, at their places in the document: what it knows is left out,
// but for the identities of structs. null: none.
using Rest = json;

// How a document is read, and what was found in it.
struct Reading {
  UnknownFields unknown;
  bool keeps_rest = false;
  std::vector<UnknownWord> words = {};  // only with UnknownFields::Ignore
  Rest rest = {};                       // of the value that was read last
};

// The fields that tell a struct from others in its place: in a list, or of an earlier time. Unknown
// fields go with them.
template <class T>
constexpr std::array<std::string_view, 0> kIdentity{};
template <>
constexpr std::array<std::string_view, 1> kIdentity<Condition>{"type"};
template <>
constexpr std::array<std::string_view, 3> kIdentity<FailureRecord>{"attempt", "node", "time"};
template <>
constexpr std::array<std::string_view, 3> kIdentity<LastFailure>{"attempt", "node", "time"};
template <>
constexpr std::array<std::string_view, 1> kIdentity<MachineRestarts>{"name"};
template <>
constexpr std::array<std::string_view, 1> kIdentity<ServerRecord>{"server"};

template <class T>
bool same_identity(const json& a, const json& b) {
  return std::all_of(kIdentity<T>.begin(), kIdentity<T>.end(), [&](std::string_view name) {
    const auto left = a.find(name);
    const auto right = b.find(name);
    if (left == a.end() || right == b.end()) return (left == a.end()) == (right == b.end());
    return *left == *right;
  });
}

template <class T>
Status decode_value(const json& value, const std::string& path, Reading& reading, T& out);

Status decode_map(
    const json& value,
    const std::string& path,
    TextForm form,
    std::map<std::string, std::string>& out
);

// Visits a struct's fields and fills them from one JSON object; stops at the first error.
class ObjectDecoder {
 public:
  ObjectDecoder(const json& object, const std::string& path, Reading& reading)
      : object_(object), path_(path), reading_(reading) {}

  template <class T>
  void required(std::string_view name, T& out, const Bounds& bounds) {
    if (!take(name, out, bounds) && status_) {
      status_ = fail(ErrorKind::Configuration, child(name) + ": required field is missing");
    }
  }

  template <class T>
  void field(std::string_view name, T& out, const Bounds& bounds) {
    take(name, out, bounds);
  }

  void added(std::string_view name, bool& out, const Bounds& bounds) { take(name, out, bounds); }

  // Fields that the struct or one below it does not have, with the identity of a T.
  template <class T>
  Rest take_rest() {
    for (const auto& [name, value] : object_.items()) {
      if (!knows(name)) rest_[name] = value;
    }
    if (rest_.is_null()) return rest_;
    for (const std::string_view name : kIdentity<T>) {
      const auto found = object_.find(name);
      if (found != object_.end()) rest_[std::string(name)] = *found;
    }
    return std::move(rest_);
  }

  // The first error, unknown fields included.
  Status finish() {
    if (!status_ || reading_.unknown == UnknownFields::Ignore) return status_;
    for (const auto& [name, value] : object_.items()) {
      if (knows(name)) continue;
      std::string expected;
      for (const std::string_view known : known_) expected.append(" ").append(known);
      return fail(
          ErrorKind::Configuration,
          path_ + ": unknown field " + shown(json(name)) + "; expected one of:" + expected
      );
    }
    return {};
  }

 private:
  bool knows(std::string_view name) const {
    return std::find(known_.begin(), known_.end(), name) != known_.end();
  }

  std::string child(std::string_view name) const {
    return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
  }

  // Whether the field is there; as everywhere in Kubernetes, null counts as absent.
  template <class T>
  bool take(std::string_view name, T& out, const Bounds& bounds) {
    known_.push_back(name);
    if (!status_) return true;
    const auto found = object_.find(name);
    if (found == object_.end() || found->is_null()) return false;
    if constexpr (std::same_as<T, std::map<std::string, std::string>>) {
      status_ = decode_map(*found, child(name), bounds.form, out);
    } else {
      status_ = decode_value(*found, child(name), reading_, out);
    }
    if (!reading_.rest.is_null()) {
      rest_[std::string(name)] = std::exchange(reading_.rest, nullptr);
    }
    return true;
  }

  const json& object_;
  const std::string& path_;
  Reading& reading_;
  std::vector<std::string_view> known_;
  Rest rest_;
  Status status_;
};

Status decode_scalar(const json& value, const std::string& path, bool& out) {
  if (!value.is_boolean()) return wrong(path, "true or false", value);
  out = value.get<bool>();
  return {};
}

Status decode_scalar(const json& value, const std::string& path, int64_t& out) {
  const bool fits =
      value.is_number_integer() &&
      (!value.is_number_unsigned() ||
       value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  if (!fits) return wrong(path, "an integer", value);
  out = value.get<int64_t>();
  return {};
}

Status decode_scalar(const json& value, const std::string& path, std::string& out) {
  if (!value.is_string()) return wrong(path, "a string", value);
  out = value.get<std::string>();
  return {};
}

Status decode_scalar(const json& value, const std::string& path, Decimal& out) {
  if (!value.is_string()) {
    return wrong(path, "a decimal number in quotes, such as \"0.01\"", value);
  }
  out.text = value.get<std::string>();
  if (std::isnan(out.value())) {
    return wrong(path, "a decimal number in quotes, such as \"0.01\" or \"5e-4\"", value);
  }
  return {};
}

Status decode_scalar(const json& value, const std::string& path, TimePoint& out) {
  const auto time =
      value.is_string() ? parse_stored_rfc3339(value.get<std::string>()) : std::nullopt;
  if (!time) return wrong(path, "a time such as \"2026-01-31T12:00:00Z\"", value);
  out = *time;
  return {};
}

// Keys are data here, not field names. Quantities may be bare integers, as in Kubernetes.
Status decode_map(
    const json& value,
    const std::string& path,
    TextForm form,
    std::map<std::string, std::string>& out
) {
  if (!value.is_object()) return wrong(path, "an object", value);
  out.clear();
  for (const auto& [key, element] : value.items()) {
    if (element.is_number_integer() && form == TextForm::Quantity) {
      out[key] = element.dump();
    } else if (element.is_string()) {
      out[key] = element.get<std::string>();
    } else {
      return wrong(path + "[" + shown(json(key)) + "]", "a string", element);
    }
  }
  return {};
}

// The enum keeps its value for a word that is reported.
template <ApiEnum E>
Status decode_enum(const json& value, const std::string& path, Reading& reading, E& out) {
  const auto found = value.is_string() ? from_word<E>(value.get<std::string>()) : std::nullopt;
  if (found) {
    out = *found;
    return {};
  }
  if (!value.is_string() || reading.unknown == UnknownFields::Reject) {
    return wrong(path, words_of<E>(), value);
  }
  reading.words.push_back({.path = path, .word = shown(value)});
  return {};
}

template <class T>
Status decode_list(
    const json& value, const std::string& path, Reading& reading, std::vector<T>& out
) {
  if (!value.is_array()) return wrong(path, "a list", value);
  out.clear();
  out.reserve(value.size());
  Rest rest;
  for (size_t i = 0; i < value.size(); ++i) {
    T element{};
    const std::string element_path = path + "[" + std::to_string(i) + "]";
    const size_t unknown_words = reading.words.size();
    GNN_RETURN_IF_ERROR(decode_value(value[i], element_path, reading, element));
    if (!reading.rest.is_null()) rest.push_back(std::exchange(reading.rest, nullptr));
    // An enum's default would be another word than the list has.
    if (ApiEnum<T> && reading.words.size() > unknown_words) continue;
    out.push_back(std::move(element));
  }
  reading.rest = std::move(rest);
  return {};
}

template <class T>
struct VectorOf : std::false_type {};
template <class T>
struct VectorOf<std::vector<T>> : std::true_type {};

template <class T>
concept Scalar =
    std::same_as<T, bool> || std::same_as<T, int64_t> || std::same_as<T, std::string> ||
    std::same_as<T, Decimal> || std::same_as<T, TimePoint>;

template <class T>
Status decode_value(const json& value, const std::string& path, Reading& reading, T& out) {
  if constexpr (OptionalOf<T>::value) {
    out.emplace();
    return decode_value(value, path, reading, *out);
  } else if constexpr (ApiEnum<T>) {
    return decode_enum(value, path, reading, out);
  } else if constexpr (Scalar<T>) {
    return decode_scalar(value, path, out);
  } else if constexpr (VectorOf<T>::value) {
    return decode_list(value, path, reading, out);
  } else {
    if (!value.is_object()) return wrong(path, "an object", value);
    ObjectDecoder decoder(value, path, reading);
    visit(decoder, out);
    if (reading.keeps_rest) reading.rest = decoder.template take_rest<T>();
    return decoder.finish();
  }
}

// Unknown fields are no error: metadata has many that we don't read.
Status decode_metadata(const json& object, JobMetadata& out) {
  const auto found = object.find("metadata");
  if (found == object.end() || !found->is_object()) {
    return fail(ErrorKind::Configuration, "metadata: required object is missing");
  }
  const std::string path = "metadata";
  Reading reading{.unknown = UnknownFields::Ignore};
  ObjectDecoder decoder(*found, path, reading);
  const Bounds any;
  decoder.required("name", out.name, any);
  decoder.field("namespace", out.namespace_, any);
  decoder.field("uid", out.uid, any);
  decoder.field("resourceVersion", out.resource_version, any);
  decoder.field("generation", out.generation, any);
  decoder.field("creationTimestamp", out.creation_timestamp, any);
  decoder.field("deletionTimestamp", out.deletion_timestamp, any);
  decoder.field("finalizers", out.finalizers, any);
  decoder.field("labels", out.labels, any);
  decoder.field("annotations", out.annotations, any);
  return decoder.finish();
}

Status decode_status(const json& value, GnnJobStatus& out) {
  Reading reading{.unknown = UnknownFields::Ignore, .keeps_rest = true};
  GNN_RETURN_IF_ERROR(decode_value(value, "status", reading, out));
  if (!reading.rest.is_null()) {
    out.unknown_fields = reading.rest.dump(-1, ' ', false, json::error_handler_t::replace);
  }
  return {};
}

Status expect_word(const json& object, const char* name, std::string_view wanted) {
  const auto found = object.find(name);
  const json value = found == object.end() ? json() : *found;
  if (value.is_string() && value.get<std::string>() == wanted) return {};
  return wrong(name, wanted, value);
}

// ---- encoding

template <class T>
json encode_value(const T& value, const Rest& rest);

// The rest that belongs to this element of a list, or null.
template <class T>
Rest rest_of(const Rest& rests, const json& element) {
  for (const Rest& rest : rests) {
    if (same_identity<T>(rest, element)) return rest;
  }
  return nullptr;
}

// Visits a struct's fields and writes them; what is absent, an empty list or map or an added flag that
// is off is left out.
class ObjectEncoder {
 public:
  explicit ObjectEncoder(const Rest& rest) : rest_(rest) {}

  template <class T>
  void required(std::string_view name, const T& value, const Bounds&) {
    put(name, value);
  }

  template <class T>
  void field(std::string_view name, const T& value, const Bounds&) {
    known_.push_back(name);
    if constexpr (OptionalOf<T>::value) {
      if (value) put(name, *value);
    } else if constexpr (requires { value.empty(); } && !std::same_as<T, std::string>) {
      if (!value.empty()) put(name, value);
    } else {
      put(name, value);
    }
  }

  void added(std::string_view name, bool value, const Bounds&) {
    known_.push_back(name);
    if (value) put(name, value);
  }

  // With the fields of a newer version.
  template <class T>
  json take() {
    if (rest_.is_null() || !same_identity<T>(rest_, object_)) return std::move(object_);
    for (const auto& [name, value] : rest_.items()) {
      const bool known = std::find(known_.begin(), known_.end(), name) != known_.end();
      if (!known) object_.emplace(name, value);
    }
    return std::move(object_);
  }

 private:
  template <class T>
  void put(std::string_view name, const T& value) {
    static const Rest kNone;
    const auto found = rest_.is_null() ? rest_.end() : rest_.find(name);
    object_[std::string(name)] = encode_value(value, found == rest_.end() ? kNone : *found);
  }

  const Rest& rest_;
  // Only of those that may be left out: the others are in the object.
  std::vector<std::string_view> known_;
  json object_ = json::object();
};

template <class T>
json encode_list(const std::vector<T>& values, const Rest& rests) {
  json list = json::array();
  for (const T& value : values) {
    json element = encode_value(value, nullptr);
    if constexpr (!kIdentity<T>.empty()) {
      const Rest rest = rest_of<T>(rests, element);
      if (!rest.is_null()) element = encode_value(value, rest);
    }
    list.push_back(std::move(element));
  }
  return list;
}

template <class T>
json encode_value(const T& value, const Rest& rest) {
  if constexpr (ApiEnum<T>) {
    return std::string(to_string(value));
  } else if constexpr (std::same_as<T, Decimal>) {
    return value.text;
  } else if constexpr (std::same_as<T, TimePoint>) {
    return format_rfc3339(value);
  } else if constexpr (Scalar<T> || std::same_as<T, std::map<std::string, std::string>>) {
    return value;
  } else if constexpr (VectorOf<T>::value) {
    return encode_list(value, rest);
  } else {
    ObjectEncoder encoder(rest);
    visit(encoder, value);
    return encoder.template take<T>();
  }
}

json encode_metadata(const JobMetadata& metadata) {
  json object = {{"name", metadata.name}};
  if (!metadata.namespace_.empty()) object["namespace"] = metadata.namespace_;
  if (!metadata.uid.empty()) object["uid"] = metadata.uid;
  if (!metadata.resource_version.empty()) object["resourceVersion"] = metadata.resource_version;
  if (metadata.generation != 0) object["generation"] = metadata.generation;
  if (metadata.creation_timestamp) {
    object["creationTimestamp"] = format_rfc3339(*metadata.creation_timestamp);
  }
  if (metadata.deletion_timestamp) {
    object["deletionTimestamp"] = format_rfc3339(*metadata.deletion_timestamp);
  }
  if (!metadata.finalizers.empty()) object["finalizers"] = metadata.finalizers;
  if (!metadata.labels.empty()) object["labels"] = metadata.labels;
  if (!metadata.annotations.empty()) object["annotations"] = metadata.annotations;
  return object;
}

// ---- limits

// Counts depth and values of JSON text before anything is built from it.
Status check_limits(std::string_view text) {
  if (text.size() > kMaxDocumentBytes) {
    return fail(
        ErrorKind::Configuration,
        "document of " + std::to_string(text.size()) + " bytes is larger than the limit of " +
            std::to_string(kMaxDocumentBytes)
    );
  }
  int64_t depth = 0;
  int64_t values = 1;
  bool in_string = false;
  bool escaped = false;
  for (const char c : text) {
    if (in_string) {
      in_string = escaped || c != '"';
      escaped = !escaped && c == '\\';
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c == '{' || c == '[' || c == ',') ++values;
    if (depth > kMaxDocumentDepth || values > kMaxDocumentValues) {
      return fail(
          ErrorKind::Configuration,
          "document is deeper than " + std::to_string(kMaxDocumentDepth) +
              " levels or has more than " + std::to_string(kMaxDocumentValues) + " values"
      );
    }
  }
  return {};
}

}  // namespace

double Decimal::value() const {
  // Digits, fraction, exponent; no sign, no hexadecimal, no locale.
  constexpr double kInvalid = std::numeric_limits<double>::quiet_NaN();
  if (text.empty() || text.size() > 32) return kInvalid;
  size_t at = 0;
  const auto digits = [&] {
    const size_t start = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at > start;
  };
  if (!digits()) return kInvalid;
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (!digits()) return kInvalid;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (!digits()) return kInvalid;
  }
  if (at != text.size()) return kInvalid;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) {
    // Too small a number becomes zero; too large a one is invalid.
    return text.find('-') != std::string::npos ? 0.0 : kInvalid;
  }
  return error == std::errc() ? value : kInvalid;
}

namespace {

// Of a text of the form ByteSize.
int64_t bytes_of(std::string_view text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number << (text.ends_with("Gi") ? 30U : 20U);
}

}  // namespace

int64_t Servers::bytes_in_flight() const {
  return bytes_of(max_bytes_in_flight);
}

std::optional<int64_t> Sampling::channel_bytes() const {
  if (!channel_size) return std::nullopt;
  return bytes_of(*channel_size);
}

Result<json> parse_json(std::string_view text) {
  GNN_RETURN_IF_ERROR(check_limits(text));
  try {
    return json::parse(text);
  } catch (const json::exception& error) {
    return fail(ErrorKind::Configuration, std::string("not JSON: ") + error.what());
  }
}

Result<GnnJob> decode_job(const json& object, UnknownFields unknown) {
  if (!object.is_object()) return wrong("document", "an object", object);
  GNN_RETURN_IF_ERROR(expect_word(object, "apiVersion", contract::kApiGroupVersion));
  GNN_RETURN_IF_ERROR(expect_word(object, "kind", contract::kKind));
  GnnJob job;
  GNN_RETURN_IF_ERROR(decode_metadata(object, job.metadata));
  const auto spec = object.find("spec");
  if (spec == object.end()) {
    return fail(ErrorKind::Configuration, "spec: required field is missing");
  }
  Reading reading{.unknown = unknown};
  GNN_RETURN_IF_ERROR(decode_value(*spec, "spec", reading, job.spec));
  job.unknown_words = std::move(reading.words);
  const auto status = object.find("status");
  if (status != object.end() && !status->is_null()) {
    GNN_RETURN_IF_ERROR(decode_status(*status, job.status));
  }
  if (unknown == UnknownFields::Reject) {
    for (const auto& [name, value] : object.items()) {
      if (name != "apiVersion" && name != "kind" && name != "metadata" && name != "spec" &&
          name != "status") {
        return fail(ErrorKind::Configuration, "unknown field " + shown(json(name)));
      }
    }
  }
  return job;
}

Result<GnnJob> parse_job_yaml(std::string_view text, UnknownFields unknown) {
  GNN_ASSIGN_OR_RETURN(std::vector<json> documents, parse_yaml(text));
  std::vector<json> jobs;
  for (json& document : documents) {
    if (documents.size() > 1 &&
        (!document.is_object() || document.value("kind", json()) != contract::kKind)) {
      continue;
    }
    jobs.push_back(std::move(document));
  }
  if (jobs.size() != 1) {
    return fail(
        ErrorKind::Configuration,
        "expected one GNNJob in the document, found " + std::to_string(jobs.size())
    );
  }
  return decode_job(jobs.front(), unknown);
}

json encode(const GnnJobSpec& spec) {
  return encode_value(spec, nullptr);
}

json encode(const GnnJobStatus& status) {
  return encode_value(
      status, status.unknown_fields.empty() ? Rest() : Rest::parse(status.unknown_fields)
  );
}

json encode(const Resources& resources) {
  return encode_value(resources, nullptr);
}

json encode(const Affinity& affinity) {
  return encode_value(affinity, nullptr);
}

json encode(const Toleration& toleration) {
  return encode_value(toleration, nullptr);
}

json encode(const EnvVar& variable) {
  return encode_value(variable, nullptr);
}

json encode(const Volume& volume) {
  return encode_value(volume, nullptr);
}

json encode(const VolumeMount& mount) {
  return encode_value(mount, nullptr);
}

json encode(const GnnJob& job) {
  json object = {
      {"apiVersion", std::string(contract::kApiGroupVersion)},
      {"kind", std::string(contract::kKind)},
      {"metadata", encode_metadata(job.metadata)},
      {"spec", encode(job.spec)},
  };
  if (job.status != GnnJobStatus{}) object["status"] = encode(job.status);
  return object;
}

std::string worker_config(const GnnJob& job) {
  GnnJobSpec spec = job.spec;
  spec.scheduling.reset();
  spec.workers.pod_template.reset();
  if (spec.servers) {
    spec.servers->pod_template.reset();
    // It may change while the job runs: workers learn from node 0 who serves them.
    spec.servers->nodes.reset();
  }
  const json object = {
      {"apiVersion", std::string(contract::kApiGroupVersion)},
      {"kind", std::string(contract::kKind)},
      {"metadata", {{"name", job.metadata.name}, {"namespace", job.metadata.namespace_}}},
      {"spec", encode(spec)},
  };
  // JSON is YAML; keys are sorted, so equal jobs give equal bytes.
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace gnn::api
