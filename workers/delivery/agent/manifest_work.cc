#include "workers/delivery/agent/manifest_work.h"

#include <utility>

#include "base/strings.h"
#include "workers/runtime/control/outcome_of.h"

namespace kintsugi::workers {
namespace {

constexpr Duration kForbiddenAgain = seconds(300), kRefusedAgain = seconds(30),
                   kWaitAgain = seconds(30), kSync = seconds(10), kSyncLook = milliseconds(20),
                   kWatchAgain = seconds(60);
constexpr std::string_view kContended = "somebody else changes the object again and again",
                           kNoNamespaces = "the kind has no namespaces; the manifest's is not used";
constexpr std::string_view kApplyType = "application/apply-patch+yaml";

/// The server's own words.
std::string words(const ApiAnswer& answer) {
  const std::string_view message = answer.body.text({"message"});
  return message.empty() ? answer.text() : std::string(message);
}

bool is_for_later(const ApiAnswer& answer) {
  return answer.status == 0 || answer.status >= 500 || answer.is(401) || answer.is(409) ||
         answer.is(429);
}

/// A 403 of a webhook or policy: the object is not as they want it, which no right changes.
bool is_judged(const ApiAnswer& answer) {
  const std::string_view message = answer.body.text({"message"});
  return message.find("admission webhook \"") != std::string_view::npos ||
         message.find("denied request:") != std::string_view::npos;
}

/// The kind goes, or is gone: what is served is asked for anew.
bool is_kind_going(const ApiAnswer& answer) {
  return answer.is(405) ||
         answer.body.text({"message"}).find("custom resource definition is terminating") !=
             std::string_view::npos;
}

/// A 404 that means that the object is not there, also since its namespace is not.
bool is_missing(const ApiAnswer& answer) {
  return answer.says_missing() ||
         (answer.is(404) && answer.body.text({"details", "kind"}) == "namespaces");
}

}  // namespace

ManifestWork::ManifestWork(Unit& unit, const DeliveryConfig& config, Agents agents,
                           std::function<void(const OrderName&)> look)
    : unit_(unit), config_(config), agents_(std::move(agents)), watches_(unit, std::move(look)) {}

void ManifestWork::changed(const OrderName& order, bool is_order) {
  if (!is_order) {
    watches_.unwatch(order);
    reverts_.erase(order);
  }
}

void ManifestWork::tell(Turn& turn, const DeliveryStatus& status) {
  if (ClientAgent* const agent = agents_(turn.order.client)) {
    agent->tell(turn.order.uid, turn.record, status);
  }
}

net::Task<Outcome> ManifestWork::reconcile(OrderName order, Step step) {
  ClientAgent* agent = agents_(order.client);
  const ManifestRecord* const found = agent == nullptr ? nullptr : agent->find(order.uid);
  if (found == nullptr) {
    co_return Outcome::done();
  }
  Turn turn{order, step, *found, {}};
  if (turn.record.state == ManifestState::kDeleted) {
    if (!turn.record.answered) {
      tell(turn, deleted_status(true, "Success", "", nullptr));
    }
    co_return Outcome::done();
  }
  net::Task<Expected<std::optional<TargetKind>>> asking =
      watches_.kind(order.cluster, turn.record.api_version, turn.record.kind);
  Expected<std::optional<TargetKind>> kind = co_await asking;
  if (!kind) {
    co_return Outcome::error();
  }
  if (!*kind) {
    watches_.unwatch(order);
    const Duration again = watches_.ask_again(order.cluster, turn.record.api_version);
    const std::string message =
        turn.record.kind + " of " + turn.record.api_version + " is not served";
    if (turn.record.deleting) {
      tell(turn, deleted_status(false, "DeleteFailed", message, nullptr));
      co_return Outcome::requeue_after(again);
    }
    turn.record.content_hash.clear();
    co_return degraded(turn, "KindNotServed", message, nullptr, again);
  }
  turn.kind = **kind;
  if (turn.kind.namespaced && turn.record.ns.empty()) {
    const std::string message =
        "Cant " + std::string(turn.record.deleting ? "delete " : "create ") +
        turn.record.api_version + " " + turn.record.kind + " without .metadata.namespace";
    if (turn.record.deleting) {
      tell(turn, deleted_status(false, "DeleteFailed", message, nullptr));
    } else {
      (void)degraded(turn, "CreateFailed", message, nullptr, Duration{});
    }
    co_return Outcome::done();
  }
  watches_.watch(order, turn.kind, turn.record);
  net::Task<bool> waiting = synced(order);
  const bool read = co_await waiting;
  if (!read && watches_.refusal(order) == 403) {
    const std::string message = "the worker may not watch " + turn.kind.resource.name;
    if (turn.record.deleting) {
      tell(turn, deleted_status(false, "DeleteFailed", message, nullptr));
      co_return Outcome::requeue_after(kWatchAgain);
    }
    co_return degraded(turn, "Forbidden", message, nullptr, kWatchAgain);
  }
  if (!read) {
    co_return Outcome::error();
  }
  const bool deleting = turn.record.deleting;
  if (deleting) {
    net::Task<Outcome> removing = remove(std::move(turn));
    Outcome outcome = co_await removing;
    co_return outcome;
  }
  net::Task<Outcome> applying = apply(std::move(turn));
  Outcome outcome = co_await applying;
  co_return outcome;
}

/// What is there is known, or the server does not tell us, or nobody says within a time.
net::Task<bool> ManifestWork::synced(OrderName order) {
  const TimePoint until = unit_.loop().now() + kSync;
  while (unit_.loop().now() < until && watches_.cache(order) != nullptr) {
    if (watches_.cache(order)->synced()) {
      co_return true;
    }
    if (watches_.refusal(order) != 0) {
      co_return false;
    }
    net::Sleep rest(unit_.loop(), kSyncLook);
    co_await rest;
  }
  co_return false;
}

Outcome ManifestWork::degraded(Turn& turn, std::string_view reason, std::string message,
                               const Target* target, Duration again) {
  turn.record.state = ManifestState::kDegraded;
  tell(turn, reconciled_status(false, reason, std::move(message), target));
  return again == Duration{} ? Outcome::done() : Outcome::requeue_after(again);
}

/// A write of the object was not taken.
Outcome ManifestWork::refused(Turn& turn, const ApiAnswer& answer, bool creating) {
  if (answer.cause == Errc::kCancelled || is_for_later(answer)) {
    return outcome_of(answer, RequestKind::kUpdate);
  }
  if (is_kind_going(answer) || (answer.is(404) && !is_missing(answer))) {
    watches_.forget_kind(turn.order.cluster, turn.record.api_version);
    return Outcome::error();
  }
  if (answer.is(403) && !is_judged(answer)) {
    return degraded(turn, "Forbidden", words(answer), nullptr, kForbiddenAgain);
  }
  return degraded(turn, creating ? "CreateFailed" : "UpdateFailed", words(answer), nullptr,
                  kRefusedAgain);
}

DeliveryStatus ManifestWork::applied_status(const Turn& turn, const Target& target) {
  const bool ignored = !turn.record.ns.empty() && !turn.kind.namespaced;
  return reconciled_status(true, "Success", std::string(ignored ? kNoNamespaces : ""), &target);
}

net::Task<Outcome> ManifestWork::apply(Turn turn) {
  shards::ObjectKey key;
  ObjectCache<Target>* const cache = watches_.cache(turn.order);
  if (cache == nullptr || !watches_.find(turn.order, key)) {
    co_return Outcome::error();
  }
  const Expected<const Target*> found = cache->find(key);
  const Target* const seen = found ? *found : nullptr;
  const bool ours = seen != nullptr && seen->server_uid == turn.order.uid;
  if (turn.record.state == ManifestState::kApplied) {
    if (ours && seen->content_hash == turn.record.content_hash) {
      tell(turn, applied_status(turn, *seen));
      co_return Outcome::done();
    }
    const TimePoint now = unit_.loop().now();
    if (const Duration rest = reverts_[turn.order].wait(now); rest > Duration::zero()) {
      if (reverts_[turn.order].contended(now)) {
        tell(turn, reconciled_status(false, "Contended", std::string(kContended), seen));
      }
      co_return Outcome::requeue_after(rest);
    }
  }
  std::string revision;
  if (ours) {
    revision = seen->revision;
  } else {
    const std::string path = turn.kind.path(turn.order.cluster, turn.record);
    net::Task<ApiAnswer> asking = unit_.home().get(path);
    const ApiAnswer there = co_await asking;
    if (there.ok()) {
      const Target target = make_target(there.body);
      if (!may_own(target, turn.order.uid, config_.adopt)) {
        co_return degraded(turn, "NotOwned",
                           target.server_uid.empty() ? "the object is not one of an order"
                                                     : "the object is that of another uid",
                           nullptr, kRefusedAgain);
      }
    } else if (!is_missing(there)) {
      co_return refused(turn, there, true);
    }
  }
  net::Task<Outcome> sending = send_apply(std::move(turn), std::move(revision));
  Outcome outcome = co_await sending;
  co_return outcome;
}

net::Task<Outcome> ManifestWork::send_apply(Turn turn, std::string known_revision) {
  ClientAgent* agent = agents_(turn.order.client);
  std::optional<krm::Json> manifest;
  if (agent != nullptr) {
    manifest = agent->manifest(turn.order.uid);
  }
  if (!manifest) {
    co_return Outcome::terminal();  // the next message for it brings it
  }
  const bool was_applied = turn.record.state == ManifestState::kApplied;
  ApiWrite write;
  write.method = "PATCH";
  write.path = turn.kind.path(turn.order.cluster, turn.record) +
               "?fieldManager=" + std::string(kFieldManager) + "&force=true";
  write.content_type = kApplyType;
  write.body = apply_body(std::move(*manifest), turn.record, turn.order.uid, turn.kind.namespaced);
  net::Task<ApiAnswer> writing = unit_.write_home(turn.step, std::move(write));
  const ApiAnswer answer = co_await writing;
  if (!answer.ok()) {
    co_return refused(turn, answer, known_revision.empty());
  }
  if (ObjectCache<Target>* const cache = watches_.cache(turn.order)) {
    cache->lay(answer.body, unit_.loop().now());
  }
  const Target target = make_target(answer.body);
  agent = agents_(turn.order.client);
  if (was_applied && agent != nullptr && target.revision != known_revision) {
    reverts_[turn.order].reverted(unit_.loop().now());
    ++agent->counts().reverts;
  }
  turn.record.state = ManifestState::kApplied;
  turn.record.content_hash = target.content_hash;
  const bool contended = reverts_[turn.order].contended(unit_.loop().now());
  tell(turn, contended ? reconciled_status(false, "Contended", std::string(kContended), &target)
                       : applied_status(turn, target));
  co_return Outcome::done();
}

Outcome ManifestWork::gone(Turn& turn) {
  turn.record.state = ManifestState::kDeleted;
  tell(turn, deleted_status(true, "Success", "", nullptr));
  watches_.unwatch(turn.order);
  return Outcome::done();
}

net::Task<Outcome> ManifestWork::remove(Turn turn) {
  const std::string path = turn.kind.path(turn.order.cluster, turn.record);
  net::Task<ApiAnswer> asking = unit_.home().get(path);
  const ApiAnswer there = co_await asking;
  if (is_missing(there)) {
    co_return gone(turn);
  }
  if (!there.ok()) {
    if (there.is(403)) {
      tell(turn, deleted_status(false, "DeleteFailed", words(there), nullptr));
      co_return Outcome::requeue_after(kForbiddenAgain);
    }
    co_return Outcome::error();
  }
  Target target = make_target(there.body);
  if (!turn.record.target_uid.empty() && turn.record.target_uid != target.uid) {
    co_return gone(turn);  // another object by that name
  }
  if (turn.record.target_uid.empty() && target.server_uid != turn.order.uid) {
    tell(turn, deleted_status(false, "NotOwned", "the object is not one of this order", nullptr));
    co_return Outcome::requeue_after(kForbiddenAgain);
  }
  if (!target.deleting) {
    net::Task<Outcome> sending = send_delete(std::move(turn), std::move(target));
    Outcome outcome = co_await sending;
    co_return outcome;
  }
  turn.record.target_uid = target.uid;
  tell(turn, deleted_status(false, "WaitingForFinalizers", join(target.finalizers, ", "), &target));
  co_return Outcome::requeue_after(kWaitAgain);
}

net::Task<Outcome> ManifestWork::send_delete(Turn turn, Target target) {
  ClientAgent* const agent = agents_(turn.order.client);
  turn.record.target_uid = target.uid;
  if (agent == nullptr || !agent->update(turn.order.uid, turn.record)) {
    co_return Outcome::done();  // another order came
  }
  ApiWrite write;
  write.method = "DELETE";
  write.path = turn.kind.path(turn.order.cluster, turn.record);
  write.body = krm::Json::object({{"apiVersion", "v1"},
                                  {"kind", "DeleteOptions"},
                                  {"propagationPolicy", "Background"},
                                  {"preconditions", krm::Json::object({{"uid", target.uid}})}})
                   .dump();
  net::Task<ApiAnswer> writing = unit_.write_home(turn.step, std::move(write));
  const ApiAnswer answer = co_await writing;
  if (answer.ok() || answer.is(404) || answer.is(409)) {
    co_return Outcome::requeue_after(milliseconds(1));  // what is there now decides
  }
  if (answer.cause != Errc::kCancelled && !is_for_later(answer)) {
    tell(turn, deleted_status(false, "DeleteFailed", words(answer), &target));
    co_return Outcome::requeue_after(answer.is(403) ? kForbiddenAgain : kRefusedAgain);
  }
  co_return outcome_of(answer, RequestKind::kUpdate);
}

}  // namespace kintsugi::workers
