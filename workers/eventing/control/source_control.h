#pragma once

#include <map>
#include <string>

#include "net/task.h"
#include "workers/eventing/control/eventing_site.h"
#include "workers/eventing/control/internal/group_turn.h"
#include "workers/eventing/control/internal/kafka_source.h"
#include "workers/runtime/control/controller.h"

namespace kintsugi::workers {

/// Keeps the ConsumerGroup of each KafkaSource, and tells the source what became of it: KN-1, KN-2,
/// KN-G5. What passes within 10 s is not told. Its deletion waits for the group's.
/// Threads: the unit's loop's.
class SourceControl {
 public:
  explicit SourceControl(EventingSite& site);
  void set_controller(Controller& controller) { controller_ = &controller; }
  [[nodiscard]] const CacheUse<CachedSource>& sources() const noexcept { return sources_; }
  [[nodiscard]] net::Task<Outcome> reconcile(Key key);

 private:
  [[nodiscard]] GroupWrite next(const Key& key);
  [[nodiscard]] GroupWrite farewell(const Key& key, const CachedSource& source,
                                    const CachedGroup* group);
  [[nodiscard]] GroupWrite write_status(const Key& key, const CachedSource& source,
                                        const krm::Json& object, const CachedGroup* group);
  void lay(const ApiAnswer& answer);
  void group_changed(const CacheChange& change);

  EventingSite& site_;
  CacheUse<CachedSource> sources_;
  Controller* controller_ = nullptr;
  std::map<std::string, TimePoint> passing_since_;  // by seen_key()
};

}  // namespace kintsugi::workers
