#pragma once

#include <string>

#include "net/task.h"
#include "workers/eventing/control/eventing_site.h"
#include "workers/runtime/control/controller.h"

namespace kintsugi::workers {

/// Keeps the contract of each dispatcher pod: its ConfigMap first, then what the pod says that it
/// holds. Source: KP-3, KP-4, KP-5, KP-6, KP-8. Threads: the unit's loop's.
class PodControl {
 public:
  explicit PodControl(EventingSite& site) : site_(site) {}
  void set_controller(const Controller& controller) { controller_ = &controller; }
  [[nodiscard]] net::Task<Outcome> reconcile(Key key);

 private:
  struct Next {
    ApiWrite write;
    bool is_contract = false, creates = false;
    std::string path;  ///< of the contract
    Outcome outcome;
    bool writes = false;
  };
  [[nodiscard]] Next next(const std::string& name, std::uint64_t epoch);
  [[nodiscard]] ApiWrite write_map(const CachedPod& pod, const std::string& name,
                                   const ContractPlan& plan, std::uint64_t epoch) const;

  EventingSite& site_;
  const Controller* controller_ = nullptr;
};

}  // namespace kintsugi::workers
