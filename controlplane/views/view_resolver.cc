#include "controlplane/views/view_resolver.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "controlplane/clusters/cluster_resolver.h"
#include "krm/path_prefixes.h"
#include "krm/request_info.h"

namespace kintsugi::controlplane {
namespace {

constexpr int kMostHops = 4;

Error not_resolved(const http::RequestHead& head, const auth::UserInfo& user) {
  const krm::RequestInfo info = krm::parse_request_info(head.method, head.target);
  auth::Attributes attributes;
  attributes.user = user;
  attributes.is_resource = false;
  attributes.verb = info.verb;
  attributes.path = info.path;
  return auth::denied(attributes, {false, "Path not resolved to a valid virtual workspace"});
}

/// The next segment of a path that begins with '/', decoded; "" when there is none.
std::string take_segment(std::string_view& rest) {
  if (!rest.starts_with('/')) {
    return {};
  }
  const std::size_t end = std::min(rest.find_first_of("/?", 1), rest.size());
  const std::string_view raw = rest.substr(1, end - 1);
  rest.remove_prefix(end);
  return percent_decode(raw).value_or(std::string(raw));
}

}  // namespace

int forwarded_hops(const http::HeaderList& headers) noexcept {
  const std::string_view text = headers.get("x-kcp-virtual-resource-hops");
  if (text.empty()) {
    return 0;
  }
  int hops = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), hops);
  return fault != std::errc() || end != text.data() + text.size() || hops < 0 ? kMostHops : hops;
}

std::optional<ViewPath> split_view_path(const ViewRequest& request, std::size_t segments) {
  ViewPath path;
  std::string_view rest = request.rest;
  for (std::size_t i = 0; i < segments; ++i) {
    path.segments.push_back(take_segment(rest));
    if (path.segments.back().empty()) {
      return std::nullopt;
    }
  }
  if (take_segment(rest) != "clusters") {
    return std::nullopt;
  }
  path.cluster = take_segment(rest);
  const bool is_path =
      path.cluster.find(':') != std::string::npos && !path.cluster.starts_with("system:");
  if (path.cluster.empty() || is_path) {
    return std::nullopt;
  }
  const std::string_view target = request.head.target;
  path.api_root = target.substr(0, target.size() - rest.size());
  path.api_path = rest;
  return path;
}

void ViewResolver::add(std::string name, ViewFunction function) {
  functions_.insert_or_assign(std::move(name), std::move(function));
}

apiserver::ClusterResolver ViewResolver::wrap(apiserver::ClusterResolver clusters) const {
  return [this, clusters = std::move(clusters)](const http::RequestHead& head,
                                                const auth::UserInfo& user) {
    return std::string_view(head.target).starts_with(krm::kServicesPrefix) ? resolve(head, user)
                                                                           : clusters(head, user);
  };
}

Expected<std::optional<apiserver::ClusterTarget>> ViewResolver::resolve(
    const http::RequestHead& head, const auth::UserInfo& user) const {
  if (forwarded_hops(head.headers) >= kMostHops) {
    return fail(
        Error(Errc::kInternal, "the request was forwarded between virtual workspaces too often"));
  }
  std::string_view rest = std::string_view(head.target).substr(krm::kServicesPrefix.size());
  const std::string_view name = rest.substr(0, rest.find_first_of("/?"));
  rest.remove_prefix(name.size());
  const auto found = functions_.find(name);
  if (found == functions_.end()) {
    return fail(not_resolved(head, user));
  }
  Expected<std::optional<apiserver::ClusterTarget>> target =
      found->second({head, user, name, rest});
  if (target && !*target) {
    return fail(not_resolved(head, user));
  }
  return target;
}

}  // namespace kintsugi::controlplane
