#include "proxy/merge/wildcard_route.h"

#include "krm/status.h"

namespace kintsugi::proxy {
namespace {

WildcardRequest refused(WildcardRequest request, Error error) {
  request.use = WildcardRequest::Use::kRefused;
  request.refusal = std::move(error);
  return request;
}

}  // namespace

WildcardRequest read_wildcard(std::string_view method, std::string_view trail, bool namespaces) {
  WildcardRequest out;
  out.path = trail.substr(0, trail.find('?'));
  out.info = krm::parse_request_info(method, trail.empty() ? std::string_view("/") : trail);
  const krm::RequestInfo& info = out.info;
  if (!info.is_resource) {
    if (method != "GET" && method != "HEAD") {
      return refused(std::move(out), krm::method_not_allowed());
    }
    out.use = WildcardRequest::Use::kDocument;
    return out;
  }
  const bool reads = info.verb == "list" || info.verb == "watch";
  if (!reads || !info.subresource.empty() || info.path_has_name || method != "GET") {
    const bool head = method == "HEAD" || method == "OPTIONS" || method == "TRACE";
    return refused(std::move(out),
                   head ? krm::method_not_allowed()
                        : krm::wildcard_not_allowed(info.verb, info.qualified_resource()));
  }
  if (!namespaces && !info.ns.empty()) {
    return refused(std::move(out),
                   krm::bad_request("cross-cluster LIST and WATCH are required to be "
                                    "cross-namespace, not scoped to namespace " +
                                    info.ns));
  }
  out.use = WildcardRequest::Use::kMerge;
  return out;
}

}  // namespace kintsugi::proxy
