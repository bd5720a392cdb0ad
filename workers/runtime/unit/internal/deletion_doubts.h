#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "base/time.h"
#include "krm/json.h"
#include "net/loop.h"
#include "net/task.h"
#include "workers/runtime/client/api_client.h"
#include "workers/runtime/endpoints/cluster_owners.h"

namespace kintsugi::workers {

/// An object that a unit does not show any more.
struct DoubtedObject {
  UnitId unit = 0;
  std::string path;  ///< where the proxy looks for it
  std::string name;
  std::uint32_t uid = 0;  ///< uid_hash() of what was shown
};

enum class Deletion : std::uint8_t { kDeleted, kLives, kUnknown };

/// What the proxy's answer to a get says of an object that is not shown any more. It lives when
/// there is one of that uid, and is deleted when its cluster says that it has none, or has another;
/// a cluster that nobody has for kNoCluster is deleted, for no move takes so long.
/// @param asked_for  since the first question
inline constexpr Duration kNoCluster = seconds(120);
[[nodiscard]] Deletion judge_deletion(const ApiAnswer& answer, const DoubtedObject& object,
                                      Duration asked_for);

/// Objects of which it is not certain whether they were deleted or went with their cluster to
/// another shard (RT-14): asks the proxy, one after another, those without an answer again every
/// second. Cost: a get each. Threads: the loop's. Lifetime: the client outlives this.
class DeletionDoubts {
 public:
  DeletionDoubts(net::Loop& loop, ApiClient& proxy) : loop_(loop), proxy_(proxy), timer_(loop) {}

  /// `deleted` is called in a later turn if it was deleted, else never.
  void add(DoubtedObject object, std::function<void()> deleted);
  /// Forgets the unit's.
  void drop(UnitId unit);
  [[nodiscard]] std::size_t size() const noexcept { return doubts_.size(); }

 private:
  struct Doubt {
    DoubtedObject object;
    std::function<void()> deleted;  // empty: forgotten
    TimePoint since;
  };
  void ask_soon(Duration delay);
  [[nodiscard]] net::Task<> ask();

  net::Loop& loop_;
  ApiClient& proxy_;
  std::deque<Doubt> doubts_;
  net::Timer timer_;
  bool asking_ = false;
  net::Job job_;
};

}  // namespace kintsugi::workers
