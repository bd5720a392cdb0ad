#include "workers/messaging/model/port_pool.h"

#include <algorithm>

namespace kintsugi::workers {

void PortPool::set_range(std::int64_t first, std::int64_t last) {
  first_ = first;
  last_ = last;
}

std::optional<std::int64_t> PortPool::allocate(std::string_view owner) {
  if (const auto found = owners_.find(owner); found != owners_.end()) {
    found->second.tombstone = false;
    return found->second.port;
  }
  std::int64_t port = first_;
  for (auto at = used_.lower_bound(first_); at != used_.end() && *at == port; ++at) {
    ++port;
  }
  if (!in_range(port)) {
    return std::nullopt;
  }
  used_.insert(port);
  owners_.emplace(owner, Port{port, false});
  return port;
}

bool PortPool::assume(std::string_view owner, std::int64_t port) {
  const auto found = owners_.find(owner);
  if (found != owners_.end() && found->second.port == port) {
    found->second.tombstone = false;
    return true;
  }
  if (found != owners_.end() || !in_range(port) || !used_.insert(port).second) {
    return false;
  }
  owners_.emplace(owner, Port{port, false});
  return true;
}

void PortPool::release(std::string_view owner) {
  if (const auto found = owners_.find(owner); found != owners_.end()) {
    found->second.tombstone = true;
  }
}

void PortPool::cleared(std::string_view owner) {
  const auto found = owners_.find(owner);
  if (found != owners_.end() && found->second.tombstone) {
    used_.erase(found->second.port);
    owners_.erase(found);
  }
}

std::optional<std::int64_t> PortPool::port(std::string_view owner) const {
  const auto found = owners_.find(owner);
  return found == owners_.end() || found->second.tombstone ? std::nullopt
                                                           : std::optional(found->second.port);
}

bool PortPool::is_tombstone(std::string_view owner) const {
  const auto found = owners_.find(owner);
  return found != owners_.end() && found->second.tombstone;
}

std::int64_t PortPool::free() const noexcept {
  const auto taken = std::distance(used_.lower_bound(first_), used_.upper_bound(last_));
  return std::max<std::int64_t>(0, last_ - first_ + 1 - taken);
}

Condition PortPool::exhausted() const {
  Condition condition;
  condition.type = "AllocatedPorts";
  condition.status = ConditionStatus::kFalse;
  condition.reason = "PortsExhausted";
  condition.message = "all ports from " + std::to_string(first_) + " to " + std::to_string(last_) +
                      " of the infra are in use";
  return condition;
}

}  // namespace kintsugi::workers
