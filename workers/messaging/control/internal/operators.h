#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "net/task.h"
#include "workers/messaging/control/internal/directory.h"
#include "workers/messaging/model/operator_plan.h"

namespace kintsugi::workers {

class Site;

/// Resources for the operators of routers and brokers, and the pods of these, in the namespaces of
/// infras that name no components themselves. They are no part of the export: the worker's user
/// needs rights in the infra's logical cluster (configs/messaging/operators/rbac.yaml). Read by
/// lists, when who asks says so, and only for infras that are worked on here. Source: MR-19,
/// MS-001, MS-075. Threads: the unit's loop's.
class Operators {
 public:
  explicit Operators(Site& site) : site_(site) {}

  /// Reads what there is unless that is known and younger than `age`. @returns kDone: find() knows
  /// it, as well as can be
  [[nodiscard]] net::Task<Outcome> read(Key infra, bool routers, bool brokers, Duration age);
  struct Known {
    OperatorView view;
    /// Why resources cannot be read or written: RoutersCreated=False, BrokersCreated=False.
    std::optional<Condition> routers_fault, brokers_fault;
    TimePoint read_at{};
    std::vector<Component> components;  ///< of the last look
  };
  /// Null before the first read.
  [[nodiscard]] Known* find(const Key& infra);
  /// Writes and deletes; what the server refuses is a fault that find() tells. What was written is
  /// read again the next time.
  [[nodiscard]] net::Task<Outcome> write(Key infra, OperatorPlan plan);
  void forget(const Key& infra) { known_.erase(infra_text(infra)); }

 private:
  struct Listed {
    Outcome outcome;
    std::vector<krm::Json> items;
    std::optional<std::string> refused;  ///< it is not served, or may not be read
    std::string_view reason;
  };
  [[nodiscard]] net::Task<Listed> list(std::string path);

  Site& site_;
  std::map<std::string, Known, std::less<>> known_;  // by infra_text()
};

}  // namespace kintsugi::workers
