#include "workers/messaging/control/internal/operators.h"

#include <utility>

#include "workers/messaging/control/site.h"
#include "workers/runtime/control/outcome_of.h"

namespace kintsugi::workers {

namespace {

constexpr std::string_view kManager = "kintsugi-messaging";
constexpr std::string_view kApply = "application/apply-patch+yaml";
constexpr std::string_view kInterconnects = "interconnects", kArtemises = "activemqartemises";

std::string place(const Key& infra, std::string_view base, std::string_view resource) {
  return krm::cluster_root(infra.cluster)
      .append(base)
      .append("/namespaces/")
      .append(infra.ns)
      .append("/")
      .append(resource);
}

std::string resources(const Key& infra, bool broker) {
  const std::string base = "/apis/" + std::string(broker ? kArtemisVersion : kInterconnectVersion);
  return place(infra, base, broker ? kArtemises : kInterconnects);
}

/// Of a pod what operator_components() and router_zones() look at.
krm::Json small(const krm::Json& pod) {
  krm::Json out = krm::Json::object();
  krm::Json& metadata = out["metadata"];
  for (const std::string_view key : {"name", "namespace", "labels", "deletionTimestamp"}) {
    if (const krm::Json* const value = pod.at({"metadata", key})) {
      metadata[key] = *value;
    }
  }
  out["status"] = krm::Json::object({{"podIP", pod.text({"status", "podIP"})}});
  return out;
}

Condition fault_of(bool broker, std::string_view reason, std::string message) {
  Condition out;
  out.type = broker ? "BrokersCreated" : "RoutersCreated";
  out.status = ConditionStatus::kFalse;
  out.reason = reason;
  out.message = std::move(message);
  return out;
}

}  // namespace

net::Task<Operators::Listed> Operators::list(std::string path) {
  Listed out;
  const std::string what = path.substr(path.rfind('/') + 1);
  net::Task<ApiAnswer> asking = site_.unit().home().get(std::move(path));
  ApiAnswer answer = co_await asking;
  if (answer.is(404) || answer.is(403)) {
    out.reason = answer.is(404) ? std::string_view("OperatorNotInstalled") : "Forbidden";
    out.refused = what.substr(0, what.find('?')) + ": " + answer.text();
    co_return out;
  }
  if (!answer.ok()) {
    out.outcome = outcome_of(answer, RequestKind::kRead);
    if (out.outcome.kind == Outcome::Kind::kDone) {
      out.outcome = Outcome::error();
    }
    co_return out;
  }
  if (const krm::Json* const items = answer.body.find("items")) {
    out.items.assign(items->items().begin(), items->items().end());
  }
  co_return out;
}

Operators::Known* Operators::find(const Key& infra) {
  const auto at = known_.find(infra_text(infra));
  return at == known_.end() ? nullptr : &at->second;
}

net::Task<Outcome> Operators::read(Key infra, bool routers, bool brokers, Duration age) {
  const TimePoint now = site_.unit().loop().now();
  if (const Known* const known = find(infra); known != nullptr && now - known->read_at < age) {
    co_return Outcome::done();
  }
  Known next;
  next.read_at = now;
  for (const bool broker : {false, true}) {
    if (!(broker ? brokers : routers)) {
      continue;
    }
    net::Task<Listed> listing = list(resources(infra, broker));
    Listed found = co_await listing;
    std::string pods_path = place(infra, "/api/v1", "pods");
    pods_path.append("?labelSelector=").append(broker ? "ActiveMQArtemis" : "interconnect_cr");
    Listed pods;
    if (!found.refused && found.outcome.kind == Outcome::Kind::kDone) {
      net::Task<Listed> listing_pods = list(std::move(pods_path));
      pods = co_await listing_pods;
    }
    for (Listed* const one : {&found, &pods}) {
      if (one->outcome.kind != Outcome::Kind::kDone) {
        co_return one->outcome;
      }
      if (one->refused) {
        std::optional<Condition> fault = fault_of(broker, one->reason, std::move(*one->refused));
        Known* const known = find(infra);
        if (known != nullptr && one->reason == "Forbidden") {
          // What is there is there although nobody may see it now.
          (broker ? known->brokers_fault : known->routers_fault) = std::move(fault);
          known->read_at = now;
          co_return Outcome::done();
        }
        (broker ? next.brokers_fault : next.routers_fault) = std::move(fault);
      }
    }
    (broker ? next.view.brokers : next.view.routers) = std::move(found.items);
    for (const krm::Json& pod : pods.items) {
      next.view.pods.push_back(small(pod));
    }
  }
  Known& known = known_[infra_text(infra)];
  next.components = std::move(known.components);
  known = std::move(next);
  co_return Outcome::done();
}

net::Task<Outcome> Operators::write(Key infra, OperatorPlan plan) {
  const Step step = site_.step({MessagingKind::kInfra, infra});
  const auto refuse = [&](bool broker, std::string_view reason, std::string message) {
    if (Known* const known = find(infra)) {
      std::optional<Condition>& fault = broker ? known->brokers_fault : known->routers_fault;
      fault = fault_of(broker, reason, std::move(message));
    }
  };
  for (const krm::Json& one : plan.apply) {
    const bool broker = one.text({"apiVersion"}) == kArtemisVersion;
    const std::string name(one.text({"metadata", "name"}));
    ApiWrite write;
    write.method = "PATCH";
    write.path = resources(infra, broker);
    write.path.append("/").append(name).append("?force=true&fieldManager=").append(kManager);
    write.content_type = kApply;
    write.body = one.dump();
    net::Task<ApiAnswer> writing = site_.unit().write_home(step, std::move(write));
    const ApiAnswer answer = co_await writing;
    if (answer.is(403) || answer.is(404) || answer.is(422) || answer.is(400)) {
      std::string message = name;
      message.append(": ").append(answer.text());
      refuse(broker, answer.is(403) ? "Forbidden" : "Refused", std::move(message));
      continue;
    }
    if (!answer.ok()) {
      co_return outcome_of(answer, RequestKind::kUpdate);
    }
    if (Known* const known = find(infra)) {
      known->read_at = TimePoint{};
    }
  }
  for (const OperatorPlan::Removal& one : plan.remove) {
    ApiWrite write;
    write.method = "DELETE";
    write.path = resources(infra, one.broker);
    write.path.append("/").append(one.name);
    net::Task<ApiAnswer> writing = site_.unit().write_home(step, std::move(write));
    const ApiAnswer answer = co_await writing;
    if (answer.is(403)) {
      std::string message = one.name;
      message.append(": ").append(answer.text());
      refuse(one.broker, "Forbidden", std::move(message));
      continue;
    }
    if (!answer.ok() && !answer.is(404)) {
      co_return outcome_of(answer, RequestKind::kDelete);
    }
    if (Known* const known = find(infra)) {
      known->read_at = TimePoint{};
    }
  }
  co_return Outcome::done();
}

}  // namespace kintsugi::workers
