#include "aggregation/wildcard_route.h"

#include <utility>

#include "base/strings.h"
#include "krm/request_target.h"
#include "krm/selector.h"
#include "krm/status.h"

namespace kintsugi::aggregation {
namespace {

/// A segment for a path: what may stand there unescaped stays, the colon of an identity too.
std::string encode_segment(std::string_view segment) {
  std::string out;
  for (std::size_t colon = segment.find(':'); colon != std::string_view::npos;
       colon = segment.find(':')) {
    out += percent_encode(segment.substr(0, colon)) + ':';
    segment.remove_prefix(colon + 1);
  }
  return out + percent_encode(segment);
}

/// "/api/v1/watch/namespaces/t/configmaps/x?…" as "/api/v1/namespaces/t/configmaps?watch=true&…",
/// the name as a field selector. Made of the parts that were understood, never by looking for text
/// in what was sent: `watch` may have been escaped there. nullopt: another name contradicts it
/// (V11).
std::optional<std::string> as_list(const krm::RequestInfo& info) {
  std::string path = "/" + info.api_prefix;
  if (info.api_prefix != "api") {
    path += '/' + encode_segment(info.group);
  }
  path += '/' + encode_segment(info.version);
  const std::size_t kept = info.parts.size() - (info.path_has_name ? 1 : 0);
  for (std::size_t i = 0; i < kept; ++i) {
    path += '/' + encode_segment(info.parts[i]);
  }
  std::string fields(info.query.get("fieldSelector").value_or(""));
  if (info.path_has_name) {
    const auto given = krm::FieldSelector::parse(fields);
    const auto name = given ? given->exact("metadata.name") : std::nullopt;
    if (name && *name != info.name) {
      return std::nullopt;
    }
    fields += (fields.empty() ? "" : ",") + ("metadata.name=" + info.name);
  }
  path += "?watch=true";
  if (!fields.empty()) {
    path += "&fieldSelector=" + percent_encode(fields);
  }
  for (const auto& [key, value] : info.query.pairs()) {
    if (key != "watch" && key != "fieldSelector") {
      path += '&' + percent_encode(key) + '=' + percent_encode(value);
    }
  }
  return path;
}

/// Over plain servers it says where the client can do what it wanted.
Error not_allowed(const krm::RequestInfo& info, bool plain) {
  Error error = krm::wildcard_not_allowed(info.verb, info.qualified_resource());
  if (plain) {  // else kcp's text
    error.edit().message +=
        "; do that at /clusters/<name>/, an object's annotation kcp.io/cluster is that name";
  }
  return error;
}

WildcardRequest refused(WildcardRequest request, Error error) {
  request.use = WildcardRequest::Use::kRefused;
  request.refusal = std::move(error);
  return request;
}

}  // namespace

WildcardRequest read_wildcard(std::string_view method, std::string_view trail, bool plain) {
  return read_wildcard(
      method, trail, krm::parse_request_info(method, trail.empty() ? std::string_view("/") : trail),
      plain);
}

WildcardRequest read_wildcard(std::string_view method, std::string_view trail,
                              krm::RequestInfo read, bool plain) {
  WildcardRequest out;
  out.path = krm::canonical_trail(trail.substr(0, trail.find('?')));
  out.info = std::move(read);
  const krm::RequestInfo& info = out.info;
  if (info.resource.ends_with(':')) {  // KK-378
    Error error = krm::missing_identity(info.resource);
    return refused(std::move(out), std::move(error));
  }
  if (info.deprecated_watch && info.subresource.empty() && method == "GET") {
    const std::optional<std::string> list = as_list(info);
    krm::RequestInfo of_list = list ? krm::parse_request_info(method, *list) : krm::RequestInfo();
    if (list && !of_list.deprecated_watch) {
      return read_wildcard(method, *list, std::move(of_list), plain);
    }
    return list ? refused(std::move(out), krm::method_not_allowed())
                : refused(std::move(out), krm::bad_request("fieldSelector metadata.name doesn't "
                                                           "match requested name"));
  }
  if (!info.is_resource) {
    if (method != "GET") {
      return refused(std::move(out), krm::method_not_allowed());
    }
    out.use = WildcardRequest::Use::kDocument;
    return out;
  }
  if (plain && info.verb == "get" && method == "GET" && info.subresource.empty()) {
    out.use = WildcardRequest::Use::kGet;
    return out;
  }
  const bool reads = info.verb == "list" || info.verb == "watch";
  if (!reads || !info.subresource.empty() || info.path_has_name || method != "GET") {
    const bool head = method == "HEAD" || method == "OPTIONS" || method == "TRACE";
    return refused(std::move(out), head ? krm::method_not_allowed() : not_allowed(info, plain));
  }
  if (!plain && !info.ns.empty()) {
    return refused(std::move(out),
                   krm::bad_request("cross-cluster LIST and WATCH are required to be "
                                    "cross-namespace, not scoped to namespace " +
                                    info.ns));
  }
  out.use = WildcardRequest::Use::kMerge;
  return out;
}

}  // namespace kintsugi::aggregation
