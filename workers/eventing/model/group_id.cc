#include "workers/eventing/model/group_id.h"

#include <algorithm>
#include <utility>

namespace kintsugi::workers {
namespace {

std::string with_uid(std::string id, std::string_view uid) {
  id.resize(std::min(id.size(), kMostGroupId - 1 - uid.size()));
  return id.append("-").append(uid);
}

std::string own_group_id(const GroupIdDemand& demand) {
  const std::string ns(demand.ns), name(demand.name), uid(demand.uid);
  switch (demand.kind) {
    case GroupKind::kTrigger:
      return "knative-trigger-" + ns + "-" + name;
    case GroupKind::kKafkaSource:
      return demand.asked.empty() ? "knative-kafka-source-" + uid : std::string(demand.asked);
    case GroupKind::kSubscription:
      return "kafka." + ns + "." + std::string(demand.channel) + "." + uid;
  }
  return uid;
}

}  // namespace

GroupId choose_group_id(const GroupIdDemand& demand,
                        const std::function<bool(std::string_view)>& taken) {
  GroupId out;
  out.id = demand.stored.empty() ? own_group_id(demand) : std::string(demand.stored);
  // Who asks for a group of a name, as another source has it, is to share it.
  const bool is_asked = demand.kind == GroupKind::kKafkaSource && !demand.asked.empty();
  if (!is_asked && out.id.size() > kMostGroupId) {
    out.id = with_uid(std::move(out.id), demand.uid);
  }
  if (!is_asked && taken(out.id)) {
    out.collided = true;
    out.id = with_uid(std::move(out.id), demand.uid);
  }
  out.store = out.id != demand.stored;
  return out;
}

}  // namespace kintsugi::workers
