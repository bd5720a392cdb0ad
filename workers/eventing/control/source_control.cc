#include "workers/eventing/control/source_control.h"

#include <utility>

#include "workers/eventing/control/internal/kafka_source.h"

namespace kintsugi::workers {

SourceControl::SourceControl(EventingSite& site)
    : OwnerControl(site, kKafkaSources, kSourceFinalizer, owner_projection(kSourceFinalizer)) {}

GroupWrite SourceControl::next(const Turn& turn) {
  if (auto finalizer = need_finalizer(turn)) {
    return std::move(*finalizer);
  }
  if (auto group = keep_group(turn, group_of_source(turn.key.ns, turn.key.name, turn.object))) {
    return std::move(*group);
  }
  if (const auto wait = passes(turn)) {
    return ended(Outcome::requeue_after(*wait));
  }
  krm::Json want = turn.status;
  set_source_status(want, turn.owner.generation, turn.group, site().now());
  return write_status(turn, want);
}

}  // namespace kintsugi::workers
