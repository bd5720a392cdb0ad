#include "proxy/forwarding/backend_requests.h"

#include <functional>
#include <utility>

#include "net/upstream.h"
#include "proxy/overlay/openapi_links.h"
#include "serving/answer.h"

namespace kintsugi::proxy {
namespace {

constexpr Duration kPause = seconds(30);  // of a shard that failed, where others would do

}  // namespace

BackendRequests::Answer BackendRequests::mapped(Request&& request, http::ResponseStream& stream,
                                                const Route& route) {
  const MappingEntry& entry = *route.mapped;
  http::RequestHead& head = request.head;
  // The path of the backend's own URL comes first there.
  const auto url = net::Url::parse(entry.backend);
  if (auto refused = params_.admission.identify(request, stream, &entry,
                                                (url ? url->path : "") + head.target)) {
    return refused;
  }
  if (auto refused = params_.admission.refuse_loop(head, stream)) {
    return refused;
  }
  shards::ShardClient* client = params_.pool.find_backend(entry.name(), entry.backend);
  if (client == nullptr) {
    return serving::answer_error(head, stream, serving::not_known_yet());
  }
  params_.admission.add_forwarding_headers(head, stream.peer());
  return forward(params_.forward, std::move(head), stream, *client, request.target.is_watch, {},
                 request.note);
}

BackendRequests::Answer BackendRequests::mounted(Request&& request, http::ResponseStream& stream,
                                                 const Route& route, std::uint64_t& followed) {
  const MountRoute& mount = *route.mount;
  http::RequestHead& head = request.head;
  if (auto refused = params_.admission.identify(request, stream, nullptr, mount.target)) {
    return refused;
  }
  if (auto refused = params_.admission.refuse_loop(head, stream)) {
    return refused;
  }
  shards::ShardClient* client =
      mount.kind == MountRoute::Kind::kShard      ? params_.pool.find(mount.shard)
      : mount.kind == MountRoute::Kind::kServices ? params_.pool.find_virtual(mount.shard)
                                                  : params_.pool.find_host(mount.origin);
  if (client == nullptr) {
    return serving::answer_error(head, stream, serving::not_known_yet());
  }
  ++followed;
  head.target = mount.target;
  params_.admission.add_forwarding_headers(head, stream.peer());
  return forward(params_.forward, std::move(head), stream, *client, request.target.is_watch, {},
                 request.note);
}

BackendRequests::Answer BackendRequests::service(Request&& request, http::ResponseStream& stream,
                                                 Route&& route) {
  http::RequestHead& head = request.head;
  if (auto refused = params_.admission.refuse_loop(head, stream)) {
    return refused;
  }
  ServiceRoute& service = *route.service;
  const bool chosen = service.any_of.empty();
  const topology::ShardId shard = chosen ? service.shard : next_of(service.any_of);
  shards::ShardClient* client = params_.pool.find_virtual(shard);
  if (client == nullptr) {
    return serving::answer_error(head, stream, serving::not_known_yet());
  }
  const std::string root(openapi_index_root(
      head.method, std::string_view(head.target).substr(0, request.target.query)));
  head.target = std::move(service.target);
  params_.admission.add_forwarding_headers(head, stream.peer());
  if (!root.empty() && client->admit()) {
    return answer_openapi_index(params_.forward.loop, std::move(head), stream, *client, root);
  }
  std::function<void()> unreachable;
  if (!chosen) {
    unreachable = [this, shard] { paused_[shard] = params_.forward.loop.now() + kPause; };
  }
  return forward(params_.forward, std::move(head), stream, *client, request.target.is_watch,
                 std::move(unreachable), request.note);
}

topology::ShardId BackendRequests::next_of(const std::vector<topology::ShardId>& shards) {
  const TimePoint now = params_.forward.loop.now();
  std::erase_if(paused_, [now](const auto& entry) { return entry.second <= now; });
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const topology::ShardId shard = shards[turn_++ % shards.size()];
    if (!paused_.contains(shard)) {
      return shard;
    }
  }
  return shards[turn_++ % shards.size()];
}

}  // namespace kintsugi::proxy
