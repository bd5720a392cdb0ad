#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/admission.h"
#include "apiserver/resource.h"
#include "apiserver/server.h"
#include "kinds/builtin_admission.h"
#include "krm/json.h"

namespace kintsugi::kinds {

/// Calls back for each object of a kind of kAdmissionGroup that is there, and for each change;
/// null: it is gone. Copies of other shards' come under replicated_rules().
using NoteRule =
    std::function<void(std::string_view cluster, std::string_view name, const krm::Json* object)>;
[[nodiscard]] std::vector<std::shared_ptr<void>> follow_rules(apiserver::ApiServer& server,
                                                              std::string_view plural,
                                                              const NoteRule& note);

/// Which writes policies and webhooks are asked about, and whose policies and webhooks that are.
struct AdmissionScope {
  /// Exempt for everybody (KK-222); empty: none.
  std::function<bool(const apiserver::ResourceDef&)> is_system_kind;
  /// Whose rules hold for a resource that an APIBinding brings: a logical cluster of this shard, or
  /// replicated_rules(). Empty: that of the object.
  std::function<std::string(const apiserver::PendingWrite&)> rules_of_bound;

  /// False: nobody is asked. Exempt are what says what admission does, system kinds, and
  /// controllers but for those that delete what a user's deletion reaches.
  [[nodiscard]] bool includes(const apiserver::PendingWrite& write) const;
  [[nodiscard]] std::string cluster_of(const apiserver::PendingWrite& write) const;
};

}  // namespace kintsugi::kinds
