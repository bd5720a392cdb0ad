#include "apiserver/internal/pipeline.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "apiserver/internal/existence.h"
#include "apiserver/internal/health.h"
#include "apiserver/internal/options.h"
#include "apiserver/internal/respond.h"
#include "apiserver/internal/server_impl.h"
#include "auth/audit_event.h"
#include "auth/effective_users.h"
#include "auth/impersonation.h"
#include "auth/impersonation_gate.h"
#include "auth/web_socket_token.h"
#include "base/guard.h"
#include "base/inner_span.h"
#include "base/strings.h"
#include "http/wire.h"
#include "krm/annotations.h"
#include "krm/path_prefixes.h"
#include "krm/status.h"
#include "serving/memory_pressure.h"
#include "serving/payer_bounds.h"

namespace kintsugi::apiserver::internal {
namespace {

Error too_large(std::size_t limit) {
  return Error(Errc::kRequestEntityTooLarge,
               "Request entity too large: limit is " + std::to_string(limit));
}

/// What keys of stored objects may begin with: a path there would be found by nobody (FP-045).
bool is_stored_cluster(std::string_view name) {
  constexpr std::string_view kSystem = "system:";
  return name.find(':') == std::string_view::npos ||
         (name.starts_with(kSystem) && krm::is_cluster_name(name.substr(kSystem.size())));
}

/// Goes on as the user whom the view has requests act as.
void act(Request& request) {
  std::optional<auth::UserInfo> other;
  if (request.view != nullptr) {
    other = request.view->acts_as(attributes_of(request));
  }
  if (!other || *other == request.user) {
    return;
  }
  request.caller = std::make_unique<const auth::UserInfo>(std::move(request.user));
  if (request.impersonator == nullptr) {
    request.impersonator = std::make_unique<const auth::UserInfo>(*request.caller);
  }
  request.user = std::move(*other);
}

[[nodiscard]] const auth::UserInfo& requester_of(const Request& request) noexcept {
  return request.impersonator ? *request.impersonator : request.user;
}

/// A part of its work; null where the request is not recorded.
std::shared_ptr<InnerSpan> begin_span(const Request& request, const char* name) {
  return is_tracing() ? InnerSpan::begin(request.header("traceparent"), name) : nullptr;
}
void end_span(const std::shared_ptr<InnerSpan>& span, std::string_view fault) {
  if (span != nullptr) {
    span->end(fault);
  }
}

/// How a request is told that there is no room for it.
using Tell = void (*)(const RequestPtr&, Error);

template <class Ready>
void sit(const RequestPtr& request, const Ready& ready, Tell tell) {
  if (take_seat(*request)) {
    ready(request);
  } else {
    tell(request, Error(Errc::kTooManyRequests));
  }
}

/// Lists keep what they answer with: while memory is short fewer of them run (SE-091).
bool is_list_when_short(const Request& request) noexcept {
  const serving::MemoryPressure* pressure = request.server.pressure();
  return pressure != nullptr && pressure->step() >= serving::ShedStep::kLists &&
         request.info.verb == "list";
}

/// Memory is so short that only servers and administrators are served (SE-091). True: that has been
/// said.
bool is_shed(const RequestPtr& request) {
  serving::MemoryPressure* pressure = request->server.pressure();
  if (pressure == nullptr || pressure->step() < serving::ShedStep::kTenants ||
      pool_of(*request) == Pool::kNone ||
      !serving::is_bounded(serving::level_of(requester_of(*request)))) {
    return false;
  }
  pressure->count(serving::ShedStep::kTenants);
  request->server.request_refused();
  refuse(request, serving::memory_is_short());
  return true;
}

/// Seats that a request takes where they are scarce (4.2 of the rows).
std::size_t width_of(const Request& request) noexcept {
  constexpr std::size_t kWide = 4;
  constexpr std::size_t kLargeApply = 256 * 1024;
  const krm::RequestInfo& info = request.info;
  if (pool_of(request) != Pool::kWrites) {
    return is_list_when_short(request) ? kWide : 1;
  }
  const bool of_kinds = !info.resource.empty() &&
                        info.resource == request.server.tenants().wide_resource &&
                        info.subresource.empty();
  const bool wide = info.verb == "deletecollection" || of_kinds ||
                    (info.verb == "patch" && request.body.size() > kLargeApply);
  return wide ? kWide : 1;
}

/// How long it may wait here, less what it has waited at the proxy (SE-077).
Duration patience_of(const Request& request) noexcept {
  const Duration most = std::min(request.patience, request.server.seats().queues().limits().wait);
  return std::max(most - request.exchange->waited(), Duration::zero());
}

/// Goes on with a seat: at once, or when it is the request's turn.
template <class Ready>
void with_turn(const RequestPtr& request, Ready ready, Tell tell) {
  serving::FairSeats& seats = request->server.seats();
  const serving::Level level = serving::level_of(requester_of(*request));
  if (pool_of(*request) == Pool::kNone ||
      (!is_list_when_short(*request) && seats.sit_if_quiet(request->turn, level))) {
    sit(request, ready, tell);
    return;
  }
  std::string payer = request->exchange->payer().name;
  if (const serving::ProcessLimits* process = request->server.process_limits();
      process != nullptr && request->impersonator != nullptr &&
      process->is_distributed(request->impersonator->name)) {
    payer = serving::payer_on_behalf(payer, request->user.name);
  }
  const auto span = begin_span(*request, "queue");
  auto called = [weak = std::weak_ptr<Request>(request), ready, tell, span](Expected<void> room) {
    end_span(span, room ? "" : "refused");
    const RequestPtr self = weak.lock();
    if (self == nullptr || self->is_gone()) {
      return;
    }
    if (!room) {
      self->pass.take_back();
      self->server.request_refused();
      tell(self, std::move(room.error()));
    } else if (!guarded("request", [&] { sit(self, ready, tell); }) && !self->is_gone()) {
      self->exchange->stream().reset(Errc::kInternal);
    }
  };
  if (seats.enter(request->turn, {level, payer, request->cluster},
                  {.width = width_of(*request), .wait = patience_of(*request)},
                  std::move(called))) {
    if (span != nullptr) {
      span->drop();  // nobody waited
    }
    sit(request, ready, tell);
  }
}

/// A watch counts against what its payer may have open (SE-085). False: that is reached, and has
/// been said.
bool charge_watch(const RequestPtr& request) {
  serving::ProcessLimits* process = request->server.process_limits();
  if (process == nullptr || request->info.verb != "watch" || request->outside ||
      !serving::is_bounded(serving::level_of(requester_of(*request)))) {
    return true;
  }
  const std::string what =
      request->cluster + "/" + request->info.group + "/" + request->info.resource;
  Expected<void> room =
      serving::admit_watch(process->bounds(), request->open, request->exchange->payer().name, what,
                           request->server.loop().now());
  if (!room) {
    request->server.request_refused();
    refuse(request, std::move(room.error()));
  }
  return room.has_value();
}

/// Counts the request against the limits of its payer and its cluster. False: one is
/// reached, and that has been said.
bool charge(const RequestPtr& request) {
  serving::RequestLimiter* limits = request->server.limits();
  if (limits == nullptr || !limits->any() || pool_of(*request) == Pool::kNone) {
    return true;
  }
  const serving::Level level = serving::level_of(requester_of(*request));
  if (level == serving::Level::kSystem) {
    return true;
  }
  const bool is_watch = request->info.verb == "watch";
  const TimePoint now = request->server.loop().now();
  using serving::LimitOf;
  const auto name_of_payer = [&request] { return request->exchange->payer().name; };
  Expected<void> room;
  if (limits->limits(LimitOf::kUser) || limits->limits(LimitOf::kUnauthenticated)) {
    const net::BodyPayer payer = request->exchange->payer();
    room = limits->charge(request->pass, payer.known ? LimitOf::kUser : LimitOf::kUnauthenticated,
                          payer.name, is_watch, now);
  }
  if (room && !request->outside && request->cluster != "*") {
    room = limits->charge_shared(request->pass, LimitOf::kCluster, request->cluster, is_watch, now,
                                 name_of_payer);
  }
  if (room) {
    room = limits->charge_shared(request->pass, LimitOf::kShard, {}, is_watch, now, name_of_payer);
  }
  if (!room) {
    request->pass.take_back();
    request->server.request_refused();
    refuse(request, std::move(room.error()));
  }
  return room.has_value();
}

/// What a logical cluster may write and watch (SE-093), once it is known that its user may: who is
/// no user of it uses up nothing, and one user not what is the others' (SE-005).
/// @error kTooManyRequests; nothing is charged then
Expected<void> charge_workspace(Request& request) {
  using serving::LimitOf;
  serving::RequestLimiter* limits = request.server.limits();
  const Pool pool = pool_of(request);
  if (limits == nullptr || (pool != Pool::kWrites && pool != Pool::kWatchStarts) ||
      request.outside || request.cluster == "*" ||
      request.cluster == request.server.tenants().root) {
    return {};
  }
  const serving::Level level = serving::level_of(requester_of(request));
  if (level == serving::Level::kSystem || level == serving::Level::kOperator) {
    return {};
  }
  const bool is_watch = pool == Pool::kWatchStarts;
  Expected<void> room = limits->charge_shared(
      request.pass, is_watch ? LimitOf::kWorkspaceWatches : LimitOf::kWorkspaceWrites,
      request.cluster, is_watch, request.server.loop().now(),
      [&request] { return request.exchange->payer().name; });
  if (!room) {
    request.pass.take_back();
    request.server.request_refused();
  }
  return room;
}

void begin_work(const RequestPtr& request);

void check_access(const RequestPtr& request) {
  if (request->server.is_draining() && !is_health_path(request->info.path)) {
    send_error(*request, krm::unavailable("the server is shutting down", 1));
    return;
  }
  if (!http::is_known_method(request->head.method)) {
    refuse(request, krm::method_not_allowed());
    return;
  }
  if (is_shed(request) || !charge(request) || !charge_watch(request)) {
    return;
  }
  // A body that is not whole holds nobody up (SE-075).
  request->seat_due = !request->body_complete && pool_of(*request) == Pool::kWrites;
  if (request->seat_due) {
    begin_work(request);
  } else {
    with_turn(request, begin_work,
              [](const RequestPtr& self, Error error) { refuse(self, std::move(error)); });
  }
}

/// Rights, then what is asked for.
void begin_work(const RequestPtr& request) {
  if (request->outside) {
    if (is_open_path(request->info.path)) {
      route(request);
      return;
    }
    // Nobody gets "some" logical cluster (KK-364).
    send_error(*request, request->user.in_group(auth::kGroupMasters)
                             ? krm::path_not_found()
                             : auth::denied(attributes_of(*request), auth::Decision()));
    return;
  }
  const auto allowed = [request] {
    if (!request->seat_due) {  // else when the body is whole
      if (Expected<void> room = charge_workspace(*request); !room) {
        refuse(request, std::move(room.error()));
        return;
      }
    }
    act(*request);
    route(request);
  };
  if (has_own_access_rule(*request)) {
    with_own_access_rule(request, allowed);
  } else {
    authorize(request, attributes_of(*request), allowed);
  }
}

/// Resolves the logical cluster for a user; answers itself and returns false when there is none.
bool find_cluster(const RequestPtr& request) {
  Expected<std::optional<ClusterTarget>> target =
      request->server.params().resolve(request->head, request->user);
  if (!target) {
    request->info = krm::parse_request_info(request->head.method, request->head.target);
    refuse(request, std::move(target.error()));
    return false;
  }
  if (*target && !is_stored_cluster((*target)->name)) {
    request->info = krm::parse_request_info(request->head.method, (*target)->rest);
    send_error(*request, krm::internal("invariant violation: \"" + (*target)->name +
                                       "\" is no name of a logical cluster"));
    return false;
  }
  if (*target) {
    request->cluster = std::move((*target)->name);
    request->api_root = std::move((*target)->api_root);
    request->view = std::move((*target)->view);
    request->watch_after = (*target)->watch_after;
    const std::string_view rest = (*target)->rest;
    request->info = krm::parse_request_info(request->head.method, rest.empty() ? "/" : rest);
  } else {
    request->outside = true;
    request->info = krm::parse_request_info(request->head.method, request->head.target);
  }
  return true;
}

bool start_deadline(const RequestPtr& request) {
  if (request->info.verb == "watch") {
    return true;
  }
  Expected<Duration> timeout = parse_timeout(request->info.query);
  if (!timeout) {
    refuse(request, std::move(timeout.error()));
    return false;
  }
  request->patience = *timeout / 4;
  request->ends = request->server.loop().now() + *timeout;
  request->deadline.start(*timeout, [weak = std::weak_ptr<Request>(request)] {
    if (const RequestPtr late = weak.lock()) {
      send_error(*late, Error(Errc::kTimeout));
    }
  });
  return true;
}

void identified(const RequestPtr& request) {
  if (!find_cluster(request)) {
    return;
  }
  request->form.pretty = wants_pretty(request->info.query.get("pretty"), request->accept,
                                      request->header("user-agent"));
  if (!start_deadline(request)) {
    return;
  }
  if (!auth::has_impersonation(request->head.headers)) {
    check_access(request);
    return;
  }
  // Who may speak for others is said where the view's rights are, not where it leads.
  auth::Attributes attributes = attributes_of(*request);
  const bool is_view = request->view != nullptr;
  const std::string_view rights = is_view ? request->view->rights_cluster() : "";
  if (!rights.empty()) {
    attributes.cluster = rights;
  }
  if (is_view) {  // nobody but the masters, here
    const auto admitted = auth::admit_impersonation(request->head.headers, &request->user,
                                                    auth::ImpersonationPlace::kShared);
    if (!admitted) {
      send_error(*request, admitted.error());
      return;
    }
  }
  request->server.impersonator().impersonate(
      request->head.headers, std::move(attributes),
      [request](Expected<auth::Impersonator::Effective> effective) {
        if (request->is_gone()) {
          return;
        }
        if (!effective) {
          refuse(request, std::move(effective.error()));
          return;
        }
        const bool changed = !(effective->user == request->user);
        if (changed) {
          request->impersonator = std::make_unique<const auth::UserInfo>(std::move(request->user));
        }
        request->user = std::move(effective->user);
        request->constraint = std::move(effective->constraint);
        if (!changed || find_cluster(request)) {
          check_access(request);
        }
      });
}

/// For a write whose body is whole now.
void with_seat(const RequestPtr& request, std::function<void()> ready) {
  if (!request->seat_due) {
    ready();
    return;
  }
  if (Expected<void> room = charge_workspace(*request); !room) {
    send_error(*request, room.error());
    return;
  }
  with_turn(
      request, [ready = std::move(ready)](const RequestPtr& /*self*/) { ready(); },
      [](const RequestPtr& self, Error error) { send_error(*self, error); });
}

/// Who brings nothing along: a virtual workspace refuses him as anonymous (KK-340), all else as
/// unknown (KK-330).
bool is_nobody_at_view(const Request& request) {
  return request.head.target.starts_with(krm::kServicesPrefix) &&
         request.header("authorization").empty() &&
         request.exchange->stream().peer().certificates_der.empty();
}

/// Nobody brings a warrant along (KK-325).
void drop_warrants(Request& request) {
  const std::size_t dropped = std::erase_if(
      request.user.extra, [](const auto& extra) { return extra.first == auth::kExtraWarrant; });
  if (dropped > 0) {
    request.annotations.emplace_back(krm::kDroppedExtrasNote, auth::kExtraWarrant);
  }
}

}  // namespace

std::string cluster_hint(std::string_view target) {
  const std::optional<krm::ClusterPath> path = krm::split_cluster_path(target);
  return path && krm::is_cluster_name(path->segment) ? path->segment : std::string();
}

const Registry& Request::registry() const {
  return view == nullptr ? server.registry() : view->registry();
}

auth::Attributes attributes_of(const Request& request) {
  auth::Attributes attributes;
  const krm::RequestInfo& info = request.info;
  attributes.user = request.asked_user();
  attributes.cluster = request.cluster;
  attributes.is_resource = info.is_resource;
  attributes.verb = info.verb;
  attributes.path = info.path;
  if (info.is_resource) {
    attributes.group = info.group;
    attributes.version = info.version;
    // Rights are given without the identity of bound APIs ("widgets:<hash>").
    attributes.resource = info.resource.substr(0, info.resource.find(':'));
    attributes.subresource = info.subresource;
    attributes.ns = info.ns;
    attributes.name = info.name;
    if (!info.path_has_name) {
      attributes.field_selector_name = info.name;
    }
  }
  return attributes;
}

void authorize(const RequestPtr& request, auth::Attributes attributes,
               std::function<void()> allowed) {
  auto asked = std::make_shared<auth::Attributes>(std::move(attributes));
  auth::Authorizer& authorizer =
      request->view == nullptr ? request->server.params().authorizer : request->view->authorizer();
  authorizer.authorize(
      *asked, [request, asked, allowed = std::move(allowed),
               span = begin_span(*request, "authorize")](Expected<auth::Decision> decision) {
        end_span(span, !decision ? "error" : decision->allowed ? "" : "denied");
        if (request->is_gone()) {
          return;
        }
        if (!decision && request->view != nullptr && request->view->is_plain(decision.error())) {
          send_text(*request, krm::http_status(decision.error()),
                    std::string(decision.error().message()) + "\n");
        } else if (!decision) {
          send_error(*request, decision.error());
        } else if (!decision->allowed) {
          refuse(request, auth::denied(*asked, *decision));
        } else {
          allowed();
        }
      });
}

void begin_request(const RequestPtr& request) {
  auth::adopt_web_socket_token(request->head);
  request->audit_id = auth::audit_id_of(request->header("audit-id"));
  request->accept = parse_accept(request->header("accept"));
  if (const std::optional<Form> form = negotiate(request->accept, Offer{true, true, false})) {
    request->form = *form;  // for failures before the real negotiation
  }
  request->token = auth::bearer_of(request->head.headers);
  request->server.params().authenticator.authenticate(
      request->head, request->token, request->exchange->stream().peer(),
      cluster_hint(request->head.target),
      [request,
       span = begin_span(*request, "authenticate")](Expected<std::optional<auth::UserInfo>> user) {
        end_span(span, user ? "" : "refused");
        if (request->is_gone()) {
          return;
        }
        const bool is_nobody =
            !user && user.error().code() == Errc::kUnauthorized && is_nobody_at_view(*request);
        if (!user && !is_nobody) {
          send_error(*request, user.error().code() == Errc::kUnauthorized ? krm::unauthorized()
                                                                          : user.error().clone());
          return;
        }
        request->user = user && *user ? std::move(**user) : auth::anonymous_user();
        drop_warrants(*request);
        identified(request);
      });
}

void with_body(const RequestPtr& request, std::function<void()> ready) {
  const std::size_t limit = request->server.params().max_body;
  const std::string_view encoding = trim(request->header("content-encoding"));
  if (!encoding.empty() && !equals_ignore_case(encoding, "identity")) {
    send_error(*request, Error(Errc::kUnsupportedMediaType,
                               "the body of the request was in an unsupported encoding"));
    return;
  }
  const std::optional<std::uint64_t> length = parse_decimal(request->header("content-length"));
  if (request->body_too_large || (length && *length > limit)) {
    send_error(*request, too_large(limit));
    return;
  }
  if (request->body_complete) {
    with_seat(request, std::move(ready));
    return;
  }
  request->on_body = [request = std::weak_ptr<Request>(request), ready = std::move(ready), limit] {
    const RequestPtr self = request.lock();
    if (self == nullptr || self->is_gone()) {
      return;
    }
    if (self->body_too_large) {
      send_error(*self, too_large(limit));
      return;
    }
    with_seat(self, ready);
  };
}

}  // namespace kintsugi::apiserver::internal
