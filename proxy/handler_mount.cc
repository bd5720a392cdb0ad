// ProxyHandler: Workspaces that are mounts.
#include "base/log.h"
#include "krm/status.h"
#include "proxy/handler.h"
#include "proxy/routing/parse_for.h"
#include "serving/answer.h"
#include "serving/identity.h"
#include "topology/resolver.h"

namespace kintsugi::proxy {
namespace {

constexpr int kMostMounts = 8;            // one behind another
constexpr std::size_t kMostWarned = 256;  // URLs of which one warning was written

}  // namespace

ProxyHandler::Answer ProxyHandler::mount_request(http::RequestHead head,
                                                 http::ResponseStream& stream, std::string url,
                                                 std::string trail) {
  for (int hop = 0; hop < kMostMounts; ++hop) {
    const MountRoute route = route_mount(params_.view->current(), params_.mounts, url, trail);
    switch (route.kind) {
      case MountRoute::Kind::kRefused:
        ++lookup_stats_.not_found[static_cast<std::size_t>(topology::NotFoundReason::kMountHost)];
        if (warned_mounts_.size() < kMostWarned && warned_mounts_.insert(url).second) {
          log_warn("the URL of a mount is not followed", {{"url", url}});
        }
        return serving::answer_error(head, stream,
                                     serving::not_permitted(head.method, head.target));
      case MountRoute::Kind::kNoRoute:
        return serving::answer_no_route(head, stream);
      case MountRoute::Kind::kInside: {
        const auto cluster = krm::split_cluster_path(route.target);
        if (!cluster || cluster->segment == "*") {
          return serving::answer_error(head, stream,
                                       serving::not_permitted(head.method, head.target));
        }
        const auto found = topology::resolve(params_.view->current(), cluster->segment);
        if (found.kind != topology::Resolution::Kind::kMount) {
          head.target = route.target;  // a new one, judged as if it had come (SE-024)
          if (const auto target = parse_for(params_.view->current(), head);
              target.fault != krm::TargetFault::kNone) {
            return serving::answer_fault(head, stream, target);
          }
          return cluster_request(std::move(head), stream, {});
        }
        url = found.mount_url;
        trail = cluster->rest;
        break;
      }
      case MountRoute::Kind::kShard:
      case MountRoute::Kind::kServices:
      case MountRoute::Kind::kHost:
        return forward_mount(std::move(head), stream, route);
    }
  }
  return serving::answer_error(head, stream, serving::loop_detected());
}

ProxyHandler::Answer ProxyHandler::forward_mount(http::RequestHead head,
                                                 http::ResponseStream& stream,
                                                 const MountRoute& route) {
  if (auto refused = identify(head, stream, nullptr, route.target)) {
    return refused;
  }
  if (looped(head)) {
    return serving::answer_error(head, stream, serving::loop_detected());
  }
  shards::ShardClient* client =
      route.kind == MountRoute::Kind::kShard      ? params_.pool.find(route.shard)
      : route.kind == MountRoute::Kind::kServices ? params_.pool.find_virtual(route.shard)
                                                  : params_.pool.find_host(route.origin);
  if (client == nullptr) {
    return serving::answer_error(head, stream, serving::not_known_yet());
  }
  ++lookup_stats_.resolved;
  head.target = route.target;
  add_forwarding_headers(head, stream.peer());
  return forward(forward_, std::move(head), stream, *client);
}

}  // namespace kintsugi::proxy
