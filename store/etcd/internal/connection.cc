#include "store/etcd/internal/connection.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace kintsugi::store::etcd {
namespace {

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

Expected<std::vector<net::Url>> parse_endpoints(const EtcdParams& params) {
  std::vector<net::Url> urls;
  for (const std::string& endpoint : params.endpoints) {
    auto url = net::Url::parse(endpoint);
    if (!url || !url->path.empty()) {
      return fail(Errc::kConfig, "\"" + endpoint + "\" is no URL of an etcd member");
    }
    if (url->scheme == "http" && !params.insecure && !is_loopback(url->host)) {
      return fail(Errc::kConfig, endpoint + " is on another machine: say https");
    }
    urls.push_back(std::move(*url));
  }
  if (urls.empty()) {
    return fail(Errc::kConfig, "no member of etcd is named");
  }
  return urls;
}

}  // namespace

Expected<std::shared_ptr<net::TlsContext>> make_tls(const EtcdParams& params,
                                                    const std::vector<net::Url>& urls) {
  const bool needed = std::any_of(urls.begin(), urls.end(),
                                  [](const net::Url& url) { return url.scheme == "https"; });
  if (!needed) {
    return std::shared_ptr<net::TlsContext>();
  }
  net::TlsParams tls;
  tls.ca_file = params.ca_file;
  tls.certificate_file = params.cert_file;
  tls.key_file = params.key_file;
  return net::TlsContext::client(tls);
}

Expected<Connection> understood_connection(EtcdParams& params) {
  while (params.prefix.ends_with('/')) {
    params.prefix.pop_back();
  }
  if (!params.prefix.starts_with('/')) {
    return fail(Errc::kConfig, "the prefix in etcd has to begin with / and to name something");
  }
  auto urls = parse_endpoints(params);
  if (!urls) {
    return fail(std::move(urls).error());
  }
  auto tls = make_tls(params, *urls);
  if (!tls) {
    return fail(std::move(tls).error());
  }
  return Connection{std::move(*urls), std::move(*tls)};
}

}  // namespace kintsugi::store::etcd
