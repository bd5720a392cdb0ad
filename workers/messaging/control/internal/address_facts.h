#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "workers/messaging/control/site.h"
#include "workers/messaging/model/entities.h"
#include "workers/messaging/model/settings.h"

namespace kintsugi::workers {

/// What is known of one address when its turn comes; nothing of it is kept. Lifetime: until the
/// caller lets the loop go on.
struct AddressFacts {
  ObjectRefKey key;
  const CachedAddress* cached = nullptr;
  Parsed<MessagingAddress> parsed;
  std::optional<Directory::SpaceFound> space;
  Site::Place place;
  ObjectId number = 0;
  const AddressPlan* plan = nullptr;
  EffectiveSettings effective;
  /// Validated=False, or Scheduled=False: why nothing is to be made of it.
  std::optional<Condition> refused;
  bool conflicts = false;  ///< that is since another one has its name

  /// As it was read; parsed when it is asked for first, since many looks need nothing of it.
  [[nodiscard]] const krm::Json& status() const {
    if (!status_) {
      status_ = cached->status_json();
    }
    return *status_;
  }
  [[nodiscard]] const MessagingAddress& address() const noexcept { return parsed.object; }
  [[nodiscard]] const MessagingInfra& infra() const noexcept { return place.infra->object; }

 private:
  mutable std::optional<krm::Json> status_;
};

/// Facts of an address whose space is ours; `place.space` is null if it is not.
[[nodiscard]] AddressFacts address_facts(Site& site, const ObjectRefKey& key,
                                         const CachedAddress& cached);

/// Takes part in what the space's addresses have in common: names, targets, the limit. To be called
/// for all of a space before one is judged, then whenever one changes. Whose turn it is by that is
/// looked at.
/// @param others  how soon
void enter_space(Site& site, AddressFacts& facts, Priority others = Priority::kLive);
/// The object of that number is gone from all that addresses of its infra have in common.
void leave_infra(Site& site, OwnedInfra& infra, ObjectId number);
/// For the counts of phases, and for the infra, which waits until all have said something.
void note_phase(const Site& site, const AddressFacts& facts, std::string_view phase);
/// Whether it may be made: `refused` of the facts. After enter_space().
void judge_address(const Site& site, AddressFacts& facts);

/// What it needs of brokers. @param recorded  as its status says
[[nodiscard]] AddressDemand address_demand(const AddressFacts& facts,
                                           std::vector<std::string> recorded);
/// Hosts that its status says.
[[nodiscard]] std::vector<std::string> recorded_brokers(const krm::Json& status);
/// Where it is: as was decided here; before this process has looked at it, and where nothing was
/// decided, as its status says. A status that somebody edits moves nothing, also while no worker
/// runs: what it says of the configuration that was applied tells that its brokers are others, and
/// which one of the infra's it was.
[[nodiscard]] std::vector<std::string> hosts_of(const Site& site, const AddressFacts& facts);
/// N of its status, if it can be one of that address; else "".
[[nodiscard]] std::string_view recorded_name(std::string_view said, std::string_view qualified);
/// N is chosen and stays.
void note_broker_name(const AddressFacts& facts, std::string_view name);

/// Name at brokers and settings. nullopt: a target has no name yet.
[[nodiscard]] std::optional<SettingsChoice> address_settings(const Site& site,
                                                             const AddressFacts& facts);
/// What components are to hold. @param hosts  its brokers
[[nodiscard]] DesiredEntities desired_of_address(const AddressFacts& facts,
                                                 const SettingsChoice& settings,
                                                 const std::vector<std::string>& hosts);
/// 32 hexadecimal digits of all that: what a status says was applied.
[[nodiscard]] std::string configuration_of(const DesiredEntities& entities);
[[nodiscard]] std::string configuration_of(std::span<const DesiredEntity> entities);

/// For the pipeline of a component: what an address wants there, by its status.
[[nodiscard]] std::vector<DesiredEntity> render_address(Site& site, const ObjectRefKey& key,
                                                        const InfraComponent& component);

}  // namespace kintsugi::workers
