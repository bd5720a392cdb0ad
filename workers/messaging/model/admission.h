#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "workers/messaging/model/age.h"
#include "workers/messaging/model/objects.h"

namespace kintsugi::workers {

/// What an infra has room for at its largest scale. Absent: not bounded, or not known yet.
struct InfraCapacity {
  std::optional<std::int64_t> queue_memory, addresses, connections;
  bool operator==(const InfraCapacity&) const = default;
};
inline constexpr std::int64_t kMostInfraAddresses = 100'000;  ///< MR-25

/// Bytes for queues at one broker: spec.brokers.queueMemory, else half of the pod's memory limit,
/// else what brokers say of themselves. nullopt: not known.
/// @param told  least GlobalMaxSize that a broker told, 0 for none.
[[nodiscard]] std::optional<std::int64_t> broker_memory(const MessagingInfra& infra,
                                                        std::int64_t told);
[[nodiscard]] InfraCapacity infra_capacity(const MessagingInfra& infra,
                                           std::optional<std::int64_t> memory_of_broker);

/// Feasible: whether one space of a plan fits at the largest scale, all else empty (MS-077).
[[nodiscard]] Condition plan_feasible(const PlanRequests& requests, const InfraCapacity& capacity);
/// ⌈requests / connectionsPerRouter⌉ of each group within min..max (MS-078).
[[nodiscard]] std::int64_t routers_wanted(const MessagingInfra& infra, std::int64_t connections);

/// Which spaces fit into one infra: Σ requests of their plans stays within its capacity (MS-077).
/// Who is in stays in, also when the capacity shrinks or its plan grows; who waits is tried again,
/// oldest first, whenever room may have come. No I/O. Memory: about 200 B a space. Threads: one.
class SpaceAdmission {
 public:
  /// Called now and then: whoever waits has another answer then, if what others have is another sum
  /// since the last call.
  void set_capacity(const InfraCapacity& capacity);
  /// @param recorded  the status says that it was let in: it stays in.
  void set_space(const Age& age, const PlanRequests& requests, bool recorded);
  void remove(ObjectId space);
  [[nodiscard]] bool is_in(ObjectId space) const noexcept;
  /// InfraBound=False/InsufficientCapacity of one that waits; nullopt when it is in or unknown.
  [[nodiscard]] std::optional<Condition> refused(ObjectId space) const;
  /// Spaces whose answer is another one since the last call, oldest first.
  [[nodiscard]] std::vector<ObjectId> take_changed();
  /// Σ of those let in.
  [[nodiscard]] const PlanRequests& requested() const noexcept { return requested_; }
  [[nodiscard]] std::size_t spaces() const noexcept { return spaces_.size(); }

 private:
  struct Space {
    Age age;
    PlanRequests requests;
    bool in = false;
  };
  [[nodiscard]] std::string excess(const PlanRequests& requests) const;
  void retry();

  InfraCapacity capacity_;
  PlanRequests requested_, told_;  // told_: at the last set_capacity()
  std::unordered_map<ObjectId, Space> spaces_;
  std::set<Age> waiting_;
  std::set<Age> changed_;
};

/// limits.addresses of one space: the oldest are in, the others wait (MS-019). O(log n) an event;
/// without a limit no address is kept. No I/O. Threads: one.
class AddressLimit {
 public:
  /// @param limit  nullopt: none. From none to one every address must be added anew.
  void set_limit(std::optional<std::int64_t> limit);
  /// Adds it, once or again.
  void add(const Age& age);
  void remove(const Age& age);
  [[nodiscard]] bool is_in(const Age& age) const { return !limit_ || in_.contains(age); }
  /// Scheduled=False/AddressLimitExceeded.
  [[nodiscard]] Condition refused() const;
  /// Addresses whose answer is another one since the last call, oldest first.
  [[nodiscard]] std::vector<ObjectId> take_changed();

 private:
  void level();

  std::optional<std::int64_t> limit_;
  std::set<Age> in_, out_, changed_;
};

}  // namespace kintsugi::workers
