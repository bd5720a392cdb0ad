#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "krm/json.h"
#include "net/loop.h"
#include "net/task.h"
#include "workers/messaging/control/internal/directory.h"
#include "workers/messaging/pipeline/component_pipeline.h"
#include "workers/runtime/status/event_recorder.h"

namespace kintsugi::workers {

class Site;

/// What people are told of one object, as an event.
struct Tale {
  bool warning = false;
  std::string reason;
  std::string note;
  [[nodiscard]] bool operator==(const Tale&) const = default;
};

/// What people are told when one status takes the place of another: bound, placed, ready, ready no
/// more, refused, degraded. Nothing of waiting, of what the deletion brings with it, and of a
/// condition whose status and reason stay. What is not ready from the start is told by the
/// condition that says why.
[[nodiscard]] std::vector<Tale> tales_of(const krm::Json& from, const krm::Json& to);
/// "address", "autoLink", "queue", …: what metrics and events call a kind.
[[nodiscard]] std::string_view entity_type_text(EntityKind kind) noexcept;
/// An entity at a component was other than applied, and is set right.
[[nodiscard]] Tale tale_of(const DriftRepair& repair, ComponentKind kind, std::string_view host);
/// More settings classes at a broker than it takes with ease (8.3): event ManySettingsClasses.
inline constexpr std::size_t kManySettingsClasses = 256;
[[nodiscard]] Tale tale_of_classes(std::string_view broker);

/// How many events are written: 200 at once, then 10 a second; those about what is well only while
/// more than half of that is left, so that a thousand new addresses do not silence a fault. No
/// clock. Threads: one at a time.
class TalePace {
 public:
  [[nodiscard]] bool may(bool warning, TimePoint now);
  /// One is written.
  void take() noexcept { --tokens_; }

 private:
  static constexpr std::int64_t kMost = 200;
  static constexpr Duration kRefill = milliseconds(100);
  std::int64_t tokens_ = kMost;
  TimePoint at_{};
};

/// Writes events of one unit's objects, one after the other and beside what reconciles: nothing
/// waits for an event, and one may be lost. Limits: TalePace, those of EventRecorder.
/// Source: RT-83. Threads: the unit's loop's. Lifetime: the site outlives it.
class Teller {
 public:
  explicit Teller(Site& site);
  Teller(const Teller&) = delete;
  Teller& operator=(const Teller&) = delete;

  void tell(const ObjectRefKey& object, std::string_view uid, const Tale& tale);
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_ + events_.dropped(); }

 private:
  struct Waiting {
    ObjectRefKey object;
    EventRecorder::Write event;
  };
  [[nodiscard]] net::Task<> send();
  void put(ObjectRefKey object, EventRecorder::Write event);
  void put_counts();

  Site& site_;
  EventRecorder events_;
  TalePace pace_;
  std::uint64_t dropped_ = 0;
  std::deque<Waiting> waiting_;
  std::unordered_map<std::string, ObjectRefKey> written_;  // whose an event is, for its count
  bool sending_ = false;
  net::Timer counts_;
  net::Job job_;
};

}  // namespace kintsugi::workers
