#include "worker/report/page.h"

#include "worker/report/assets.h"
#include "worker/report/record_json.h"

#include <nlohmann/json.hpp>
#include <openssl/evp.h>

#include <array>

namespace gnn::report {
namespace {

// "'sha256-…'", as a content security policy names a source.
std::string source_hash(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr);
  std::array<unsigned char, EVP_MAX_MD_SIZE * 2> base64{};
  EVP_EncodeBlock(base64.data(), digest.data(), static_cast<int>(size));
  return "'sha256-" + std::string(reinterpret_cast<const char*>(base64.data())) + "'";
}

std::string policy() {
  return "default-src 'none'; script-src " + source_hash(kPageScript) + "; style-src " +
         source_hash(kPageStyle) + "; base-uri 'none'; form-action 'none'";
}

// What stands for "{{name}}" in the template.
std::string value_of(std::string_view name, const RunRecord& record) {
  if (name == "policy") return policy();
  if (name == "style") return std::string(kPageStyle);
  if (name == "script") return std::string(kPageScript);
  return escape_for_script(to_json(record).dump());
}

}  // namespace

std::string escape_for_script(std::string_view json) {
  constexpr std::string_view kLineSeparator = "\u2028";
  constexpr std::string_view kParagraphSeparator = "\u2029";
  std::string escaped;
  escaped.reserve(json.size());
  for (size_t i = 0; i < json.size(); ++i) {
    const std::string_view rest = json.substr(i);
    if (rest.front() == '<') {
      escaped += "\\u003c";
    } else if (rest.starts_with(kLineSeparator) || rest.starts_with(kParagraphSeparator)) {
      escaped += rest.starts_with(kLineSeparator) ? "\\u2028" : "\\u2029";
      i += kLineSeparator.size() - 1;
    } else {
      escaped += rest.front();
    }
  }
  return escaped;
}

std::string page_of(const RunRecord& record) {
  std::string page;
  std::string_view rest = kPageTemplate;
  for (size_t open = rest.find("{{"); open != std::string_view::npos; open = rest.find("{{")) {
    const size_t close = rest.find("}}", open);
    page += rest.substr(0, open);
    page += value_of(rest.substr(open + 2, close - open - 2), record);
    rest.remove_prefix(close + 2);
  }
  return page + std::string(rest);
}

}  // namespace gnn::report
