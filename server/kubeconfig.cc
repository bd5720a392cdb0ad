#include "server/kubeconfig.h"

#include <algorithm>
#include <filesystem>

#include "base/secret_file.h"
#include "base/strings.h"
#include "http/wire.h"
#include "krm/json.h"
#include "krm/named_entry.h"
#include "krm/yaml.h"
#include "net/proxy_rules.h"
#include "net/upstream.h"
#include "server/files.h"
#include "server/internal/exec_plugin.h"

namespace kintsugi::server {
namespace {

using krm::Json;

std::string below(const std::string& folder, std::string_view file) {
  const std::filesystem::path path(file);
  return path.is_absolute() ? path.string() : (std::filesystem::path(folder) / path).string();
}

/// `<key>-data` (base64), or the file that `<key>` names, read by `read`, or nothing.
template <class Text>
Expected<Text> inline_or_file(const Json& section, std::string_view key, const std::string& folder,
                              Expected<Text> (*read)(const std::string& path)) {
  const std::string data_key = std::string(key) + "-data";
  if (const std::string_view data = section.text({data_key}); !data.empty()) {
    auto text = base64_decode(data);
    if (!text) {
      return fail(Errc::kConfig, data_key + " is not base64");
    }
    return Text(std::move(*text));
  }
  const std::string_view file = section.text({key});
  if (file.empty()) {
    return Text();
  }
  return read(below(folder, file));
}

/// What older clients knew and nobody does here. An empty one says nothing.
constexpr std::string_view kUnknownInUser[] = {"auth-provider"};
constexpr std::string_view kExecVersions[] = {"client.authentication.k8s.io/v1",
                                              "client.authentication.k8s.io/v1beta1"};

/// With them the header would be left out, and the request would be nobody's.
constexpr const char* kNoToken = " has characters that no header can have";

bool is_said(const Json* value) {
  return value != nullptr && !value->is_null() &&
         !(value->is_string() && value->as_string().empty()) &&
         !((value->is_array() || value->is_object()) && value->size() == 0);
}

template <std::size_t N>
std::string_view unknown_in(const Json& section, const std::string_view (&fields)[N]) {
  for (const std::string_view field : fields) {
    if (is_said(section.find(field))) {
      return field;
    }
  }
  return {};
}

/// `proxy-url`: an HTTP proxy, by CONNECT.
Expected<void> take_proxy(const Json& cluster, KubeAccess& access) {
  const std::string_view text = cluster.text({"proxy-url"});
  if (text.empty()) {
    return {};
  }
  auto proxy = net::parse_proxy(text, false);
  if (!proxy) {
    return fail(Errc::kConfig, "proxy-url: " + std::string(proxy.error().message()));
  }
  access.proxy_host = std::move(proxy->host);
  access.proxy_port = proxy->port;
  access.proxy_authorization = std::move(proxy->authorization);
  return {};
}

/// `as` and its like, as the headers that say so.
Expected<void> take_impersonation(const Json& user, KubeAccess& access) {
  const auto add = [&access](std::string name, std::string_view value) {
    access.impersonation.emplace_back(std::move(name), value);
  };
  if (const std::string_view name = user.text({"as"}); !name.empty()) {
    add("impersonate-user", name);
  }
  for (const std::string_view field : {"as-uid", "as-groups", "as-user-extra"}) {
    if (access.impersonation.empty() && is_said(user.find(field))) {
      return fail(Errc::kConfig, "as: missing, " + std::string(field) + " is there");
    }
  }
  if (const std::string_view uid = user.text({"as-uid"}); !uid.empty()) {
    add("impersonate-uid", uid);
  }
  if (const Json* groups = user.find("as-groups"); is_said(groups)) {
    for (const Json& group : groups->items()) {
      add("impersonate-group", group.as_string());
    }
  }
  if (const Json* extra = user.find("as-user-extra"); is_said(extra)) {
    for (const auto& [key, values] : extra->members()) {
      for (const Json& value : values.items()) {
        add("impersonate-extra-" + to_lower(percent_encode(key)), value.as_string());
      }
    }
  }
  for (const auto& [name, value] : access.impersonation) {
    if (value.empty() || !http::is_field_value(value) || !http::is_token(name)) {
      return fail(Errc::kConfig, "as: a name is empty, no text, or" + std::string(kNoToken));
    }
  }
  return {};
}

/// What the program is told of the server, if it wants to know.
std::string cluster_for_exec(const Json& cluster, const Json& exec, const std::string& ca_pem) {
  const Json* wanted = exec.find("provideClusterInfo");
  if (wanted == nullptr || !wanted->as_bool()) {
    return {};
  }
  Json out = Json::object({});
  for (const std::string_view key :
       {"server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url"}) {
    if (const Json* value = cluster.find(key); is_said(value)) {
      out[key] = *value;
    }
  }
  if (!ca_pem.empty()) {
    out["certificate-authority-data"] = base64_encode(ca_pem);
  }
  if (const Json* extensions = cluster.find("extensions"); is_said(extensions)) {
    for (const Json& one : extensions->items()) {
      if (one.text({"name"}) == "client.authentication.k8s.io/exec" && one.find("extension")) {
        out["config"] = *one.find("extension");
      }
    }
  }
  return out.dump();
}

Expected<ExecPlugin> read_plugin(const Json& exec, const std::string& folder) {
  ExecPlugin plugin;
  plugin.api_version = exec.text({"apiVersion"});
  if (std::find(std::begin(kExecVersions), std::end(kExecVersions), plugin.api_version) ==
      std::end(kExecVersions)) {
    return fail(Errc::kConfig, "exec.apiVersion: must be one of " + std::string(kExecVersions[0]) +
                                   ", " + std::string(kExecVersions[1]));
  }
  plugin.command = exec.text({"command"});
  if (plugin.command.empty()) {
    return fail(Errc::kConfig, "exec.command: missing");
  }
  if (plugin.command.find('/') != std::string::npos) {
    plugin.command = below(folder, plugin.command);
  }
  if (exec.text({"interactiveMode"}) == "Always") {
    return fail(Errc::kConfig, "exec.interactiveMode: nobody is asked here, must be Never");
  }
  if (const Json* arguments = exec.find("args"); is_said(arguments)) {
    for (const Json& one : arguments->items()) {
      plugin.arguments.emplace_back(one.as_string());
    }
  }
  if (const Json* environment = exec.find("env"); is_said(environment)) {
    for (const Json& one : environment->items()) {
      plugin.environment.emplace_back(one.text({"name"}), one.text({"value"}));
    }
  }
  return plugin;
}

/// Asks the program that the user has for it.
Expected<void> take_exec(const Json& user, const Json& cluster, const std::string& folder,
                         KubeAccess& access) {
  const Json* exec = user.find("exec");
  if (!is_said(exec)) {
    return {};
  }
  if (access.has_credential()) {
    return fail(Errc::kConfig, "exec: not beside another credential, which is there");
  }
  auto plugin = read_plugin(*exec, folder);
  if (!plugin) {
    return fail(std::move(plugin.error()));
  }
  plugin->cluster = cluster_for_exec(cluster, *exec, access.ca_pem);
  auto says = ask_exec_plugin(*plugin);
  if (!says) {
    const std::string_view hint = exec->text({"installHint"});
    return fail(Errc::kConfig, std::string(says.error().message()) +
                                   (hint.empty() ? "" : ". " + std::string(hint)));
  }
  access.token = std::move(says->token);
  access.certificate_pem = std::move(says->certificate_pem);
  access.key_pem = std::move(says->key_pem);
  return {};
}

/// Certificate, token, or name and password of a user, or a program that gives one; and who one is
/// besides.
Expected<void> take_credentials(const Json& user, const std::string& folder, KubeAccess& access) {
  if (const std::string_view field = unknown_in(user, kUnknownInUser); !field.empty()) {
    return fail(Errc::kConfig, std::string(field) +
                                   ": not supported; client certificates, token, tokenFile, "
                                   "username and password, exec are");
  }
  auto certificate = inline_or_file(user, "client-certificate", folder, read_file);
  auto key = inline_or_file(user, "client-key", folder, read_secret_file);
  if (!certificate || !key) {
    return fail(std::move(!certificate ? certificate.error() : key.error()));
  }
  if (certificate->empty() != key->empty()) {
    return fail(Errc::kConfig, certificate->empty()
                                   ? "client-certificate: missing, client-key is there"
                                   : "client-key: missing, client-certificate is there");
  }
  access.certificate_pem = std::move(*certificate);
  access.key_pem = std::move(*key);
  access.username = user.text({"username"});
  access.password = Secret::copy_of(user.text({"password"}));
  access.token = Secret::copy_of(user.text({"token"}));
  if (const std::string_view file = user.text({"tokenFile"}); !file.empty()) {
    auto token = read_token_file(below(folder, file));
    if (!token) {
      return fail(std::move(token.error()).at("tokenFile"));
    }
    access.token = std::move(*token);
  }
  if (!http::is_field_value(access.token.view())) {
    return fail(Errc::kConfig, std::string("token:") + kNoToken);
  }
  if (access.username.empty() && !access.password.empty()) {
    return fail(Errc::kConfig, "username: missing, password is there");
  }
  if (!access.token.empty() && !access.username.empty()) {
    return fail(Errc::kConfig, "username: not beside a token, which is there");
  }
  return {};
}

}  // namespace

Expected<Secret> read_token_file(const std::string& path) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  auto text = read_secret_file(path);
  if (!text) {
    return fail(std::move(text.error()));
  }
  const std::string_view all = text->view();
  const std::size_t begin = std::min(all.find_first_not_of(kSpace), all.size());
  Secret token = Secret::copy_of(all.substr(begin, all.find_last_not_of(kSpace) + 1 - begin));
  if (token.empty()) {
    return fail(Errc::kConfig, path + " is empty");
  }
  if (!http::is_field_value(token.view())) {
    return fail(Errc::kConfig, path + kNoToken);
  }
  return token;
}

Secret KubeAccess::authorization() const {
  if (!token.empty()) {
    return Secret::joined({"Bearer ", token.view()});
  }
  if (username.empty()) {
    return {};
  }
  const Secret both = Secret::joined({username, ":", password.view()});
  return Secret::joined({"Basic ", Secret(base64_encode(both.view())).view()});
}

std::string_view context_of(const std::string& path) {
  constexpr std::string_view kContext = "base";
  const auto text = read_file(path);
  const auto document = text ? krm::parse_yaml(*text) : Expected<Json>(Json());
  return document && krm::find_named(*document, "contexts", kContext) != nullptr
             ? kContext
             : std::string_view();
}

Expected<KubeAccess> read_kubeconfig(const std::string& path, std::string_view context,
                                     KubeServer needs) {
  auto text = read_secret_file(path);
  if (!text) {
    return fail(std::move(text.error()));
  }
  auto document = krm::parse_yaml(text->view());
  if (!document) {
    return fail(Errc::kConfig, path + ": " + std::string(document.error().message()));
  }
  return kube_access(*document, std::filesystem::path(path).parent_path().string(), path, context,
                     needs);
}

Expected<KubeAccess> kube_access(const Json& document, const std::string& folder,
                                 const std::string& origin, std::string_view context,
                                 KubeServer needs) {
  const std::string name(context.empty() ? document.text({"current-context"}) : context);
  const auto missing = [&](const std::string& what) {
    return fail(Errc::kConfig, origin + ": " + what);
  };
  const Json* entry = krm::find_named(document, "contexts", name);
  if (entry == nullptr) {
    return missing("no context \"" + name + "\"");
  }
  const Json* cluster = krm::find_named(document, "clusters", entry->text({"context", "cluster"}));
  const std::string_view user_name = entry->text({"context", "user"});
  const Json* user = krm::find_named(document, "users", user_name);
  const Json* found = cluster != nullptr ? cluster->find("cluster") : nullptr;
  if (found == nullptr || (needs == KubeServer::kRequired && found->text({"server"}).empty())) {
    return missing("no server for the cluster of context \"" + name + "\"");
  }
  if (user == nullptr && !user_name.empty()) {
    return missing("no user \"" + std::string(user_name) + "\" for context \"" + name + "\"");
  }
  const Json& where = *found;
  KubeAccess access;
  if (auto taken = take_proxy(where, access); !taken) {
    return fail(std::move(taken.error())
                    .at(origin + ": cluster \"" + std::string(cluster->text({"name"})) + "\""));
  }
  access.server = where.text({"server"});
  access.server_name = where.text({"tls-server-name"});
  const Json* insecure = where.find("insecure-skip-tls-verify");
  access.insecure = insecure != nullptr && insecure->as_bool();
  auto ca = inline_or_file(where, "certificate-authority", folder, read_file);
  if (!ca) {
    return fail(std::move(ca.error()).at(origin));
  }
  access.ca_pem = std::move(*ca);
  const Json* credentials = user != nullptr ? user->find("user") : nullptr;
  if (credentials != nullptr) {
    auto taken = take_credentials(*credentials, folder, access);
    taken = taken ? take_exec(*credentials, where, folder, access) : std::move(taken);
    taken = taken ? take_impersonation(*credentials, access) : std::move(taken);
    if (!taken) {
      return fail(
          std::move(taken.error()).at(origin + ": user \"" + std::string(user_name) + "\""));
    }
  }
  return access;
}

std::vector<std::string> kubeconfig_files(const std::string& path, std::string_view context) {
  std::vector<std::string> files;
  const auto text = read_file(path);
  const auto document = text ? krm::parse_yaml(*text) : Expected<Json>(fail(Errc::kConfig, path));
  if (!document) {
    return files;
  }
  const std::string name(context.empty() ? document->text({"current-context"}) : context);
  const Json* entry = krm::find_named(*document, "contexts", name);
  if (entry == nullptr) {
    return files;
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const auto add = [&](const Json* owner, std::string_view section, std::string_view key) {
    const std::string_view file =
        owner != nullptr ? owner->text({section, key}) : std::string_view();
    if (!file.empty()) {
      files.push_back(below(folder, file));
    }
  };
  const Json* cluster = krm::find_named(*document, "clusters", entry->text({"context", "cluster"}));
  const Json* user = krm::find_named(*document, "users", entry->text({"context", "user"}));
  add(cluster, "cluster", "certificate-authority");
  add(user, "user", "client-certificate");
  add(user, "user", "client-key");
  add(user, "user", "tokenFile");
  return files;
}

std::string render_kubeconfig(const std::vector<KubeContext>& contexts, std::string_view user,
                              std::string_view ca_pem, std::string_view certificate_pem,
                              std::string_view key_pem) {
  std::string text = "apiVersion: v1\nkind: Config\nclusters:\n";
  for (const KubeContext& context : contexts) {
    text += "- name: " + context.name + "\n  cluster:\n    server: " + context.server +
            "\n    certificate-authority-data: " + base64_encode(ca_pem) + "\n";
  }
  text += "users:\n- name: " + std::string(user) +
          "\n  user:\n    client-certificate-data: " + base64_encode(certificate_pem) +
          "\n    client-key-data: " + base64_encode(key_pem) + "\ncontexts:\n";
  for (const KubeContext& context : contexts) {
    text += "- name: " + context.name + "\n  context:\n    cluster: " + context.name +
            "\n    user: " + std::string(user) + "\n";
  }
  text += "current-context: " + contexts.front().name + "\n";
  return text;
}

}  // namespace kintsugi::server
