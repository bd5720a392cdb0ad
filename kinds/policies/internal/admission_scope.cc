#include "kinds/policies/internal/admission_scope.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "kinds/policies/policy_names.h"
#include "kinds/replicas.h"
#include "krm/annotations.h"

namespace kintsugi::kinds {
namespace {

/// Controllers that delete what a user's deletion reaches: contents of namespaces, dependents. What
/// keeps objects keeps them from those, too.
constexpr std::array<std::string_view, 2> kDeleters = {"namespace-controller", "garbage-collector"};

bool is_exempt_controller(const apiserver::PendingWrite& write) {
  return write.skip_admission &&
         (write.verb() != "delete" ||
          std::find(kDeleters.begin(), kDeleters.end(), write.manager) == kDeleters.end());
}

}  // namespace

std::string replicated_rules(std::string_view cluster) {
  return std::string(kReplicaGroup).append("/").append(cluster);
}

std::vector<std::shared_ptr<void>> follow_rules(apiserver::ApiServer& server,
                                                std::string_view plural, const NoteRule& note) {
  std::vector<std::shared_ptr<void>> out;
  for (const std::string_view group : {kAdmissionGroup, kReplicaGroup}) {
    const auto place = [group](std::string_view cluster) {
      return group == kReplicaGroup ? replicated_rules(cluster) : std::string(cluster);
    };
    out.push_back(
        server.on_change(group, plural, [note, place](const apiserver::ApiServer::Change& change) {
          note(place(change.cluster), change.name, change.object.get());
        }));
    server.reader().list("*", group, plural, "", [&](const krm::Json& object) {
      note(place(object.text({"metadata", "annotations", krm::kClusterAnnotation})),
           object.text({"metadata", "name"}), &object);
      return true;
    });
  }
  return out;
}

bool AdmissionScope::includes(const apiserver::PendingWrite& write) const {
  const apiserver::ResourceDef& def = *write.kind->def;
  return !is_exempt_controller(write) && !is_admission_kind(def.group, def.plural) &&
         (!is_system_kind || !is_system_kind(def));
}

std::string AdmissionScope::cluster_of(const apiserver::PendingWrite& write) const {
  return write.kind->def->identity.empty() || !rules_of_bound ? write.cluster
                                                              : rules_of_bound(write);
}

}  // namespace kintsugi::kinds
