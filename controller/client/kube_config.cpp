#include "controller/client/kube_config.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

namespace gnn::client {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20U;
constexpr Duration kTokenLifetime = std::chrono::minutes(1);

Result<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(ErrorKind::Io, "cannot open '" + path + "'");
  std::string text(kMaxFileBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) return fail(ErrorKind::Io, "cannot read '" + path + "'");
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > kMaxFileBytes) {
    return fail(ErrorKind::Io, "'" + path + "': expected at most 1 MiB, found more");
  }
  return text;
}

std::string trimmed(std::string text) {
  const size_t last = text.find_last_not_of(" \t\r\n");
  text.resize(last == std::string::npos ? 0 : last + 1);
  return text;
}

int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  if (c == '/') return 63;
  return -1;
}

Result<std::string> decode_base64(std::string_view text, const std::string& what) {
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=' || c == '\n' || c == '\r') continue;
    const int digit = base64_digit(c);
    if (digit < 0) return fail(ErrorKind::Configuration, what + ": expected base64");
    bits = (bits << 6U) | static_cast<uint32_t>(digit);
    if (++count % 4 != 1) {
      const unsigned shift = static_cast<unsigned>(6 - 2 * ((count - 1) % 4));
      bytes.push_back(static_cast<char>((bits >> shift) & 0xffU));
    }
  }
  return bytes;
}

// The entry of a kubeconfig list ("clusters") with that name, and in it the body ("cluster").
Result<YAML::Node> find_entry(
    const YAML::Node& root,
    const std::string& list,
    const std::string& body,
    const std::string& name
) {
  const YAML::Node entries = root[list];
  const auto has_the_name = [&](const YAML::Node& entry) {
    return entry.IsMap() && entry["name"] && entry["name"].as<std::string>() == name;
  };
  const auto refuse = [&] {
    return fail(ErrorKind::Configuration, "no entry '" + name + "' in " + list);
  };
  if (!entries || !entries.IsSequence()) return refuse();
  const auto entry = std::find_if(entries.begin(), entries.end(), has_the_name);
  if (entry == entries.end()) return refuse();
  const YAML::Node& named = *entry;
  YAML::Node found = named[body];
  if (found && found.IsMap()) return found;
  return fail(ErrorKind::Configuration, list + " '" + name + "': no '" + body + "'");
}

std::string text_of(const YAML::Node& node, const std::string& member) {
  const YAML::Node value = node[member];
  return value && value.IsScalar() ? value.as<std::string>() : std::string();
}

std::string absolute(const std::string& file, const std::string& directory) {
  if (file.empty() || file.front() == '/') return file;
  return (std::filesystem::path(directory) / file).string();
}

Result<PemSource> pem_of(
    const YAML::Node& node, const std::string& member, const std::string& directory
) {
  PemSource source;
  const std::string data = text_of(node, member + "-data");
  if (!data.empty()) {
    GNN_ASSIGN_OR_RETURN(source.text, decode_base64(data, member + "-data"));
  } else {
    source.file = absolute(text_of(node, member), directory);
  }
  return source;
}

Status refuse(const YAML::Node& node, const std::string& member, const std::string& instead) {
  if (!node[member]) return {};
  return fail(ErrorKind::Configuration, "'" + member + "' is not supported: " + instead);
}

Status check_server(const std::string& server) {
  if (server.starts_with("https://") && server.size() > 8) return {};
  for (const char* loopback : {"http://127.0.0.1", "http://localhost", "http://[::1]"}) {
    const std::string_view prefix = loopback;
    if (!server.starts_with(prefix)) continue;
    const std::string_view rest = std::string_view(server).substr(prefix.size());
    if (rest.empty() || rest.front() == ':' || rest.front() == '/') return {};
  }
  return fail(
      ErrorKind::Configuration,
      "expected a server URL with https:// (http:// only for loopback), found '" + server + "'"
  );
}

Result<KubeConfig> from_nodes(
    const YAML::Node& root, const std::string& directory, std::string context_name
) {
  if (!root.IsMap()) return fail(ErrorKind::Configuration, "expected a YAML mapping");
  if (context_name.empty()) context_name = text_of(root, "current-context");
  if (context_name.empty()) {
    return fail(ErrorKind::Configuration, "no current-context: name a context");
  }
  GNN_ASSIGN_OR_RETURN(
      const YAML::Node context, find_entry(root, "contexts", "context", context_name)
  );
  GNN_ASSIGN_OR_RETURN(
      const YAML::Node cluster, find_entry(root, "clusters", "cluster", text_of(context, "cluster"))
  );
  GNN_ASSIGN_OR_RETURN(
      const YAML::Node user, find_entry(root, "users", "user", text_of(context, "user"))
  );

  const std::string insecure = text_of(cluster, "insecure-skip-tls-verify");
  if (!insecure.empty() && insecure != "false") {
    return fail(
        ErrorKind::Configuration,
        "'insecure-skip-tls-verify' is not supported: give the server's CA as certificate-authority"
    );
  }
  GNN_RETURN_IF_ERROR(refuse(cluster, "proxy-url", "connect directly"));
  GNN_RETURN_IF_ERROR(
      refuse(cluster, "tls-server-name", "use a URL with the host name that the certificate has")
  );
  const std::string other =
      "use a token, a tokenFile or a client certificate, or kubectl, which supports it: kubectl "
      "wait "
      "--for=condition=Complete gnnjob/NAME";
  for (const char* member : {"exec", "auth-provider", "username", "password", "as"}) {
    GNN_RETURN_IF_ERROR(refuse(user, member, other));
  }

  KubeConfig config;
  config.server = text_of(cluster, "server");
  GNN_RETURN_IF_ERROR(check_server(config.server));
  GNN_ASSIGN_OR_RETURN(config.ca, pem_of(cluster, "certificate-authority", directory));
  GNN_ASSIGN_OR_RETURN(config.client_certificate, pem_of(user, "client-certificate", directory));
  GNN_ASSIGN_OR_RETURN(config.client_key, pem_of(user, "client-key", directory));
  if (config.client_certificate.empty() != config.client_key.empty()) {
    return fail(
        ErrorKind::Configuration, "expected both client-certificate and client-key, or neither"
    );
  }
  config.token = text_of(user, "token");
  config.token_file = absolute(text_of(user, "tokenFile"), directory);
  config.namespace_ = text_of(context, "namespace");
  if (config.namespace_.empty()) config.namespace_ = "default";
  return config;
}

}  // namespace

Result<std::string> PemSource::load() const {
  if (file.empty()) return text;
  return read_file(file);
}

Result<KubeConfig> in_cluster_config(
    const std::optional<std::string>& host,
    const std::optional<std::string>& port,
    const std::string& directory
) {
  if (!host || host->empty() || !port || port->empty()) {
    return fail(
        ErrorKind::NotFound,
        "not in a pod (KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set): pass "
        "--kubeconfig"
    );
  }
  const bool ipv6 = host->find(':') != std::string::npos;
  KubeConfig config;
  config.server = "https://" + (ipv6 ? "[" + *host + "]" : *host) + ":" + *port;
  config.ca.file = directory + "/ca.crt";
  config.token_file = directory + "/token";
  GNN_ASSIGN_OR_RETURN(const std::string token, read_file(config.token_file));
  if (trimmed(token).empty()) {
    return fail(ErrorKind::Configuration, "'" + config.token_file + "' is empty");
  }
  auto name_space = read_file(directory + "/namespace");
  config.namespace_ = name_space ? trimmed(*name_space) : "default";
  return config;
}

Result<KubeConfig> parse_kubeconfig(
    std::string_view text, const std::string& directory, const std::string& context
) {
  if (text.size() > kMaxFileBytes) {
    return fail(ErrorKind::Configuration, "expected at most 1 MiB, found more");
  }
  try {
    return from_nodes(YAML::Load(std::string(text)), directory, context);
  } catch (const YAML::Exception& error) {
    return fail(ErrorKind::Configuration, std::string("not valid YAML: ") + error.what());
  }
}

Result<KubeConfig> load_kubeconfig(const std::string& path, const std::string& context) {
  GNN_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  const std::string directory = std::filesystem::absolute(path).parent_path().string();
  auto config = parse_kubeconfig(text, directory, context);
  if (!config) return tl::unexpected<Error>(with_context(std::move(config).error(), path));
  return config;
}

TokenSource::TokenSource(const KubeConfig& config, Clock& clock)
    : clock_(clock), file_(config.token_file), held_(Held{.token = config.token}) {}

std::string TokenSource::token() {
  auto held = held_.lock();
  if (!file_.empty() &&
      (!held->loaded_at || clock_.monotonic() - *held->loaded_at >= kTokenLifetime)) {
    reload(*held);
  }
  return held->token;
}

bool TokenSource::refresh_after_refusal() {
  if (file_.empty()) return false;
  auto held = held_.lock();
  const std::string before = held->token;
  reload(*held);
  return held->token != before;
}

void TokenSource::reload(Held& held) const {
  held.loaded_at = clock_.monotonic();
  auto text = read_file(file_);
  if (!text) return;
  std::string token = trimmed(std::move(*text));
  // A line break would end the header.
  if (token.empty() || token.find_first_of("\r\n") != std::string::npos) return;
  held.token = std::move(token);
}

}  // namespace gnn::client
