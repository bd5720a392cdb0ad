#include "server/internal/kube_tls.h"

#include <utility>

#include "auth/certificate_end.h"
#include "base/log.h"
#include "base/secret_file.h"
#include "base/strings.h"
#include "net/server_credential.h"
#include "server/files.h"

namespace kintsugi::server {

Expected<RevocationsPtr> backend_revocations(const proxy::ProxyConfig& config) {
  std::string authorities;
  if (!config.backend.crl_file.empty() && !config.backend.ca_file.empty()) {
    auto text = read_file(config.backend.ca_file);
    if (!text) {
      return fail(std::move(text.error()));
    }
    authorities = std::move(*text);
  }
  return auth::load_revocations(config.backend.crl_file, authorities, config.crl);
}

Expected<std::shared_ptr<net::TlsContext>> client_context(const KubeAccess& access,
                                                          const std::string& path,
                                                          RevocationsPtr revocations) {
  net::TlsParams params;
  params.revocations = std::move(revocations);
  params.ca_pem = access.ca_pem;
  params.certificate_pem = access.certificate_pem;
  params.key_pem = access.key_pem;
  params.server_name = access.server_name;
  params.verify_peer = !access.insecure;
  if (access.insecure) {
    log_warn("a server's certificate is not verified",
             {{"kubeconfig", path}, {"server", access.server}});
  }
  auto made = net::TlsContext::client(params);
  if (!made) {
    return fail(std::move(made.error()).at(path));
  }
  return made;
}

Expected<std::shared_ptr<net::TlsContext>> own_context(const KubeAccess& access,
                                                       const std::string& path,
                                                       RevocationsPtr revocations) {
  if (!access.has_credential()) {
    return fail(Errc::kConfig, path + ": no client certificate, token or password");
  }
  auto made = client_context(access, path, std::move(revocations));
  if (made) {
    say_credential(access, **made);
  }
  return made;
}

void say_credential(const KubeAccess& access, net::TlsContext& context) {
  net::ServerCredential says;
  says.authorization = access.authorization();
  for (const auto& [name, value] : access.impersonation) {
    says.headers.add(name, value);
  }
  says.proxy = {access.proxy_host, access.proxy_port, access.proxy_authorization};
  net::set_credential(context, std::move(says));
}

namespace {

template <class Text>
Expected<void> take(const std::string& path, Text& text,
                    Expected<Text> (*read)(const std::string&)) {
  if (path.empty()) {
    return {};
  }
  auto found = read(path);
  if (!found) {
    return fail(std::move(found.error()));
  }
  text = std::move(*found);
  return {};
}

}  // namespace

Expected<void> take_file(const std::string& path, std::string& text) {
  return take(path, text, read_file);
}

Expected<void> take_file(const std::string& path, Secret& text) {
  return take(path, text, read_secret_file);
}

std::string own_name(const net::TlsContext& context) {
  const net::ServerCredential& says = net::credential_of(context);
  if (const std::string_view as = says.headers.get("impersonate-user"); !as.empty()) {
    return std::string(as);
  }
  const std::string_view said = says.authorization.view();
  if (const std::string name = auth::common_name_of(context.params().certificate_pem);
      !name.empty()) {
    return name;
  }
  constexpr std::string_view kBasic = "Basic ";
  if (said.starts_with(kBasic)) {
    auto text = base64_decode(said.substr(kBasic.size()));
    std::string name = text ? text->substr(0, text->find(':')) : "";
    if (text) {
      wipe(*text);
    }
    return name;
  }
  return said.empty() ? "" : "the bearer of a token";
}

}  // namespace kintsugi::server
