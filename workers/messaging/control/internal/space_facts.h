#pragma once

#include <optional>
#include <string>
#include <vector>

#include "workers/messaging/control/internal/parts.h"
#include "workers/messaging/control/site.h"
#include "workers/messaging/model/entities.h"

namespace kintsugi::workers {

/// What is known of a space or tenant when its turn comes. Lifetime: until the caller lets the loop
/// go on.
struct SpaceFacts {
  ObjectRefKey key;
  const CachedSpace* cached = nullptr;
  krm::Json status;
  Chosen<MessagingPlan> plan;
  /// The infra that it is to have: the one that its status says, else the wanted one.
  std::optional<Key> infra_key;
  const MessagingInfra* infra_object = nullptr;
  OwnedInfra* infra = nullptr;  ///< null: not ours, or not begun yet
  ObjectId number = 0;          ///< there
  std::string space_id;
  bool transactional = false;
  std::optional<Condition> plan_refused, infra_refused, duplicate;
  bool contested = false;  ///< another one has the same id, whichever of them counts

  [[nodiscard]] const MessagingSpace& space() const noexcept { return cached->parsed.object; }
  [[nodiscard]] bool refused() const noexcept {
    return !cached->parsed.valid || plan_refused || infra_refused || duplicate;
  }
  [[nodiscard]] PlanLimits limits() const {
    return plan.object == nullptr ? PlanLimits() : plan.object->limits;
  }
  [[nodiscard]] std::vector<std::string> address_plans() const {
    return plan.object == nullptr ? std::vector<std::string>() : plan.object->address_plans;
  }
  [[nodiscard]] PlanRequests requests() const {
    return plan.object == nullptr ? PlanRequests() : plan.object->requests;
  }
};

[[nodiscard]] SpaceFacts space_facts(Site& site, const ObjectRefKey& key,
                                     const CachedSpace& cached);
/// Whether it may be in its infra (10.4): sets `infra_refused`. Who waited and may come now is
/// looked at.
void admit_space(Site& site, SpaceFacts& facts);
/// It is one of the infra's spaces from now on, with all its addresses, which are looked at.
OwnedSpace& enter_infra(Site& site, const SpaceFacts& facts);
/// Names at brokers with the space's id are its own, unless another one has that id: then what
/// nobody wants stays there, for it may be the other's.
void note_whose(OwnedInfra& infra, const SpaceFacts& facts);
/// It is none any more.
void leave_infra(Site& site, OwnedInfra& infra, const ObjectRefKey& space);

/// What routers are to hold: its vhost, then its connectors and listeners.
/// @param broker  of a space with transactions, "" before it has one
[[nodiscard]] std::vector<DesiredEntity> desired_of_space(const Site& site, const SpaceFacts& facts,
                                                          const std::string& broker,
                                                          SecretForm form = SecretForm::kPlain);
[[nodiscard]] std::vector<DesiredEntity> render_space(Site& site, const ObjectRefKey& key,
                                                      const InfraComponent& component);

}  // namespace kintsugi::workers
