#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/alive.h"
#include "krm/json.h"
#include "net/loop.h"
#include "workers/eventing/dispatcher/egress_member.h"

namespace kintsugi::workers {

/// One egress: as many members of its group as its vReplicas. Threads: the loop's.
class EgressRunner {
 public:
  EgressRunner(net::Loop& loop, const DispatcherSettings& settings, DispatcherCounters& counters,
               std::shared_ptr<const EgressTerms> terms);
  ~EgressRunner();
  EgressRunner(const EgressRunner&) = delete;
  EgressRunner& operator=(const EgressRunner&) = delete;
  /// @error kConfig: Kafka's library does not take the egress. Once.
  [[nodiscard]] Expected<void> start();
  [[nodiscard]] const EgressTerms& terms() const noexcept { return *terms_; }
  /// What begins from now on goes by these; vReplicas may differ, what needs_other_consumers() asks
  /// for may not.
  void update(std::shared_ptr<const EgressTerms> terms);
  /// Every member ends as EgressMember::stop(); `done` comes in a later turn and may destroy it.
  void stop(std::function<void()> done);
  /// {"members": n, "partitions": ["topic/0", …], "vReplicas": n, "error": "…"}
  [[nodiscard]] krm::Json status() const;

 private:
  /// One member, and the next one in its place when the library gives up.
  struct Place {
    explicit Place(net::Loop& loop) : again(loop) {}
    std::unique_ptr<EgressMember> member;
    net::Timer again;
  };
  [[nodiscard]] Expected<void> fill(Place& place);
  /// Takes the last `count` places off.
  void shrink(std::size_t count);
  void remove(Place& place);
  void replace(Place& place);
  void pump_later();
  void end_if_done();

  net::Loop& loop_;
  const DispatcherSettings& settings_;
  DispatcherCounters& counters_;
  std::shared_ptr<const EgressTerms> terms_;
  std::vector<std::unique_ptr<Place>> places_, ending_;
  std::size_t in_flight_ = 0;
  bool pump_pending_ = false;
  std::string error_;  // the last that Kafka had
  std::function<void()> done_;
  Alive alive_;
};

}  // namespace kintsugi::workers
