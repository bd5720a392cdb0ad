#include "workers/messaging/model/admission.h"

#include <algorithm>
#include <limits>

#include "krm/quantity.h"
#include "workers/messaging/model/condition_of.h"

namespace kintsugi::workers {

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

std::int64_t times(std::int64_t a, std::int64_t b) noexcept {
  return b != 0 && a > kMost / b ? kMost : a * b;
}
std::int64_t plus(std::int64_t a, std::int64_t b) noexcept { return a > kMost - b ? kMost : a + b; }

/// "queueMemory 5 of 3" for what does not fit; "" when all does.
std::string excess_of(const PlanRequests& used, const PlanRequests& more,
                      const InfraCapacity& capacity) {
  std::string text;
  const auto check = [&text](std::string_view what, std::int64_t had, std::int64_t wanted,
                             const std::optional<std::int64_t>& most) {
    if (most && wanted > 0 && (had > *most || wanted > *most - had)) {
      text += (text.empty() ? "" : ", ") + std::string(what) + " " + std::to_string(wanted) +
              " with " + std::to_string(std::max<std::int64_t>(0, *most - had)) + " of " +
              std::to_string(*most) + " left";
    }
  };
  check("queueMemory", used.queue_memory, more.queue_memory, capacity.queue_memory);
  check("addresses", used.addresses, more.addresses, capacity.addresses);
  check("connections", used.connections, more.connections, capacity.connections);
  return text;
}

}  // namespace

std::optional<std::int64_t> broker_memory(const MessagingInfra& infra, std::int64_t told) {
  if (infra.brokers.queue_memory) {
    return infra.brokers.queue_memory;
  }
  const krm::Json* limit = infra.brokers.pod_template.at({"spec", "resources", "limits", "memory"});
  if (limit != nullptr) {
    const std::string text =
        limit->is_string() ? std::string(limit->as_string()) : std::to_string(limit->as_integer());
    if (const auto bytes = krm::Quantity::parse(text)) {
      if (const std::int64_t value = bytes->ceiling(); value > 0) {
        return value / 2;
      }
    }
  }
  return told > 0 ? std::optional(told) : std::nullopt;
}

InfraCapacity infra_capacity(const MessagingInfra& infra,
                             std::optional<std::int64_t> memory_of_broker) {
  InfraCapacity capacity;
  if (memory_of_broker) {
    capacity.queue_memory = times(infra.most_brokers(), *memory_of_broker);
  }
  capacity.addresses = kMostInfraAddresses;
  if (infra.routers.connections_per_router) {
    capacity.connections =
        times(infra.declared_routers(infra.routers.max), *infra.routers.connections_per_router);
  }
  return capacity;
}

Condition plan_feasible(const PlanRequests& requests, const InfraCapacity& capacity) {
  const std::string excess = excess_of({}, requests, capacity);
  if (!excess.empty()) {
    return refusal("Feasible", "ExceedsInfraMaximum",
                   "one space does not fit at the largest scale: " + excess);
  }
  Condition condition;
  condition.type = "Feasible";
  condition.status = ConditionStatus::kTrue;
  condition.reason = "Feasible";
  return condition;
}

std::int64_t routers_wanted(const MessagingInfra& infra, std::int64_t connections) {
  const MessagingInfra::Routers& routers = infra.routers;
  if (!routers.connections_per_router) {
    return routers.min;
  }
  const std::int64_t each = *routers.connections_per_router;
  const std::int64_t needed = connections / each + (connections % each != 0 ? 1 : 0);
  return std::clamp(needed, routers.min, routers.max);
}

std::string SpaceAdmission::excess(const PlanRequests& requests) const {
  return excess_of(requested_, requests, capacity_);
}

void SpaceAdmission::set_capacity(const InfraCapacity& capacity) {
  if (capacity_ == capacity && told_ == requested_) {
    return;
  }
  capacity_ = capacity;
  changed_.insert(waiting_.begin(), waiting_.end());  // their message is another one
  retry();
  told_ = requested_;
}

void SpaceAdmission::set_space(const Age& age, const PlanRequests& requests, bool recorded) {
  const auto found = spaces_.find(age.object);
  const bool stays = recorded || (found != spaces_.end() && found->second.in);
  if (found != spaces_.end()) {
    if (found->second.in) {
      requested_.queue_memory -= found->second.requests.queue_memory;
      requested_.addresses -= found->second.requests.addresses;
      requested_.connections -= found->second.requests.connections;
    }
    waiting_.erase(found->second.age);
    changed_.erase(found->second.age);
  }
  Space& space = spaces_[age.object];
  space.age = age;
  space.requests = requests;
  space.in = false;
  if (stays) {
    space.in = true;
    requested_.queue_memory = plus(requested_.queue_memory, requests.queue_memory);
    requested_.addresses = plus(requested_.addresses, requests.addresses);
    requested_.connections = plus(requested_.connections, requests.connections);
  } else {
    waiting_.insert(age);
  }
  changed_.insert(age);
  retry();
}

void SpaceAdmission::remove(ObjectId object) {
  const auto found = spaces_.find(object);
  if (found == spaces_.end()) {
    return;
  }
  const Space space = found->second;
  spaces_.erase(found);
  waiting_.erase(space.age);
  changed_.erase(space.age);
  if (space.in) {
    requested_.queue_memory -= space.requests.queue_memory;
    requested_.addresses -= space.requests.addresses;
    requested_.connections -= space.requests.connections;
    retry();
  }
}

bool SpaceAdmission::is_in(ObjectId space) const noexcept {
  const auto found = spaces_.find(space);
  return found != spaces_.end() && found->second.in;
}

/// Whoever fits goes in, oldest first.
void SpaceAdmission::retry() {
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    Space& space = spaces_.at(at->object);
    if (!excess(space.requests).empty()) {
      ++at;
      continue;
    }
    space.in = true;
    requested_.queue_memory += space.requests.queue_memory;
    requested_.addresses += space.requests.addresses;
    requested_.connections += space.requests.connections;
    changed_.insert(space.age);
    at = waiting_.erase(at);
  }
}

std::optional<Condition> SpaceAdmission::refused(ObjectId object) const {
  const auto found = spaces_.find(object);
  if (found == spaces_.end() || found->second.in) {
    return std::nullopt;
  }
  return refusal(
      "InfraBound", "InsufficientCapacity",
      "the infra has no room for the plan's requests: " + excess(found->second.requests));
}

std::vector<ObjectId> SpaceAdmission::take_changed() {
  std::vector<ObjectId> out;
  for (const Age& age : changed_) {
    out.push_back(age.object);
  }
  changed_.clear();
  return out;
}

void AddressLimit::set_limit(std::optional<std::int64_t> limit) {
  if (limit && *limit < 0) {
    limit = 0;
  }
  if (!limit) {
    changed_.insert(out_.begin(), out_.end());
    in_.clear();
    out_.clear();
  }
  limit_ = limit;
  level();
}

void AddressLimit::add(const Age& age) {
  if (!limit_ || in_.contains(age) || out_.contains(age)) {
    return;
  }
  out_.insert(age);
  changed_.insert(age);
  level();
}

void AddressLimit::remove(const Age& age) {
  in_.erase(age);
  out_.erase(age);
  changed_.erase(age);
  level();
}

/// The oldest of those out change places with the youngest of those in, until all is in order.
void AddressLimit::level() {
  if (!limit_) {
    return;
  }
  const auto most = static_cast<std::size_t>(*limit_);
  const auto youngest_out = [this] {
    auto node = in_.extract(std::prev(in_.end()));
    changed_.insert(node.value());
    out_.insert(std::move(node));
  };
  while (in_.size() > most) {
    youngest_out();
  }
  while (!out_.empty() && most > 0 &&
         (in_.size() < most || *out_.begin() < *std::prev(in_.end()))) {
    if (in_.size() == most) {
      youngest_out();
    }
    auto node = out_.extract(out_.begin());
    changed_.insert(node.value());
    in_.insert(std::move(node));
  }
}

Condition AddressLimit::refused() const {
  return refusal("Scheduled", "AddressLimitExceeded",
                 "the plan limits the space to " + std::to_string(limit_.value_or(0)) +
                     " addresses, and older ones have them");
}

std::vector<ObjectId> AddressLimit::take_changed() {
  std::vector<ObjectId> out;
  for (const Age& age : changed_) {
    out.push_back(age.object);
  }
  changed_.clear();
  return out;
}

}  // namespace kintsugi::workers
