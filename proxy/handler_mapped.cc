// ProxyHandler: entries of the mapping file (specs/front-proxy.md 2 and 8.1).
#include "auth/request_header.h"
#include "krm/status.h"
#include "proxy/answer.h"
#include "proxy/handler.h"
#include "proxy/identity.h"
#include "proxy/path.h"
#include "proxy/service_path.h"
#include "topology/resolver.h"

namespace kintsugi::proxy {
namespace {

constexpr std::string_view kServices = "/services/";

bool below(std::string_view path, std::string_view prefix) {
  return path.starts_with(prefix) && (path.size() == prefix.size() || path[prefix.size()] == '/');
}

/// Built-in paths win over equal entries; of virtual workspaces only the known ones are built in.
bool outranks(const RouteTable::Match& match, std::string_view path) {
  if (match.depth > 1) {
    return true;
  }
  if (path.starts_with(kServices)) {
    const bool is_services = match.depth == 1;
    return (is_services && match.entry->is_static) ||
           virtual_workspace_of(path) == VirtualWorkspace::kOther;
  }
  return !below(path, "/shards") && !below(path, "/partitions");
}

}  // namespace

ProxyHandler::Answer ProxyHandler::mapped(http::RequestHead& head, http::ResponseStream& stream) {
  const std::string_view path =
      std::string_view(head.target).substr(0, std::min(head.target.find('?'), head.target.size()));
  if (clusters_ && below(path, "/clusters")) {
    const RouteTable::Match match = routes_->find(path);
    if (match.entry == nullptr || match.depth <= 1) {
      return nullptr;
    }
    return mapped_request(std::move(head), stream, match, routes_);
  }
  const RouteTable::Match match = routes_->find(path);
  if (match.entry == nullptr || !outranks(match, path)) {
    return nullptr;
  }
  return mapped_request(std::move(head), stream, match, routes_);
}

ProxyHandler::Answer ProxyHandler::mapped_request(http::RequestHead head,
                                                  http::ResponseStream& stream,
                                                  const RouteTable::Match& match,
                                                  const std::shared_ptr<const RouteTable>& table,
                                                  bool is_late) {
  const MappingEntry& entry = *match.entry;
  if (!match.cluster.empty() && match.cluster != "*") {
    const topology::Resolution found = topology::resolve(params_.view->current(), match.cluster);
    switch (found.kind) {
      case topology::Resolution::Kind::kResolved:
      case topology::Resolution::Kind::kMount:
        ++lookup_stats_.resolved;
        break;
      case topology::Resolution::Kind::kNotKnown:
        ++lookup_stats_.not_known;
        return answer_error(head, stream, not_known_yet());
      case topology::Resolution::Kind::kUnavailable:
        ++lookup_stats_.unavailable;
        return answer_error(head, stream, workspace_unavailable());
      case topology::Resolution::Kind::kNotFound:
        if (!is_late && found.reason == topology::NotFoundReason::kUnknown && late_.has_room()) {
          return late_.hold(std::move(head), match.cluster,
                            [this, &stream, match, table](http::RequestHead held) {
                              return mapped_request(std::move(held), stream, match, table, true);
                            });
        }
        ++lookup_stats_.not_found[static_cast<std::size_t>(found.reason)];
        return answer_error(head, stream, not_permitted(head.method, head.target));
    }
  }
  if (judge_path(head.target) == PathVerdict::kMalformed) {
    return answer_error(head, stream, malformed_path(head.target));
  }
  // The path of the backend's own URL comes first there.
  const auto url = net::Url::parse(entry.backend);
  if (auto refused = identify(head, stream, &entry, (url ? url->path : "") + head.target)) {
    return refused;
  }
  if (looped(head)) {
    return answer_error(head, stream, loop_detected());
  }
  shards::ShardClient* client = params_.pool.find_backend(entry.name(), entry.backend);
  if (client == nullptr) {
    return answer_error(head, stream, not_known_yet());
  }
  add_forwarding_headers(head, stream.peer());
  return forward(forward_, std::move(head), stream, *client);
}

}  // namespace kintsugi::proxy
