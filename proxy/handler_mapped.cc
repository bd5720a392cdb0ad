// ProxyHandler: entries of the mapping file (R-03, FP-048).
#include "auth/request_header.h"
#include "krm/status.h"
#include "proxy/handler.h"
#include "proxy/internal/service_path.h"
#include "serving/answer.h"
#include "serving/identity.h"
#include "topology/resolver.h"

namespace kintsugi::proxy {
namespace {

/// Built-in paths win over equal entries; of virtual workspaces only the known ones are built in.
/// @param clusters  requests for clusters are built in, too.
bool outranks(const RouteTable::Match& match, const krm::RequestTarget& target, bool clusters) {
  if (match.depth > 1) {
    return true;
  }
  switch (target.word) {
    case krm::TargetWord::kClusters:
      return !clusters;
    case krm::TargetWord::kServices: {
      const bool is_services = match.depth == 1;
      return (is_services && match.entry->is_static) || target.service == VirtualWorkspace::kOther;
    }
    case krm::TargetWord::kShards:
    case krm::TargetWord::kPartitions:
      return false;
    case krm::TargetWord::kNone:
      break;
  }
  return true;
}

}  // namespace

ProxyHandler::Answer ProxyHandler::mapped(http::RequestHead& head, http::ResponseStream& stream,
                                          const krm::RequestTarget& target) {
  const RouteTable::Match match =
      routes_->find(std::string_view(head.target).substr(0, target.query));
  if (match.entry == nullptr || !outranks(match, target, clusters_)) {
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
        return serving::answer_error(head, stream, serving::not_known_yet());
      case topology::Resolution::Kind::kUnavailable:
        ++lookup_stats_.unavailable;
        return serving::answer_error(head, stream, serving::workspace_unavailable());
      case topology::Resolution::Kind::kNotFound:
        if (!is_late && found.reason == topology::NotFoundReason::kUnknown && late_.has_room()) {
          return late_.hold(std::move(head), match.cluster,
                            [this, &stream, match, table](http::RequestHead held) {
                              return mapped_request(std::move(held), stream, match, table, true);
                            });
        }
        ++lookup_stats_.not_found[static_cast<std::size_t>(found.reason)];
        return serving::answer_error(head, stream,
                                     serving::not_permitted(head.method, head.target));
    }
  }
  // The path of the backend's own URL comes first there.
  const auto url = net::Url::parse(entry.backend);
  if (auto refused = identify(head, stream, &entry, (url ? url->path : "") + head.target)) {
    return refused;
  }
  if (looped(head)) {
    return serving::answer_error(head, stream, serving::loop_detected());
  }
  shards::ShardClient* client = params_.pool.find_backend(entry.name(), entry.backend);
  if (client == nullptr) {
    return serving::answer_error(head, stream, serving::not_known_yet());
  }
  add_forwarding_headers(head, stream.peer());
  return forward(forward_, std::move(head), stream, *client);
}

}  // namespace kintsugi::proxy
