#include "workers/messaging/control/internal/endpoint_services.h"

#include <functional>
#include <utility>

#include "workers/messaging/control/site.h"
#include "workers/runtime/control/outcome_of.h"

namespace kintsugi::workers {

namespace {

constexpr Duration kAgain = std::chrono::minutes(10), kAfterFault = seconds(10);

std::string path_of(const Key& infra, const ResourcePlace& place, std::string_view name) {
  return krm::cluster_root(infra.cluster)
      .append(place.base)
      .append("/namespaces/")
      .append(infra.ns)
      .append("/")
      .append(place.plural)
      .append("/")
      .append(name);
}

Condition created(ConditionStatus status, std::string_view reason, std::string message = {}) {
  Condition out;
  out.type = "ServiceCreated";
  out.status = status;
  out.reason = reason;
  out.message = std::move(message);
  return out;
}

}  // namespace

std::optional<Condition> EndpointServices::find(const ObjectRefKey& endpoint) const {
  const auto at = written_.find(text_of(endpoint));
  return at == written_.end() ? std::nullopt : std::optional(at->second.condition);
}

net::Task<Outcome> EndpointServices::settle(ObjectRefKey endpoint, Key infra,
                                            std::vector<krm::Json> wanted,
                                            std::vector<std::string> recorded) {
  std::vector<std::string> left = left_over(recorded, resource_texts(wanted));
  if (!left.empty()) {
    net::Task<Outcome> removing = remove(endpoint, infra, std::move(left));
    const Outcome removed = co_await removing;
    if (removed.kind != Outcome::Kind::kDone) {
      co_return removed;
    }
  }
  if (wanted.empty()) {
    forget(endpoint);
    co_return Outcome::done();
  }
  net::Task<Outcome> writing = write(endpoint, std::move(infra), std::move(wanted));
  const Outcome outcome = co_await writing;
  co_return outcome;
}

net::Task<Outcome> EndpointServices::write(ObjectRefKey endpoint, Key infra,
                                           std::vector<krm::Json> wanted) {
  const std::string text = text_of(endpoint);
  std::string whole;
  for (const krm::Json& one : wanted) {
    whole += one.dump();
  }
  const std::size_t hash = std::hash<std::string>{}(whole);
  const TimePoint now = site_.unit().loop().now();
  if (const auto at = written_.find(text); at != written_.end() && at->second.hash == hash) {
    const bool good = at->second.condition.status == ConditionStatus::kTrue;
    if (now - at->second.at < (good ? kAgain : kAfterFault)) {
      co_return Outcome::done();
    }
  }
  Written written{hash, now, created(ConditionStatus::kTrue, "ServiceCreated")};
  for (const krm::Json& one : wanted) {
    const std::string kind(one.text({"kind"}));
    const ResourcePlace* const place = resource_place(kind);
    ApiWrite write;
    write.method = "PATCH";
    write.path = path_of(infra, *place, one.text({"metadata", "name"}));
    write.path.append("?force=true&fieldManager=kintsugi-messaging");
    write.content_type = "application/apply-patch+yaml";
    write.body = one.dump();
    const Step step = site_.step(endpoint);
    net::Task<ApiAnswer> writing = site_.unit().write_home(step, std::move(write));
    const ApiAnswer answer = co_await writing;
    if (answer.is(400) || answer.is(403) || answer.is(404) || answer.is(422)) {
      written.condition = created(ConditionStatus::kFalse,
                                  answer.is(403)   ? std::string_view("Forbidden")
                                  : answer.is(404) ? std::string_view("NotServed")
                                                   : std::string_view("Refused"),
                                  kind + ": " + answer.text());
      break;
    }
    if (!answer.ok()) {
      co_return outcome_of(answer, RequestKind::kUpdate);
    }
  }
  written_[text] = std::move(written);
  co_return Outcome::done();
}

net::Task<Outcome> EndpointServices::remove(ObjectRefKey endpoint, Key infra,
                                            std::vector<std::string> texts) {
  for (const std::string& one : texts) {
    const std::size_t slash = one.find('/');
    const ResourcePlace* const place = resource_place(one.substr(0, slash));
    if (place == nullptr || slash == std::string::npos) {
      continue;
    }
    ApiWrite write;
    write.method = "DELETE";
    write.path = path_of(infra, *place, std::string_view(one).substr(slash + 1));
    const Step step = site_.step(endpoint);
    net::Task<ApiAnswer> writing = site_.unit().write_home(step, std::move(write));
    const ApiAnswer answer = co_await writing;
    if (!answer.ok() && !answer.is(404) && !answer.is(403)) {
      co_return outcome_of(answer, RequestKind::kDelete);
    }
  }
  co_return Outcome::done();
}

}  // namespace kintsugi::workers
