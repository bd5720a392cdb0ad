#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "workers/messaging/model/age.h"
#include "workers/messaging/model/objects.h"

namespace kintsugi::workers {

/// A broker of an infra.
struct BrokerView {
  std::string host;
  std::int64_t index = 0;     ///< n of `<infra>-b<n>`, or its place among the endpoints
  std::int64_t capacity = 0;  ///< bytes for queues, up to 2^63-1
  bool connected = false;     ///< only such get new addresses
  bool excluded = false;      ///< keeps what it has, gets nothing new
};

/// What an address, or a space with transactions, needs of brokers.
struct AddressDemand {
  Age age;
  AddressType type = AddressType::kQueue;  ///< spaces: kQueue
  std::int64_t memory = 0;                 ///< bytes it requests, of all partitions together
  std::int64_t partitions_min = 1, partitions_max = 1;
  /// The space with transactions that it is in, or the topic of a subscription: it goes to that
  /// one's broker.
  std::optional<ObjectId> pinned_to;
  /// Its expiry and dead-letter queues of type queue: they are on each of its brokers (MD-9).
  std::vector<ObjectId> targets;
  /// What its status says. Taken as it is: nothing moves (MS-040).
  std::vector<std::string> recorded;
  bool reschedule = false;  ///< what was at brokers that are gone may move
};

enum class PlacingReason : std::uint8_t {
  kScheduled,
  kBrokerGone,         ///< is scheduled, but some broker is no more (MS-056)
  kMaxBrokersReached,  ///< fits nowhere, and there may be no more brokers
  kWaitingForBroker,   ///< fits nowhere; another broker is wanted, or one has not connected yet
  kWaitingForTopic,    ///< its topic has no broker yet
  kWaitingForSpace,    ///< its space has no broker yet
  kBrokerFull,         ///< may be at one broker only, which has no room for it
  kBrokerNotConnected  ///< may be at one broker only, which takes nothing now
};
[[nodiscard]] std::string_view placing_reason_text(PlacingReason reason) noexcept;

/// Where an address is.
struct AddressPlacing {
  std::vector<std::string> hosts;  ///< in the order of their indexes; those that are gone last
  PlacingReason reason = PlacingReason::kWaitingForBroker;
  std::string message;  ///< for the condition
  /// The condition Scheduled is True.
  [[nodiscard]] bool scheduled() const noexcept {
    return reason == PlacingReason::kScheduled || reason == PlacingReason::kBrokerGone;
  }
};

/// Places the addresses of one infra on its brokers with the placement library, policy kMostFree:
/// most free memory, fewest queues, name. Source: MS-038 to MS-041, MS-024, MS-056, MD-9.
/// A state machine without I/O: events go in, decide() tells whose placing is another one. What is
/// placed stays: only a broker that is gone and `reschedule` move an address. A deadLetter outside
/// of a space with transactions is on every broker, also on those to come. Expiry and dead-letter
/// queues are decided together with the addresses that name them; of one that is placed already the
/// new address goes to the same broker if it fits there, else the queue gets that broker, too.
/// Units: the library counts 2^31 of them; ours are 2^k bytes with the smallest k at which the
/// largest broker counts at most 2^28 (and what it has, 2^29). Requests are rounded up, capacities
/// down, so that the sum of requests never passes a capacity in bytes. A broker that shrinks keeps
/// what it has. Order of use: set_scale, set_broker for all, set for all, decide(); a status is
/// written with the resourceVersion as precondition before the first request; after a conflict
/// set() with what was read. Deterministic: who waits is tried oldest first. Cost: O(log brokers)
/// an event, and one look at each waiting address when room came. Memory: about 80 B an address.
/// Limits: 65,535 brokers, hosts 253 B. Threads: one.
class AddressScheduler {
 public:
  AddressScheduler();
  ~AddressScheduler();
  AddressScheduler(const AddressScheduler&) = delete;
  AddressScheduler& operator=(const AddressScheduler&) = delete;

  /// spec.brokers.min and max; for endpoints both are their number.
  void set_scale(std::int64_t min, std::int64_t max);
  /// New or changed.
  void set_broker(const BrokerView& broker);
  /// It is gone for good (endpoint or CR removed). Its addresses keep it: BrokerGone.
  void broker_gone(std::string_view host);

  /// New or changed; of types that brokers hold only.
  void set(ObjectId object, const AddressDemand& demand);
  /// Its queues are gone from the brokers: the room is free.
  void remove(ObjectId object);

  /// Decides what is due. @returns objects whose placing() is another one since the last call,
  /// oldest first, those that are new among them; not those that are where their status said when
  /// they came: after a restart that is everything.
  [[nodiscard]] std::vector<ObjectId> decide();
  [[nodiscard]] AddressPlacing placing(ObjectId object) const;
  /// The same without texts: whether it is scheduled on that broker.
  [[nodiscard]] bool is_on(ObjectId object, std::string_view host) const noexcept;

  /// How many brokers there should be (after decide()): one more than there are while some address
  /// fits nowhere, all have connected once, and max lets it; fewer when the last ones by index have
  /// no address at all. Never below min.
  [[nodiscard]] std::int64_t brokers_wanted() const;
  struct BrokerUse {
    std::int64_t queues = 0;  ///< addresses on it, deadLetters too
    std::int64_t memory = 0;  ///< bytes requested there
  };
  [[nodiscard]] BrokerUse use(std::string_view host) const;
  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] std::size_t waiting() const noexcept;
  /// Calls `visit(PlacingReason)` for each that waits. Cost: O(waiting).
  void each_waiting(const std::function<void(PlacingReason)>& visit) const;
  /// Addresses that went from a broker that is gone to another one.
  [[nodiscard]] std::uint64_t moves() const noexcept;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace kintsugi::workers
