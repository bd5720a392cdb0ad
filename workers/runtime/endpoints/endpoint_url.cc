#include "workers/runtime/endpoints/endpoint_url.h"

#include <arpa/inet.h>

#include <algorithm>

#include "base/digest.h"
#include "base/strings.h"
#include "krm/annotations.h"
#include "krm/path_prefixes.h"
#include "net/upstream.h"

namespace kintsugi::workers {
namespace {

constexpr std::size_t kMaxShown = 256;
constexpr std::size_t kMaxHostInName = 64;
constexpr std::size_t kMaxCluster = 253;

bool is_loopback(const std::string& host) noexcept {
  in_addr v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    return (ntohl(v4.s_addr) >> 24) == 127;
  }
  in6_addr v6{};
  return host == "localhost" ||
         (::inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6));
}

bool is_allowed(const std::string& host, const EndpointRules& rules) noexcept {
  const auto same = [&host](const std::string& allowed) {
    return !allowed.empty() && equals_ignore_case(allowed, host);
  };
  return same(rules.proxy_host) ||
         std::any_of(rules.allowed_hosts.begin(), rules.allowed_hosts.end(), same);
}

std::string_view authority_of(std::string_view url) noexcept {
  const std::size_t colon = url.find("://");
  const std::string_view rest = colon == std::string_view::npos ? url : url.substr(colon + 3);
  return rest.substr(0, rest.find_first_of("/?#"));
}

bool is_cluster_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= kMaxCluster && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == ':' || c == '-' || c == '.' || c == '_';
         });
}

/// What follows the last "/clusters/" up to the next slash; "" for none and for "*".
std::string_view cluster_in_path(std::string_view path) noexcept {
  const std::size_t at = path.rfind(krm::kClustersPrefix);
  if (at == std::string_view::npos) {
    return {};
  }
  const std::string_view rest = path.substr(at + krm::kClustersPrefix.size());
  const std::string_view name = rest.substr(0, rest.find_first_of("/?"));
  return is_cluster_name(name) ? name : std::string_view();
}

/// The only cluster of a base path that ends in "/clusters/<cluster>".
std::string_view only_cluster(std::string_view base) noexcept {
  const std::string_view name = cluster_in_path(base);
  return base.ends_with(name) ? name : std::string_view();
}

}  // namespace

std::string shown_url(std::string_view url) {
  const std::string_view authority = authority_of(url);
  const auto start = static_cast<std::size_t>(authority.data() - url.data());
  const std::size_t user = authority.rfind('@');
  std::string shown(url.substr(0, start));
  std::string_view rest = url.substr(start + (user == std::string_view::npos ? 0 : user + 1));
  shown.append(rest.substr(0, rest.find_first_of("?#")));
  shown.erase(
      std::remove_if(shown.begin(), shown.end(), [](char c) { return c < ' ' || c == 0x7f; }),
      shown.end());
  shown.resize(std::min(shown.size(), kMaxShown));
  return shown;
}

std::string unit_name(std::string_view canonical_url) {
  const std::string_view authority = authority_of(canonical_url);
  std::string name;
  for (const char c : authority.substr(0, kMaxHostInName)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                       ((c == '.' || c == '-') && !name.empty());
    name.push_back(plain ? c : '-');
  }
  if (!name.empty() && name.front() == '-') {
    name.front() = 'x';
  }
  return name + "-" + sha256_hex(canonical_url).substr(0, 32);
}

Expected<UnitEndpoint> parse_endpoint(std::string_view url, const EndpointRules& rules) {
  if (url.size() > kMaxEndpointUrl) {
    return fail(Errc::kInvalid, "URL is longer than 2,048 bytes");
  }
  if (authority_of(url).find('@') != std::string_view::npos) {
    return fail(Errc::kInvalid, "URL has user information");
  }
  if (url.find('#') != std::string_view::npos) {
    return fail(Errc::kInvalid, "URL has a fragment");
  }
  if (url.find('?') != std::string_view::npos) {
    return fail(Errc::kInvalid, "URL has a query");
  }
  const auto parsed = net::Url::parse(url);  // its message would tell the URL
  if (!parsed) {
    return fail(Errc::kInvalid, "URL is malformed");
  }
  if (parsed->scheme != "https" && !is_loopback(parsed->host)) {
    return fail(Errc::kInvalid, "URL is not https");
  }
  if (!is_allowed(parsed->host, rules)) {
    return fail(Errc::kInvalid, "host is neither the proxy nor in allowed_endpoint_hosts");
  }
  UnitEndpoint endpoint;
  endpoint.url = parsed->scheme + "://" + parsed->authority() + parsed->path;
  endpoint.name = unit_name(endpoint.url);
  return endpoint;
}

Expected<std::vector<std::string>> endpoint_urls(const krm::Json& slice) {
  if (slice.text({"kind"}) != "APIExportEndpointSlice") {
    return fail(Errc::kInvalid, "no APIExportEndpointSlice");
  }
  std::vector<std::string> urls;
  const krm::Json* endpoints = slice.at({"status", "endpoints"});
  if (endpoints == nullptr || endpoints->is_null()) {
    return urls;
  }
  if (!endpoints->is_array()) {
    return fail(Errc::kInvalid, "status.endpoints is no list");
  }
  urls.reserve(endpoints->size());
  for (const krm::Json& endpoint : endpoints->items()) {
    urls.emplace_back(endpoint.text({"url"}));
  }
  return urls;
}

std::string everywhere_path(std::string_view base, std::string_view api_path) {
  std::string path(base);
  if (only_cluster(base).empty()) {
    path.append(krm::kEverywhere);
  }
  return path.append(api_path);
}

Expected<std::string> cluster_path(std::string_view base, std::string_view cluster,
                                   std::string_view api_path) {
  const std::string_view only = only_cluster(base);
  if (!is_cluster_name(cluster) || (!only.empty() && only != cluster)) {
    return fail(Errc::kInvalid, "a cluster that this endpoint cannot have");
  }
  std::string path(base);
  if (only.empty()) {
    path.append(krm::kClustersPrefix).append(cluster);
  }
  return path.append(api_path);
}

std::string_view cluster_of(std::string_view annotation, std::string_view path) noexcept {
  return annotation.empty() ? cluster_in_path(path) : annotation;
}

std::string_view cluster_of(const krm::Json& object, std::string_view path) noexcept {
  return cluster_of(object.text({"metadata", "annotations", krm::kClusterAnnotation}), path);
}

bool is_ignored_cluster(std::string_view cluster) noexcept {
  return cluster.starts_with("system:");
}

}  // namespace kintsugi::workers
