#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "base/alive.h"
#include "proxy/admin/admin.h"

namespace kintsugi::proxy {

/// What the data loops report, asked for at most each kFresh however many look: who comes while
/// they are being asked waits for the same answer. Threads: the control loop's.
class ReportCache {
 public:
  using Done = std::function<void(const std::vector<LoopReport>&)>;
  static constexpr Duration kFresh = milliseconds(250);
  /// @param admin  must outlive it
  explicit ReportCache(const AdminParams& admin) : admin_(admin) {}
  /// `done` runs now or later.
  void get(ReportPart part, Done done);

 private:
  struct Kept {
    std::shared_ptr<const std::vector<LoopReport>> loops;
    TimePoint at{};
    std::vector<Done> waiting;
  };
  const AdminParams& admin_;
  std::array<Kept, 3> kept_;  ///< by ReportPart
  Alive alive_;
};

}  // namespace kintsugi::proxy
