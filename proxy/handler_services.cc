// ProxyHandler: virtual workspaces, and what shards write into slices.
#include <algorithm>
#include <tuple>

#include "auth/authorizer.h"
#include "base/strings.h"
#include "krm/request_info.h"
#include "krm/status.h"
#include "proxy/forwarding/shard_apply.h"
#include "proxy/handler.h"
#include "serving/answer.h"
#include "serving/identity.h"
#include "topology/resolver.h"

namespace kintsugi::proxy {
namespace {

constexpr std::string_view kRoot = "root";
constexpr Duration kPause = seconds(30);  // of a shard that failed, where others would do

/// Takes a request body that nobody reads.
class Bodiless final : public http::RequestHandler {
 public:
  Bodiless(http::ResponseStream& stream, std::unique_ptr<http::RequestHandler> next)
      : stream_(stream), next_(std::move(next)) {}
  void on_data(std::string_view bytes, bool /*end*/) noexcept override {
    stream_.consume(bytes.size());
  }
  void on_drained() noexcept override { next_->on_drained(); }
  void on_close(Errc cause) noexcept override { next_->on_close(cause); }

 private:
  http::ResponseStream& stream_;
  std::unique_ptr<http::RequestHandler> next_;
};

/// As a virtual workspace refuses whom it does not know: it tells what was asked for.
Error denied_to_nobody(std::string_view method, std::string_view target) {
  constexpr std::string_view kEverywhere = "/clusters/*";
  const std::size_t at = target.find(kEverywhere);
  const std::string_view trail =
      at == std::string_view::npos ? target : target.substr(at + kEverywhere.size());
  const krm::RequestInfo info = krm::parse_request_info(method, trail);
  auth::Attributes asked;
  asked.user = auth::anonymous_user();
  asked.is_resource = info.is_resource;
  asked.verb = info.verb;
  asked.group = info.group;
  asked.version = info.version;
  asked.resource = info.resource;
  asked.path = info.path;
  return auth::denied(asked, {false, "access denied"});
}

}  // namespace

Expected<ServiceScope> ProxyHandler::scope_of(const http::RequestHead& head, Prefix prefix) {
  const topology::Snapshot& facts = params_.view->current();
  if (prefix.length == 0) {
    return ServiceScope{};
  }
  if (!prefix.partition) {
    const topology::ShardInfo* shard = facts.shard(prefix.name);
    return shard != nullptr ? Expected<ServiceScope>(one_shard(*shard))
                            : fail(krm::path_not_found());  // it went while the request waited
  }
  const auto& [cluster, name] = std::tie(prefix.cluster, prefix.name);
  const topology::Resolution where = topology::resolve(facts, cluster);
  const bool own = params_.own_root && !where.resolved() && cluster == kRoot;
  if (!where.resolved() && !own) {
    return fail(where.kind == topology::Resolution::Kind::kNotKnown ? serving::not_known_yet()
                : where.kind == topology::Resolution::Kind::kUnavailable
                    ? serving::workspace_unavailable()
                    : serving::not_permitted(head.method, head.target));
  }
  const auto partition =
      params_.partition ? params_.partition(own ? std::string_view(cluster) : where.cluster, name)
                        : std::nullopt;
  if (!partition) {
    return fail(krm::path_not_found());
  }
  return shards_of_partition(facts, *partition);
}

ProxyHandler::Answer ProxyHandler::services_request(http::RequestHead head,
                                                    http::ResponseStream& stream, Prefix prefix) {
  auto scope = scope_of(head, prefix);
  if (!scope) {
    return scope.error().code() == Errc::kNotFound
               ? serving::answer_no_route(head, stream)
               : serving::answer_error(head, stream, scope.error());
  }
  const auto path = parse_service_path(prefix.rest(head.target));
  if (!path) {
    return serving::answer_no_route(head, stream);
  }
  ServiceRoute route =
      route_service({params_.view->current(), *scope, head.method, head.target, *path});
  count(route);
  if (route.refusal && route.refused_before_identity) {
    return route.refusal->code() == Errc::kNotFound
               ? serving::answer_no_route(head, stream)
               : serving::answer_error(head, stream, *route.refusal);
  }
  if (auto refused = identify(head, stream)) {
    return refused;
  }
  if (serving::is_nobody(head, stream.peer())) {
    // Whom a virtual workspace does not know it refuses as anonymous, not as unauthorized.
    if (route.merged || !route.union_of.empty()) {
      return serving::answer_error(head, stream, denied_to_nobody(head.method, route.target));
    }
    if (!auth::stamp_identity(head.headers, auth::anonymous_user(), params_.identity_headers)) {
      return serving::answer_error(head, stream, krm::unauthorized());
    }
  }
  if (route.refusal) {
    return serving::answer_error(head, stream, *route.refusal);
  }
  if (!route.union_of.empty()) {
    return united_service(std::move(head), stream, std::move(route));
  }
  return route.merged ? merged_service(std::move(head), stream, prefix, std::move(route))
                      : forward_service(std::move(head), stream, std::move(route));
}

ProxyHandler::Answer ProxyHandler::forward_service(http::RequestHead head,
                                                   http::ResponseStream& stream,
                                                   ServiceRoute route) {
  if (looped(head)) {
    return serving::answer_error(head, stream, serving::loop_detected());
  }
  const bool chosen = route.any_of.empty();
  const topology::ShardId shard = chosen ? route.shard : next_of(route.any_of);
  shards::ShardClient* client = params_.pool.find_virtual(shard);
  if (client == nullptr) {
    return serving::answer_error(head, stream, serving::not_known_yet());
  }
  head.target = std::move(route.target);
  add_forwarding_headers(head, stream.peer());
  std::function<void()> unreachable;
  if (!chosen) {
    unreachable = [this, shard] { paused_[shard] = params_.loop.now() + kPause; };
  }
  return forward(forward_, std::move(head), stream, *client, std::move(unreachable));
}

topology::ShardId ProxyHandler::next_of(const std::vector<topology::ShardId>& shards) {
  const TimePoint now = params_.loop.now();
  std::erase_if(paused_, [now](const auto& entry) { return entry.second <= now; });
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const topology::ShardId shard = shards[turn_++ % shards.size()];
    if (!paused_.contains(shard)) {
      return shard;
    }
  }
  return shards[turn_++ % shards.size()];
}

void ProxyHandler::count(const ServiceRoute& route) {
  switch (route.lookup) {
    case topology::Resolution::Kind::kResolved:
      lookup_stats_.resolved += route.refused_before_identity ? 0U : 1U;
      break;
    case topology::Resolution::Kind::kNotKnown:
      ++lookup_stats_.not_known;
      break;
    case topology::Resolution::Kind::kUnavailable:
      ++lookup_stats_.unavailable;
      break;
    case topology::Resolution::Kind::kMount:
    case topology::Resolution::Kind::kNotFound:
      ++lookup_stats_.not_found[static_cast<std::size_t>(route.reason)];
      break;
  }
}

ProxyHandler::Answer ProxyHandler::shard_apply_request(http::RequestHead& head,
                                                       http::ResponseStream& stream,
                                                       std::string_view cluster,
                                                       std::string_view trail) {
  const serving::ConnectionIdentity* identity = serving::identity_of(stream.peer());
  if (identity == nullptr || !identity->user) {
    return nullptr;
  }
  const auto report = shard_apply(params_.view->current(), head, trail, *identity->user);
  if (!report) {
    return nullptr;
  }
  auth::Attributes attributes;
  attributes.cluster = cluster;
  attributes.verb = "patch";
  attributes.group = "apis.kcp.io";
  attributes.version = "v1alpha1";
  attributes.resource = "apiexportendpointslices";
  attributes.subresource = "status";
  attributes.name = report->slice;
  std::string read = "/clusters/" + std::string(cluster) +
                     "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/" +
                     percent_encode(report->slice);
  return authorized(std::move(head), stream, std::move(attributes),
                    [this, &stream, read, shard = report->shard](http::RequestHead allowed) {
                      ++ignored_applies_[shard];
                      allowed.method = "GET";
                      allowed.target = read;
                      allowed.end_stream = true;
                      allowed.headers.remove("content-type");
                      allowed.headers.remove("content-length");
                      return std::make_unique<Bodiless>(
                          stream, params_.local.on_request(std::move(allowed), stream));
                    });
}

}  // namespace kintsugi::proxy
