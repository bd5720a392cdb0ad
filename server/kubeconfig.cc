#include "server/kubeconfig.h"

#include <algorithm>
#include <filesystem>

#include "base/secret_file.h"
#include "base/strings.h"
#include "http/wire.h"
#include "krm/json.h"
#include "krm/yaml.h"
#include "server/files.h"

namespace kintsugi::server {
namespace {

using krm::Json;

std::string below(const std::string& folder, std::string_view file) {
  const std::filesystem::path path(file);
  return path.is_absolute() ? path.string() : (std::filesystem::path(folder) / path).string();
}

/// `<key>-data` (base64), or the file that `<key>` names, or "".
Expected<std::string> inline_or_file(const Json& section, std::string_view key,
                                     const std::string& folder, bool is_secret = false) {
  const std::string data_key = std::string(key) + "-data";
  if (const std::string_view data = section.text({data_key}); !data.empty()) {
    auto text = base64_decode(data);
    if (!text) {
      return fail(Errc::kConfig, data_key + " is not base64");
    }
    return std::move(*text);
  }
  const std::string_view file = section.text({key});
  if (file.empty()) {
    return std::string();
  }
  return is_secret ? read_secret_file(below(folder, file)) : read_file(below(folder, file));
}

/// What client-go knows and nobody does here. An empty one says nothing.
constexpr std::string_view kUnknownInCluster[] = {"proxy-url"};
constexpr std::string_view kUnknownInUser[] = {"exec",   "auth-provider", "as",
                                               "as-uid", "as-groups",     "as-user-extra"};

/// With them the header would be left out, and the request would be nobody's.
constexpr const char* kNoToken = " has characters that no header can have";

template <std::size_t N>
std::string_view unknown_in(const Json& section, const std::string_view (&fields)[N]) {
  for (const std::string_view field : fields) {
    const Json* value = section.find(field);
    const bool is_said = value != nullptr && !value->is_null();
    if (is_said && !(value->is_string() && value->as_string().empty())) {
      return field;
    }
  }
  return {};
}

/// Certificate, token, or name and password of a user.
Expected<void> take_credentials(const Json& user, const std::string& folder, KubeAccess& access) {
  if (const std::string_view field = unknown_in(user, kUnknownInUser); !field.empty()) {
    return fail(Errc::kConfig, std::string(field) +
                                   ": not supported; client certificates, token, tokenFile, "
                                   "username and password are");
  }
  auto certificate = inline_or_file(user, "client-certificate", folder);
  auto key = inline_or_file(user, "client-key", folder, true);
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
  access.password = user.text({"password"});
  access.token = user.text({"token"});
  if (const std::string_view file = user.text({"tokenFile"}); !file.empty()) {
    auto token = read_token_file(below(folder, file));
    if (!token) {
      return fail(std::move(token.error()).at("tokenFile"));
    }
    access.token = std::move(*token);
  }
  if (!http::is_field_value(access.token)) {
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

Expected<std::string> read_token_file(const std::string& path) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  auto text = read_secret_file(path);
  if (!text) {
    return fail(std::move(text.error()));
  }
  const std::size_t begin = std::min(text->find_first_not_of(kSpace), text->size());
  std::string token = text->substr(begin, text->find_last_not_of(kSpace) + 1 - begin);
  if (token.empty()) {
    return fail(Errc::kConfig, path + " is empty");
  }
  if (!http::is_field_value(token)) {
    return fail(Errc::kConfig, path + kNoToken);
  }
  return token;
}

std::string KubeAccess::authorization() const {
  return !token.empty()      ? "Bearer " + token
         : !username.empty() ? "Basic " + base64_encode(username + ":" + password)
                             : std::string();
}

std::string_view context_of(const std::string& path) {
  constexpr std::string_view kContext = "base";
  const auto text = read_file(path);
  const auto document = text ? krm::parse_yaml(*text) : Expected<Json>(Json());
  return document && find_named(*document, "contexts", kContext) != nullptr ? kContext
                                                                            : std::string_view();
}

const Json* find_named(const Json& document, std::string_view list, std::string_view name) {
  const Json* entries = document.find(list);
  if (entries == nullptr) {
    return nullptr;
  }
  for (const Json& entry : entries->items()) {
    if (entry.text({"name"}) == name) {
      return &entry;
    }
  }
  return nullptr;
}

Expected<KubeAccess> read_kubeconfig(const std::string& path, std::string_view context,
                                     KubeServer needs) {
  auto text = read_secret_file(path);
  if (!text) {
    return fail(std::move(text.error()));
  }
  auto document = krm::parse_yaml(*text);
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
  const Json* entry = find_named(document, "contexts", name);
  if (entry == nullptr) {
    return missing("no context \"" + name + "\"");
  }
  const Json* cluster = find_named(document, "clusters", entry->text({"context", "cluster"}));
  const std::string_view user_name = entry->text({"context", "user"});
  const Json* user = find_named(document, "users", user_name);
  const Json* found = cluster != nullptr ? cluster->find("cluster") : nullptr;
  if (found == nullptr || (needs == KubeServer::kRequired && found->text({"server"}).empty())) {
    return missing("no server for the cluster of context \"" + name + "\"");
  }
  if (user == nullptr && !user_name.empty()) {
    return missing("no user \"" + std::string(user_name) + "\" for context \"" + name + "\"");
  }
  const Json& where = *found;
  if (const std::string_view field = unknown_in(where, kUnknownInCluster); !field.empty()) {
    return missing("cluster \"" + std::string(cluster->text({"name"})) +
                   "\": " + std::string(field) + ": not supported");
  }
  KubeAccess access;
  access.server = where.text({"server"});
  access.server_name = where.text({"tls-server-name"});
  const Json* insecure = where.find("insecure-skip-tls-verify");
  access.insecure = insecure != nullptr && insecure->as_bool();
  auto ca = inline_or_file(where, "certificate-authority", folder);
  if (!ca) {
    return fail(std::move(ca.error()).at(origin));
  }
  access.ca_pem = std::move(*ca);
  const Json* credentials = user != nullptr ? user->find("user") : nullptr;
  if (credentials != nullptr) {
    if (auto taken = take_credentials(*credentials, folder, access); !taken) {
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
  const Json* entry = find_named(*document, "contexts", name);
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
  const Json* cluster = find_named(*document, "clusters", entry->text({"context", "cluster"}));
  const Json* user = find_named(*document, "users", entry->text({"context", "user"}));
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
