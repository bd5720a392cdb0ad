#include "proxy/handler.h"

#include <algorithm>

#include "auth/impersonation.h"
#include "auth/web_socket_token.h"
#include "base/strings.h"
#include "http/guarded_answer.h"
#include "http/wire.h"
#include "krm/request_info.h"
#include "krm/status.h"
#include "proxy/forwarding/unmarked_write.h"
#include "proxy/gates/impersonate.h"
#include "proxy/gates/impersonation_gate.h"
#include "proxy/overlay/overlay.h"
#include "proxy/routing/in_cluster.h"
#include "proxy/routing/local_kinds.h"
#include "proxy/routing/parse_for.h"
#include "serving/answer.h"
#include "serving/identity.h"
#include "serving/waiting_request.h"
#include "topology/resolver.h"

namespace kintsugi::proxy {
namespace {

constexpr Duration kMoveSpread = seconds(2);
constexpr std::string_view kRoot = "root";

bool is_read(std::string_view method) { return method == "GET" || method == "HEAD"; }

/// The place that rules of impersonation know; clusters/* of plain servers is one like others.
auth::ImpersonationPlace place_of_request(const topology::Snapshot& facts, std::string_view target,
                                          std::string_view leads_to) {
  const auto& shards = facts.shards();
  if (leads_to.empty() && !shards.empty() && shards.front()->spec.plain) {
    return auth::ImpersonationPlace::kCluster;
  }
  return place_of(target) == auth::ImpersonationPlace::kShared ? auth::ImpersonationPlace::kShared
                                                               : place_of(leads_to);
}

}  // namespace

ProxyHandler::ProxyHandler(ProxyHandlerParams params)
    : params_(std::move(params)),
      forward_(params_.loop, params_.memory),
      merge_(params_.loop, params_.pool, params_.view, forward_.watches, params_.merge_options,
             params_.merge_params),
      documents_{
          params_.loop, params_.pool, params_.local,
          params_.documents ? params_.documents : std::make_shared<aggregation::DocumentCache>(),
          params_.merge_options.discovery},
      late_(params_.loop, params_.view, params_.late_routes),
      routes_(params_.routes),
      clusters_(params_.clusters),
      via_("2.0 kintsugi-" + params_.instance) {
  forward_.limits = params_.limits;
  merge_.memory = forward_.memory;
  merge_.find_deliveries = params_.find_deliveries;
  merge_.homes = params_.homes;
  merge_.rolled_back = params_.rolled_back;
  merge_.documents = documents_.cache;
  if (params_.merge_options.share == aggregation::Share::kReviewed) {
    merge_.start_reviews();
  }
  if (params_.queue_budget != nullptr) {
    merge_.queue_budget = params_.queue_budget;
  }
  if (params_.list_gate != nullptr) {
    merge_.list_gate = params_.list_gate;
  }
  if (params_.initial_gate != nullptr) {
    merge_.initial_gate = params_.initial_gate;
  }
  if (params_.sequences != nullptr) {
    merge_.sequences = params_.sequences;
  }
  if (params_.moves != nullptr) {
    merge_.moves = params_.moves;
  }
  params_.pool.on_moved([this](const shards::ShardClient& client) {
    forward_.moving.end_of(forward_.watches, &client, kMoveSpread);
  });
  params_.view->on_change([this, alive = std::weak_ptr<char>(alive_)](
                              const topology::Snapshot& before, const topology::Snapshot& now) {
    if (!alive.expired()) {
      merge_.follow(before.shards() != now.shards());
    }
  });
}

std::unique_ptr<http::RequestHandler> ProxyHandler::on_request(
    http::RequestHead head, http::ResponseStream& stream) noexcept {
  const bool head_only = head.method == "HEAD";
  return http::guarded_answer("proxy handler", stream, head_only,
                              [&] { return begin(std::move(head), stream); });
}

ProxyHandler::Answer ProxyHandler::begin(http::RequestHead head, http::ResponseStream& stream) {
  krm::RequestTarget target = parse_for(params_.view->current(), head);
  if (target.form == krm::TargetForm::kProbe) {
    return is_read(head.method) ? probe(head, stream)
                                : serving::answer_error(head, stream, krm::method_not_allowed());
  }
  if (target.form == krm::TargetForm::kMetrics) {
    return metrics(std::move(head), stream);
  }
  if (target.fault != krm::TargetFault::kNone) {
    return serving::answer_fault(head, stream, target);
  }
  auth::adopt_web_socket_token(head);
  if (std::optional<std::string> inside = in_cluster_target(head, target)) {
    head.target = std::move(*inside);
    target = parse_for(params_.view->current(), head);
    if (target.fault != krm::TargetFault::kNone) {
      return serving::answer_fault(head, stream, target);
    }
  }
  if (routes_ != nullptr) {
    if (auto answer = mapped(head, stream, target)) {
      return answer;
    }
  }
  if (!target.plain_prefix.empty()) {  // from here on words are compared as they are
    head.target.replace(0, target.trail, target.plain_prefix);
    target = parse_for(params_.view->current(), head);
  }
  const bool is_cluster = clusters_ && target.form == krm::TargetForm::kCluster;
  if (!is_cluster && target.form != krm::TargetForm::kService) {
    return serving::answer_no_route(head, stream);
  }
  if (target.scope == krm::TargetScope::kShard &&
      params_.view->current().shard(target.scope_name) == nullptr) {
    return serving::answer_no_route(head, stream);
  }
  const Prefix prefix(target);
  if (!is_cluster) {
    return services_request(std::move(head), stream, prefix);
  }
  if (prefix.partition && target.cluster != "*") {
    return serving::answer_no_route(head, stream);
  }
  return cluster_request(std::move(head), stream, prefix);
}

ProxyHandler::Answer ProxyHandler::metrics(http::RequestHead head, http::ResponseStream& stream) {
  const serving::ConnectionIdentity* identity = serving::identity_of(stream.peer());
  if (identity == nullptr || !identity->user) {
    return serving::answer_error(head, stream, krm::unauthorized());
  }
  if (!is_read(head.method)) {
    return serving::answer_error(head, stream, krm::method_not_allowed());
  }
  return authorized_request(
      std::move(head), stream, "/metrics", [this, &stream](const http::RequestHead& authorized) {
        return serving::answer_text(authorized, stream, 200, params_.metrics());
      });
}

ProxyHandler::Answer ProxyHandler::probe(const http::RequestHead& head,
                                         http::ResponseStream& stream) {
  const std::string path = krm::shown_path(head.target);
  const bool live = path.starts_with("/livez");
  const bool synced = live || params_.ready();
  const bool open = live || !draining_;
  const bool ok = synced && open;
  const std::size_t question = head.target.find('?');
  const bool verbose =
      question != std::string::npos &&
      krm::Query(std::string_view(head.target).substr(question + 1)).get("verbose").has_value();
  if (ok && !verbose) {
    return serving::answer_text(head, stream, 200, "ok");
  }
  std::string text = "[+]ping ok\n";
  if (!live) {
    text += synced ? "[+]informer-sync ok\n" : "[-]informer-sync failed: reason withheld\n";
    text += open ? "[+]shutdown ok\n" : "[-]shutdown failed: reason withheld\n";
  }
  text += std::string(live ? "livez" : "readyz") + (ok ? " check passed\n" : " check failed\n");
  return serving::answer_text(head, stream, ok ? 200 : 500, text);
}

ProxyHandler::Answer ProxyHandler::cluster_request(http::RequestHead head,
                                                   http::ResponseStream& stream, Prefix prefix,
                                                   bool is_late) {
  const auto cluster = krm::split_cluster_path(prefix.rest(head.target));
  if (cluster->segment == "*" && params_.wildcard) {
    const std::string trail(cluster->rest);
    if (prefix.length == 0) {
      if (auto answer = wildcard_request(head, stream, trail)) {
        return answer;
      }
    }
    return merged_request(std::move(head), stream, prefix, trail);
  }
  const topology::Snapshot& snapshot = params_.view->current();
  const topology::Resolution found = topology::resolve(snapshot, cluster->segment);
  if (params_.own_root && !found.resolved() && cluster->segment == kRoot && prefix.length == 0) {
    const std::string trail(cluster->rest);
    if (auto answer = own_root_request(head, stream, trail)) {
      return answer;
    }
  }
  switch (found.kind) {
    case topology::Resolution::Kind::kResolved:
      break;
    case topology::Resolution::Kind::kNotKnown:
      ++lookup_stats_.not_known;
      return serving::answer_error(head, stream, serving::not_known_yet());
    case topology::Resolution::Kind::kUnavailable:
      ++lookup_stats_.unavailable;
      return serving::answer_error(head, stream, serving::workspace_unavailable());
    case topology::Resolution::Kind::kMount:
      if (prefix.length == 0) {
        return mount_request(std::move(head), stream, std::string(found.mount_url),
                             std::string(cluster->rest));
      }
      [[fallthrough]];
    case topology::Resolution::Kind::kNotFound:
      if (!is_late && found.reason == topology::NotFoundReason::kUnknown && late_.has_room()) {
        return late_.hold(std::move(head), cluster->segment,
                          [this, &stream, prefix](http::RequestHead held) {
                            return cluster_request(std::move(held), stream, prefix, true);
                          });
      }
      ++lookup_stats_.not_found[static_cast<std::size_t>(found.reason)];
      return serving::answer_error(head, stream, serving::not_permitted(head.method, head.target));
  }
  if (prefix.length != 0 && found.shard->spec.name != prefix.name) {
    ++lookup_stats_.not_found[static_cast<std::size_t>(topology::NotFoundReason::kUnknown)];
    return serving::answer_error(head, stream, serving::not_permitted(head.method, head.target));
  }
  ++lookup_stats_.resolved;
  if (auto refused = identify(head, stream)) {
    return refused;
  }
  const std::string name(found.cluster);
  const std::string trail(cluster->rest);
  if (prefix.length == 0 || found.shard->spec.plain) {
    return dispatch(std::move(head), stream, *found.shard, name, trail);
  }
  // The way around a Partition's view needs a permission of its own.
  const topology::ShardId shard = found.shard->id;
  std::string path = krm::shown_path(head.target);
  return authorized_request(
      std::move(head), stream, std::move(path),
      [this, &stream, shard, name, trail](http::RequestHead authorized) {
        const topology::ShardInfo* info = params_.view->current().shard(shard);
        if (info == nullptr) {
          return serving::answer_error(authorized, stream, serving::not_known_yet());
        }
        return dispatch(std::move(authorized), stream, *info, name, trail);
      });
}

/// One store, one space of resourceVersions: nothing has to be merged (T-01).
ProxyHandler::Answer ProxyHandler::wildcard_request(http::RequestHead& head,
                                                    http::ResponseStream& stream,
                                                    std::string_view trail) {
  const std::string plain = without_identity(krm::canonical_trail(trail));
  if (plain.starts_with("/openapi") ||
      local_use(plain, false, possible_groups(params_.groups)) != LocalUse::kServe ||
      !krm::parse_request_info(head.method, plain).is_resource) {
    return nullptr;
  }
  if (auto refused = identify(head, stream)) {
    return refused;
  }
  head.target = "/clusters/*" + plain;
  return params_.local.on_request(std::move(head), stream);
}

ProxyHandler::Answer ProxyHandler::own_root_request(http::RequestHead& head,
                                                    http::ResponseStream& stream,
                                                    std::string_view sent) {
  const std::string trail = krm::canonical_trail(sent);
  const LocalUse use = local_use(trail, true, possible_groups(params_.groups));
  if (use == LocalUse::kForward) {
    return nullptr;
  }
  if (auto refused = identify(head, stream)) {
    return refused;
  }
  head.target = "/clusters/root" + trail;
  if (use == LocalUse::kServe) {
    return params_.local.on_request(std::move(head), stream);
  }
  return params_.overlay.answer(std::move(head), stream, nullptr, kRoot, "/clusters/root");
}

bool ProxyHandler::looped(const http::RequestHead& head) const {
  for (std::size_t i = 0; i < head.headers.size(); ++i) {
    const http::HeaderView field = head.headers[i];
    if (field.name == "via" && field.value.find(via_) != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

ProxyHandler::Answer ProxyHandler::dispatch(http::RequestHead head, http::ResponseStream& stream,
                                            const topology::ShardInfo& shard,
                                            std::string_view cluster, std::string_view sent) {
  // What is decided here is decided about the canonical trail; what is forwarded is as it was sent.
  std::string canonical;
  std::string_view trail = sent;
  if (sent.substr(0, sent.find('?')).find('%') != std::string_view::npos) {
    trail = canonical = krm::canonical_trail(sent);
  }
  LocalGroups groups = possible_groups(params_.groups);
  if (params_.owners != nullptr && !shard.spec.plain &&
      local_use(trail, false, groups) != LocalUse::kForward) {
    const auto known = params_.owners->known(cluster);
    if (!known) {
      return dispatch_when_known(std::move(head), stream, shard.id, std::string(cluster),
                                 std::string(sent));
    }
    groups = *known;
  }
  const LocalUse use = shard.spec.plain
                           ? LocalUse::kForward
                           : local_use(trail, params_.own_root && cluster == kRoot, groups);
  if (use == LocalUse::kServe) {
    const auto fact = params_.view->current().cluster(cluster);
    if (fact && fact->inactive && !trail.starts_with("/openapi")) {
      return serving::answer_error(head, stream,
                                   krm::forbidden("core.kcp.io", "logicalclusters", cluster,
                                                  "logical cluster is marked inactive"));
    }
    if (auto answer = shard_apply_request(head, stream, cluster, trail)) {
      return answer;
    }
    head.target = "/clusters/" + std::string(cluster) + std::string(trail);
    return params_.local.on_request(std::move(head), stream);
  }
  shards::ShardClient* client = params_.pool.find(shard.id);
  if (use == LocalUse::kOverlay) {
    const bool whole = std::string_view(head.target).ends_with(sent);
    const std::string root = whole ? head.target.substr(0, head.target.size() - sent.size())
                                   : "/clusters/" + std::string(cluster);
    head.target = topology::shard_target(shard, cluster, trail);
    return params_.overlay.answer(std::move(head), stream, client, cluster, root);
  }
  if (client == nullptr) {
    return serving::answer_error(head, stream, serving::not_known_yet());
  }
  if (looped(head)) {
    return serving::answer_error(head, stream, serving::loop_detected());
  }
  if (shard.spec.impersonate) {
    if (const auto error = judge_impersonation(head, stream.peer())) {
      return serving::answer_error(head, stream, *error);
    }
  }
  const bool unmarks = shard.spec.plain && may_carry_marker(head, trail);
  head.target = topology::shard_target(shard, cluster, sent);
  add_forwarding_headers(head, stream.peer());
  if (unmarks) {
    return forward_unmarked(forward_, std::move(head), stream, *client);
  }
  return forward(forward_, std::move(head), stream, *client);
}

ProxyHandler::Answer ProxyHandler::dispatch_when_known(http::RequestHead head,
                                                       http::ResponseStream& stream,
                                                       topology::ShardId shard, std::string cluster,
                                                       std::string trail) {
  auto waiting = std::make_unique<serving::WaitingRequest>();
  auto held = std::make_shared<http::RequestHead>(std::move(head));
  params_.owners->ask(cluster, [this, weak = waiting->weak(), held, &stream, shard, cluster,
                                trail](const Expected<LocalGroups>& groups) {
    serving::WaitingRequest* self = *weak;
    if (self == nullptr || self->closed()) {
      return;
    }
    const topology::ShardInfo* info = params_.view->current().shard(shard);
    if (!groups || info == nullptr) {
      self->go_on(serving::answer_error(
          *held, stream, !groups ? groups.error().clone() : serving::not_known_yet()));
      return;
    }
    self->go_on(dispatch(std::move(*held), stream, *info, cluster, trail));
  });
  return waiting;
}

ProxyHandler::Answer ProxyHandler::identify(http::RequestHead& head, http::ResponseStream& stream,
                                            const MappingEntry* entry, std::string_view leads_to) {
  if (params_.trusted && !params_.trusted()) {
    return serving::answer_error(head, stream, serving::not_known_yet());
  }
  const serving::ConnectionIdentity* identity = serving::identity_of(stream.peer());
  if (identity != nullptr && identity->refusal != nullptr) {
    return serving::answer_error(head, stream, *identity->refusal);
  }
  if (identity != nullptr && !identity->user) {
    stream.close_connection_after();
    return serving::answer_error(head, stream, krm::unauthorized());
  }
  if (!http::is_known_method(head.method)) {
    return serving::answer_error(head, stream, krm::method_not_allowed());
  }
  if (auth::has_impersonation(head.headers)) {
    if (serving::is_nobody(head, stream.peer())) {
      return serving::answer_error(head, stream, krm::unauthorized());  // AGG-1705
    }
    if (const auto error =
            gate_impersonation(head.headers, identity,
                               place_of_request(params_.view->current(), head.target, leads_to))) {
      return serving::answer_error(head, stream, *error);
    }
    auth::spell_impersonation(head.headers);
  }
  strip_internal_headers(head.headers);
  forward_.stats.identity_headers_stripped += auth::strip_identity_headers(
      head.headers, entry != nullptr ? entry->identity : params_.identity_headers);
  if (identity != nullptr && entry != nullptr && entry->own_names) {
    if (!auth::stamp_identity(head.headers, *identity->user, entry->identity)) {
      return serving::answer_error(head, stream, krm::unauthorized());
    }
  } else if (identity != nullptr) {
    for (std::size_t i = 0; i < identity->stamp.size(); ++i) {
      const http::HeaderView field = identity->stamp[i];
      head.headers.add(field.name, field.value);
    }
  }
  return nullptr;
}

void ProxyHandler::add_forwarding_headers(http::RequestHead& head,
                                          const http::PeerInfo& peer) const {
  const std::string_view before = head.headers.get("x-forwarded-for");
  if (before.data() == nullptr) {
    head.headers.add("x-forwarded-for", peer.address);
  } else {
    head.headers.set("x-forwarded-for", std::string(before) + ", " + peer.address);
  }
  head.headers.add("via", via_);
}

ProxyHandler::Answer ProxyHandler::authorized_request(
    http::RequestHead head, http::ResponseStream& stream, std::string path,
    std::function<Answer(http::RequestHead)> then) {
  auth::Attributes attributes;
  attributes.cluster = "root";
  attributes.is_resource = false;
  attributes.verb = to_lower(head.method);
  attributes.path = std::move(path);
  return authorized(std::move(head), stream, std::move(attributes), std::move(then));
}

ProxyHandler::Answer ProxyHandler::authorized(http::RequestHead head, http::ResponseStream& stream,
                                              auth::Attributes attributes,
                                              std::function<Answer(http::RequestHead)> then) {
  const serving::ConnectionIdentity* identity = serving::identity_of(stream.peer());
  attributes.user =
      identity != nullptr && identity->user ? *identity->user : auth::anonymous_user();
  auto waiting = std::make_unique<serving::WaitingRequest>();
  auto shared_head = std::make_shared<http::RequestHead>(std::move(head));
  params_.authorizer.authorize(attributes, [weak = waiting->weak(), shared_head, attributes,
                                            &stream, then = std::move(then)](
                                               Expected<auth::Decision> decision) {
    serving::WaitingRequest* self = *weak;
    if (self == nullptr || self->closed()) {
      return;
    }
    if (!decision) {
      self->go_on(serving::answer_error(*shared_head, stream, decision.error()));
    } else if (!decision->allowed) {
      self->go_on(serving::answer_error(*shared_head, stream, auth::denied(attributes, *decision)));
    } else {
      self->go_on(then(std::move(*shared_head)));
    }
  });
  return waiting;
}

}  // namespace kintsugi::proxy
