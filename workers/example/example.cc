#include "workers/example/example.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "krm/json.h"
#include "krm/path_prefixes.h"
#include "workers/runtime/control/outcome_of.h"
#include "workers/runtime/status/conditions.h"
#include "workers/runtime/status/kept_json.h"
#include "workers/runtime/status/status_write.h"

namespace kintsugi::workers {
namespace {

const Resource kGreetings{"example.kintsugi.dev", "v1alpha1", "greetings", "Greeting"};
const ConditionRules kConditions{{"Ready"}, nullptr};

/// What is kept of a Greeting; the rest of the object is dropped when it has been read.
struct Greeting {
  std::string name;
  std::int64_t generation = 0;
  KeptJson status;
};

Projection<Greeting> projection() {
  Projection<Greeting> out;
  out.make = [](const shards::ObjectKey&, const krm::Json& object) {
    Greeting greeting;
    greeting.name = object.text({"spec", "name"});
    if (const krm::Json* generation = object.at({"metadata", "generation"})) {
      greeting.generation = generation->as_integer();
    }
    if (const krm::Json* status = object.find("status")) {
      greeting.status = KeptJson(*status);
    }
    return greeting;
  };
  return out;
}

krm::Json wanted(const Greeting& greeting, krm::Json status, std::string_view now) {
  status["message"] = "Hello, " + greeting.name + "!";
  status["observedGeneration"] = greeting.generation;
  Condition ready;
  ready.type = "Ready";
  ready.status = ConditionStatus::kTrue;
  ready.reason = "Said";
  ready.message = "hello was said";
  ready.observed_generation = greeting.generation;
  set_condition(status, kConditions, ready, now);
  return status;
}

class Work final : public RoleWork {
 public:
  explicit Work(Unit& unit)
      : unit_(unit),
        greetings_(unit.follow<Greeting>(kGreetings, projection())),
        controller_(unit.control(parameters(), ring_key,
                                 [this](Key key) { return reconcile(std::move(key)); })) {
    unit.drive(controller_, greetings_);
  }

 private:
  static Controller::Params parameters() {
    Controller::Params params;
    params.name = "greeting";
    return params;
  }

  /// All Greetings of a namespace go to one worker.
  static std::string ring_key(const QueueKey& key) {
    return std::string(key.cluster) + "|" + std::string(key.ns);
  }

  net::Task<Outcome> reconcile(Key key) {
    const Step step = unit_.step(controller_, key.view());
    const Expected<const Greeting*> found = greetings_->find({key.cluster, key.ns, key.name});
    if (!found) {
      co_return Outcome::error();  // not everything is read yet
    }
    if (*found == nullptr) {
      co_return Outcome::done();  // it is gone, and nothing of it is anywhere else
    }
    const krm::Json status = (*found)->status.value();
    std::optional<std::string> patch =
        status_patch(status, wanted(**found, status, rfc3339(unix_seconds())));
    if (!patch) {
      co_return Outcome::done();
    }
    ApiWrite write;
    write.method = "PATCH";
    write.path = krm::cluster_root(key.cluster) + kGreetings.base() + "/namespaces/" + key.ns +
                 "/greetings/" + key.name + "/status";
    write.body = std::move(*patch);
    write.content_type = kMergePatch;
    write.kind = WriteKind::kStatus;
    net::Task<ApiAnswer> writing = unit_.write(step, std::move(write));
    const ApiAnswer answer = co_await writing;
    if (answer.ok()) {
      greetings_->lay(answer.body, unit_.loop().now());
    }
    co_return outcome_of(answer, RequestKind::kUpdate);
  }

  Unit& unit_;
  CacheUse<Greeting> greetings_;
  Controller& controller_;
};

}  // namespace

Role example_role() {
  return {"example", [](Unit& unit) { return std::make_unique<Work>(unit); }};
}

}  // namespace kintsugi::workers
