#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/task.h"
#include "workers/eventing/control/eventing_site.h"
#include "workers/eventing/control/internal/group_turn.h"
#include "workers/runtime/control/controller.h"

namespace kintsugi::workers {

/// Takes ConsumerGroups through their life: finalizer, what Kafka says, a place, Consumers, status;
/// and back. Each turn looks at what there is, makes the next write that is missing, and looks
/// again. Source: sections 4, 5 and 8; KN-7, KN-8. Threads: the unit's loop's.
class GroupControl {
 public:
  explicit GroupControl(EventingSite& site) : site_(site) {}
  void set_controller(const Controller& controller) { controller_ = &controller; }

  [[nodiscard]] net::Task<Outcome> reconcile(Key key);
  /// It is deleted, or shown no more.
  void forget(const Key& key);

  /// Groups by group_phase_text() and deletions, as they were looked at last.
  [[nodiscard]] const std::map<std::string, std::string_view>& phases() const noexcept {
    return phases_;
  }

 private:
  [[nodiscard]] GroupWrite next(const Key& key);
  [[nodiscard]] GroupWrite farewell(GroupTurn& turn);
  void ask_to_delete(GroupTurn& turn, FarewellFacts& facts);
  void read_entry(GroupTurn& turn);
  void ask_kafka(GroupTurn& turn);
  void place(GroupTurn& turn);
  [[nodiscard]] GroupWrite write_placement(GroupTurn& turn);
  [[nodiscard]] GroupWrite write_status(GroupTurn& turn);
  [[nodiscard]] std::optional<GroupWrite> next_consumer(const GroupTurn& turn);
  [[nodiscard]] GroupWrite next_consumer_status(const GroupTurn& turn, GroupWrite end);
  [[nodiscard]] std::function<void()> telling(const GroupTurn& turn, const krm::Json& wanted);
  [[nodiscard]] krm::Json status_of(GroupTurn& turn, const std::vector<Placed>& placements);
  void judge(GroupTurn& turn, const std::vector<Placed>& placements, GroupReport& report);

  EventingSite& site_;
  const Controller* controller_ = nullptr;
  std::map<std::string, std::string_view> phases_;  // by seen_key()
};

}  // namespace kintsugi::workers
