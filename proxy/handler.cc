#include "proxy/handler.h"

#include <algorithm>
#include <utility>

#include "aggregation/asking/shard_answer.h"
#include "aggregation/rights/reviewer.h"
#include "auth/authorizer.h"
#include "base/log.h"
#include "http/guarded_answer.h"
#include "krm/request_info.h"
#include "krm/request_target.h"
#include "krm/status.h"
#include "krm/version.h"
#include "proxy/console/console_requests.h"
#include "serving/answer.h"
#include "serving/identity.h"
#include "serving/limited_request.h"
#include "serving/metrics_answer.h"

namespace kintsugi::proxy {
namespace {

const std::string kWithheld = "reason withheld";
constexpr std::string_view kReady = "readyz";

constexpr Duration kMoveSpread = seconds(2);
constexpr std::size_t kMostWarned = 256;  // URLs of which one warning was written

RouteFacts facts_of(const ProxyHandlerParams& params) {
  RouteFacts facts;
  facts.mapping = params.routes.get();
  facts.clusters = params.clusters;
  facts.console = params.console != nullptr;
  facts.wildcard = params.wildcard;
  facts.own_root = params.own_root;
  facts.info = params.info;
  facts.groups = possible_groups(params.groups);
  if (params.owners != nullptr) {
    facts.groups_of = [owners = params.owners](std::string_view cluster) {
      return owners->known(cluster);
    };
  }
  facts.mounts = params.mounts;
  facts.partition = params.partition;
  return facts;
}

/// Of all logical clusters, and no kind that the proxy stores.
bool is_merged(const Request& request, const RouteFacts& facts, const Route& route) {
  return facts.clusters && facts.wildcard && request.target.form == krm::TargetForm::kCluster &&
         request.target.cluster == "*" && route.kind != RouteKind::kServed &&
         route.kind != RouteKind::kMapped;
}

/// As a virtual workspace refuses whom it does not know: it tells what was asked for.
Error denied_to_nobody(Request& request) {
  const krm::RequestInfo& info = *request.info();
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

ProxyHandler::ProxyHandler(ProxyHandlerParams params)
    : params_(std::move(params)),
      forward_(params_.loop, params_.memory, params_.process_limits),
      merge_(params_.loop, params_.pool, params_.view, forward_.watches, params_.merge_options,
             params_.merge_params),
      documents_{
          params_.loop, params_.pool, params_.local,
          params_.documents ? params_.documents : std::make_shared<aggregation::DocumentCache>(),
          params_.merge_options.discovery},
      late_(params_.loop, params_.view, params_.late_routes),
      routes_(params_.routes),
      facts_(facts_of(params_)),
      led_facts_(facts_),
      admission_({params_.view, params_.authorizer, params_.identity_headers, params_.trusted,
                  "2.0 kintsugi-" + params_.instance, forward_.stats.identity_headers_stripped}),
      of_clusters_({params_.view, params_.pool, params_.local, params_.overlay, admission_,
                    forward_, params_.owners}),
      of_backends_({params_.pool, admission_, forward_}),
      of_several_({params_.view, merge_, documents_, admission_, forward_, led_facts_,
                   params_.identities, params_.merge_options.share == aggregation::Share::kReviewed,
                   params_.wildcard_reviewed}) {
  led_facts_.mapping = nullptr;
  led_facts_.clusters = true;
  forward_.set_limits(params_.limits);
  merge_.lists.memory = forward_.memory;
  merge_.asking.seats_of = [this](const std::string& shard) -> serving::FairSeats& {
    return forward_.seats_of(shard);
  };
  merge_.watches.find_deliveries = params_.find_deliveries;
  merge_.watches.homes = params_.homes;
  merge_.watches.rolled_back = params_.rolled_back;
  merge_.watches.documents = documents_.cache;
  if (params_.merge_options.share == aggregation::Share::kReviewed || params_.wildcard_reviewed) {
    merge_.start_reviews();
  }
  if (params_.queue_budget != nullptr) {
    merge_.watches.queue_budget = params_.queue_budget;
  }
  if (params_.list_gate != nullptr) {
    merge_.lists.gate = params_.list_gate;
  }
  if (params_.initial_gate != nullptr) {
    merge_.watches.initial_gate = params_.initial_gate;
  }
  if (params_.sequences != nullptr) {
    merge_.positions.sequences = params_.sequences;
  }
  if (params_.moves != nullptr) {
    merge_.positions.moves = params_.moves;
  }
  params_.pool.on_moved([this](const shards::ShardClient& client) {
    forward_.moving.end_of(forward_.watches, &client, kMoveSpread);
  });
  params_.view->on_change([this, alive = alive_.weak()](const topology::Snapshot& before,
                                                        const topology::Snapshot& now) {
    if (alive) {
      merge_.follow(before.shards() != now.shards());
    }
  });
}

std::unique_ptr<http::RequestHandler> ProxyHandler::on_request(
    Request&& request, http::ResponseStream& stream) noexcept {
  const bool head_only = request.head.method == "HEAD";
  return http::guarded_answer("proxy handler", stream, head_only,
                              [&] { return go(std::move(request), stream, {}); });
}

ProxyHandler::Answer ProxyHandler::go(Request&& request, http::ResponseStream& stream,
                                      Passed passed) {
  const topology::Snapshot& snapshot = params_.view->current();
  const RouteFacts& facts = passed.led ? led_facts_ : facts_;
  Route route = proxy::route(request, snapshot, facts);
  if (route.may_come && !passed.late && late_.has_room()) {
    passed.late = true;
    return late_.hold(
        std::move(request), std::move(route.wanted),
        [this, &stream, passed](Request held) { return go(std::move(held), stream, passed); });
  }
  if (route.led != nullptr) {
    request.lead_to(std::move(*route.led));
    passed.led = true;
  }
  if (!std::exchange(passed.counted, true)) {
    count(route);
  }
  if (is_merged(request, facts, route)) {
    aggregation::ensure_audit_id(request.head);
  }
  switch (route.kind) {
    case RouteKind::kProbe:
      return route.reason == RouteReason::kNone
                 ? probe(std::move(request), stream)
                 : serving::answer_error(request.head, stream, krm::method_not_allowed());
    case RouteKind::kMetrics:
      return metrics(std::move(request), stream, route);
    case RouteKind::kConsole:
      if (request.note != nullptr) {
        note_user(stream, *request.note);
      }
      return params_.console->on_request(std::move(request), stream);
    case RouteKind::kFault:
      return serving::answer_fault(request.head, stream, request.target);
    case RouteKind::kRefused:
      return refuse(request, stream, route);
    case RouteKind::kMapped:
      return of_backends_.mapped(std::move(request), stream, route);
    case RouteKind::kMounted:
      return of_backends_.mounted(std::move(request), stream, route, lookup_stats_.resolved);
    default:
      break;
  }
  if (!passed.identified) {
    if (auto refused = admission_.identify(request, stream)) {
      return refused;
    }
    passed.identified = true;
  }
  if (!std::exchange(passed.charged, true) && forward_.process_limits->requests().any()) {
    return charge(std::move(request), stream, std::move(route), passed);
  }
  return take(std::move(request), stream, std::move(route), passed);
}

ProxyHandler::Answer ProxyHandler::charge(Request&& request, http::ResponseStream& stream,
                                          Route&& route, Passed passed) {
  const serving::ConnectionIdentity* identity = serving::identity_of(stream.peer());
  serving::RequestLimiter::Pass pass;
  if (identity == nullptr || !identity->user ||
      serving::level_of(*identity->user) != serving::Level::kSystem) {
    serving::RequestLimiter& limits = forward_.process_limits->requests();
    const bool is_watch = request.target.is_watch;
    const TimePoint now = params_.loop.now();
    const auto payer = [&] { return payer_of(stream.peer(), request.head.headers).name; };
    Expected<void> room;
    if (!route.cluster.empty() && route.cluster != "*") {
      room = limits.charge_shared(pass, serving::LimitOf::kCluster, route.cluster, is_watch, now,
                                  payer);
    }
    if (room && route.shard != nullptr) {
      room = limits.charge_shared(pass, serving::LimitOf::kShard, route.shard->spec.name, is_watch,
                                  now, payer);
    }
    if (!room) {
      pass.take_back();
      return forward_.refusals.answer(request.head, stream, std::move(room).error());
    }
  }
  if (pass.is_empty()) {
    return take(std::move(request), stream, std::move(route), passed);
  }
  auto charged = std::make_unique<serving::ChargedRequest>(stream, std::move(pass));
  charged->begin_with([&](http::ResponseStream& answer) {
    return take(std::move(request), answer, std::move(route), passed);
  });
  return charged;
}

/// For the access log.
void ProxyHandler::note_route(const Route& route, const http::ResponseStream& stream,
                              AccessNote& note) {
  note.cluster = route.cluster;
  note.shard = route.shard != nullptr ? route.shard->spec.name : std::string();
  switch (route.kind) {
    case RouteKind::kServed:
      note.is_served_here = true;
      break;
    case RouteKind::kMergedList:
    case RouteKind::kMergedWatch:
    case RouteKind::kMergedGet:
    case RouteKind::kMergedDocument:
    case RouteKind::kServiceMerged:
    case RouteKind::kServiceDocument:
      note.is_merged = true;
      break;
    default:
      break;
  }
  note_user(stream, note);
}

void ProxyHandler::note_user(const http::ResponseStream& stream, AccessNote& note) {
  const serving::ConnectionIdentity* identity = serving::identity_of(stream.peer());
  if (identity != nullptr && identity->user) {
    note.user = identity->user->name;
    note.groups = identity->user->groups.size();
  }
}

ProxyHandler::Answer ProxyHandler::take(Request&& request, http::ResponseStream& stream,
                                        Route&& route, Passed passed) {
  if (request.note != nullptr) {
    note_route(route, stream, *request.note);
  }
  if (route.kind == RouteKind::kOfOneShard) {
    if (auto refused = admission_.refuse_return(request.head, stream)) {
      return refused;
    }
  }
  const auto again = [this, &stream](Passed more) {
    return [this, &stream, more](Request held) { return go(std::move(held), stream, more); };
  };
  if (route.takes_right && !passed.right) {
    passed.right = true;
    std::string path = krm::shown_path(request.head.target);
    return admission_.with_right_to(std::move(request), stream, std::move(path), again(passed));
  }
  switch (route.kind) {
    case RouteKind::kForwarded:
      return of_clusters_.forward_it(std::move(request), stream, route);
    case RouteKind::kServed:
      return of_clusters_.serve(std::move(request), stream, route);
    case RouteKind::kOverlaid:
      return of_clusters_.overlay(std::move(request), stream, route);
    case RouteKind::kAskedFirst:
      if (std::exchange(passed.asked, true)) {
        return serving::answer_error(request.head, stream, serving::not_known_yet());
      }
      return of_clusters_.ask_first(std::move(request), stream, route, again(passed));
    case RouteKind::kOfOneShard:
      return route.shard->spec.plain ? of_clusters_.forward_it(std::move(request), stream, route)
                                     : of_clusters_.of_one_shard(std::move(request), stream, route);
    case RouteKind::kMergedList:
    case RouteKind::kMergedWatch:
    case RouteKind::kMergedGet:
    case RouteKind::kMergedDocument:
    case RouteKind::kRefusedRead:
      return of_several_.read(std::move(request), stream, std::move(route));
    default:
      return take_to_service(std::move(request), stream, std::move(route));
  }
}

ProxyHandler::Answer ProxyHandler::take_to_service(Request&& request, http::ResponseStream& stream,
                                                   Route&& route) {
  const bool several =
      route.kind == RouteKind::kServiceMerged || route.kind == RouteKind::kServiceDocument;
  if (serving::is_nobody(request.head, stream.peer())) {
    // Whom a virtual workspace does not know it refuses as anonymous, not as unauthorized.
    if (several) {
      return serving::answer_error(request.head, stream, denied_to_nobody(request));
    }
    if (!auth::stamp_identity(request.head.headers, auth::anonymous_user(),
                              params_.identity_headers)) {
      return serving::answer_error(request.head, stream, krm::unauthorized());
    }
  }
  if (route.kind == RouteKind::kRefusedService) {
    return serving::answer_error(request.head, stream, *route.service->refusal);
  }
  if (route.kind == RouteKind::kServiceDocument) {
    return of_several_.service_document(std::move(request), stream, std::move(route));
  }
  return several ? of_several_.service(std::move(request), stream, std::move(route))
                 : of_backends_.service(std::move(request), stream, std::move(route));
}

ProxyHandler::Answer ProxyHandler::refuse(const Request& request, http::ResponseStream& stream,
                                          const Route& route) {
  const http::RequestHead& head = request.head;
  if (request.note != nullptr) {
    note_user(stream, *request.note);
    request.note->has_no_route = true;
  }
  forward_.stats.times.add(head.method, route.status, Duration());
  if (!route.refused_mount.empty()) {
    warn_of_mount(route.refused_mount);
  }
  if (route.service && route.service->refusal->code() != Errc::kNotFound) {
    return serving::answer_error(head, stream, *route.service->refusal);
  }
  switch (route.reason) {
    case RouteReason::kNotKnownYet:
      return serving::answer_error(head, stream, serving::not_known_yet());
    case RouteReason::kUnavailable:
      return serving::answer_error(head, stream, serving::workspace_unavailable());
    case RouteReason::kMountLoop:
      return serving::answer_error(head, stream, serving::loop_detected());
    case RouteReason::kNoSuchPartition:
    case RouteReason::kNoSuchPath:
    case RouteReason::kNoSuchShard:
    case RouteReason::kNoVirtualWorkspace:
      return serving::answer_no_route(head, stream);
    case RouteReason::kMountPath:
      if (route.status == 404) {
        return serving::answer_no_route(head, stream);
      }
      [[fallthrough]];
    default:
      return serving::answer_error(head, stream, serving::not_permitted(head.method, head.target));
  }
}

void ProxyHandler::warn_of_mount(std::string_view url) {
  if (warned_mounts_.size() < kMostWarned && warned_mounts_.emplace(url).second) {
    log_warn("the URL of a mount is not followed", {{"url", std::string(url)}});
  }
}

void ProxyHandler::count(const Route& route) {
  if (!route.looked_up) {
    return;
  }
  switch (route.lookup) {
    case topology::Resolution::Kind::kResolved:
      lookup_stats_.resolved += route.kind == RouteKind::kRefused ? 0U : 1U;
      break;
    case topology::Resolution::Kind::kNotKnown:
      ++lookup_stats_.not_known;
      break;
    case topology::Resolution::Kind::kUnavailable:
      ++lookup_stats_.unavailable;
      break;
    case topology::Resolution::Kind::kMount:
    case topology::Resolution::Kind::kNotFound:
      ++lookup_stats_.not_found[static_cast<std::size_t>(route.why_not)];
      break;
  }
}

ProxyHandler::Answer ProxyHandler::metrics(Request&& request, http::ResponseStream& stream,
                                           const Route& route) {
  const serving::ConnectionIdentity* identity = serving::identity_of(stream.peer());
  const bool is_known = identity != nullptr && identity->user;
  const auth::BearerPtr token = is_known ? nullptr : request.bearer();
  if (!is_known && (token == nullptr || params_.token_reviews == nullptr)) {
    return serving::answer_error(request.head, stream, krm::unauthorized());
  }
  if (route.reason != RouteReason::kNone) {
    return serving::answer_error(request.head, stream, krm::method_not_allowed());
  }
  if (is_known) {
    return metrics_for({}, std::move(request), stream);
  }
  auto waiting = std::make_unique<serving::WaitingRequest>();
  const auto held = std::make_shared<Request>(std::move(request));
  // Of the head nothing is shown: who it says that asks has not been stamped by anybody.
  params_.token_reviews->authenticate(
      {}, token, stream.peer(), "root",
      [this, weak = waiting->weak(), held, &stream](Expected<std::optional<auth::UserInfo>> who) {
        serving::WaitingRequest* const self = *weak;
        if (self == nullptr || self->closed()) {
          return;
        }
        const bool holds = who && who->has_value();
        self->go_on(holds ? metrics_for(std::move(*who), std::move(*held), stream)
                          : serving::answer_error(held->head, stream,
                                                  who ? krm::unauthorized() : who.error().clone()));
      });
  return waiting;
}

ProxyHandler::Answer ProxyHandler::metrics_for(std::optional<auth::UserInfo> who, Request&& request,
                                               http::ResponseStream& stream) {
  return admission_.with_right_to(
      std::move(request), stream, "/metrics",
      [this, &stream](const Request& authorized) {
        auto waiting = std::make_unique<serving::WaitingRequest>();
        params_.metrics([weak = waiting->weak(), head = authorized.head,
                         &stream](const std::string& text) {
          if (serving::WaitingRequest* self = *weak; self != nullptr && !self->closed()) {
            self->go_on(text.empty() ? serving::answer_error(head, stream, serving::not_known_yet())
                                     : serving::answer_metrics(head, stream, text));
          }
        });
        return waiting;
      },
      std::move(who));
}

namespace {

struct Readiness {
  bool synced = true, open = true, writable = true;
  bool strict = false;  ///< what can be forwarded is not enough
  [[nodiscard]] bool ok() const noexcept { return synced && open && (writable || !strict); }
};

/// @param check  "livez", "readyz" or "healthz". @param reason  for informer-sync
std::string probe_text(std::string_view check, const Readiness& is, const std::string& reason) {
  std::string text = "[+]ping ok\n";
  if (check == kReady) {
    text += is.synced ? "[+]informer-sync ok\n" : "[-]informer-sync failed: " + reason + "\n";
    text += is.writable ? "" : "[!]store: what the proxy stores is read-only\n";
    text += is.open ? "[+]shutdown ok\n" : "[-]shutdown failed: reason withheld\n";
  }
  return text + std::string(check) + (is.ok() ? " check passed\n" : " check failed\n");
}

}  // namespace

ProxyHandler::Answer ProxyHandler::probe(Request&& request, http::ResponseStream& stream) {
  const http::RequestHead& head = request.head;
  const std::string path = krm::shown_path(head.target);
  if (path == "/version") {
    return serving::answer_json(head, stream, 200, krm::version_document());
  }
  const std::string_view check = path.starts_with("/livez") ? "livez"
                                 : path == "/healthz"       ? "healthz"
                                                            : kReady;
  const std::size_t question = std::min(request.target.query + 1, head.target.size());
  const krm::Query query(std::string_view(head.target).substr(question));
  const bool verbose = query.get("verbose").has_value();
  Readiness is;
  if (check == kReady) {
    is = {params_.ready(), !draining_, !params_.writable || params_.writable(),
          query.get("strict").has_value()};
  }
  if (is.ok() && is.writable && !verbose) {
    return serving::answer_text(head, stream, 200, "ok");
  }
  if (!is.synced && verbose && params_.why_not_ready) {
    return unready(std::move(request), stream);
  }
  return serving::answer_text(head, stream, is.ok() ? 200 : 500, probe_text(check, is, kWithheld));
}

/// Shards and their answers are for those alone who may get /readyz as a path in root. Nobody else
/// is told more than that it is not ready, and neither is anybody while root cannot be asked.
ProxyHandler::Answer ProxyHandler::unready(Request&& request, http::ResponseStream& stream) {
  auto waiting = std::make_unique<serving::WaitingRequest>();
  const auto answer = [this, weak = waiting->weak(), head = request.head,
                       &stream](const std::string& reason) {
    if (serving::WaitingRequest* self = *weak; self != nullptr && !self->closed()) {
      Readiness is;
      is.synced = false;
      is.open = !draining_;
      self->go_on(serving::answer_text(head, stream, 500, probe_text(kReady, is, reason)));
    }
  };
  const serving::ConnectionIdentity* identity = serving::identity_of(stream.peer());
  if (identity == nullptr || !identity->user) {
    answer(kWithheld);
    return waiting;
  }
  auth::Attributes attributes;
  attributes.user = *identity->user;
  attributes.cluster = "root";
  attributes.is_resource = false;
  attributes.verb = "get";
  attributes.path = "/readyz";
  params_.authorizer.authorize(
      attributes, [this, answer](const Expected<auth::Decision>& decision) {
        if (decision && decision->allowed) {
          params_.why_not_ready(
              [answer](const std::string& text) { answer(text.empty() ? kWithheld : text); });
        } else {
          answer(kWithheld);
        }
      });
  return waiting;
}

void ProxyHandler::set_slots(aggregation::SlotHistoryPtr slots, aggregation::TokenKeys keys) {
  merge_.positions.keys = std::move(keys);
  merge_.set_slots(std::move(slots));
}

}  // namespace kintsugi::proxy
