#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "workers/messaging/control/internal/directory.h"
#include "workers/messaging/control/internal/entered.h"
#include "workers/messaging/control/internal/infra_work.h"
#include "workers/messaging/control/internal/teller.h"
#include "workers/messaging/messaging_config.h"
#include "workers/messaging/model/admission.h"
#include "workers/messaging/model/claims.h"
#include "workers/messaging/model/component_resources.h"
#include "workers/messaging/model/port_pool.h"
#include "workers/messaging/model/targets.h"
#include "workers/messaging/placing/address_scheduler.h"
#include "workers/runtime/control/controller.h"
#include "workers/runtime/unit/unit.h"

namespace kintsugi::workers {

class Ends;

/// A space that is bound to an infra of ours, with what its addresses have in common.
struct OwnedSpace {
  ObjectRefKey key;
  ObjectId number = 0;
  std::string space_id;
  bool transactional = false;
  PlanLimits limits;
  std::vector<std::string> address_plans;  ///< that its plan allows; empty: all
  bool wanted = false;                     ///< routers were told what they are to hold of it
  bool made = false;                       ///< was complete at all routers once
  bool keeps = false;                      ///< has_unknown_part() since this process knows it
  AddressLimit limit;
  TargetIndex targets;
};

/// Hosts that a space or an endpoint claims.
struct ClaimedHosts {
  std::vector<std::pair<std::string, Age>> hosts;  ///< sorted
};

/// An infra whose partition is ours.
struct OwnedInfra {
  MessagingInfra object;
  std::unique_ptr<InfraWork> work;
  std::vector<Component> components;  ///< also brokers whose place is not known
  std::int64_t size = 0;  ///< routers of each group that an operator is asked for; 0: none
  TimePoint told{};       ///< when its status was written the last time
  AddressScheduler scheduler;
  std::vector<std::string> brokers;  ///< that the scheduler knows
  SpaceAdmission admission;
  OldestWins addresses;                      ///< by conflict_key() of Q
  OldestWins hosts;                          ///< of endpoints, in lower case
  PortPool ports;                            ///< of listeners of endpoints' own
  std::map<std::string, OwnedSpace> spaces;  ///< by text_of()
  std::set<std::string, std::less<>> space_ids;
  EnteredTable entered;
  std::unordered_map<ObjectId, ClaimedHosts> claimed;
  /// Connectors and endpoints of its tenants that have not said what they want, by text_of().
  std::set<std::string, std::less<>> silent_ends;
  std::map<std::pair<AddressType, std::string_view>, std::size_t> phases;  ///< of `entered`

  /// Routers that limits are divided by (MD-3).
  [[nodiscard]] std::int64_t declared_routers() const noexcept {
    return object.declared_routers(size > 0 ? size : object.routers.min);
  }
  /// A space by its number; nullptr: there is none (any more).
  [[nodiscard]] OwnedSpace* space(ObjectId number);
  /// Whether a name at brokers is one of our spaces'.
  [[nodiscard]] bool is_ours(std::string_view broker_name) const;
  /// Every object has said what it wants, so that what nobody wants is an orphan.
  [[nodiscard]] bool is_complete() const;
};

/// What the controllers of one unit share: objects, infras that are ours, writes. Threads: the
/// unit's loop's.
class Site {
 public:
  Site(Unit& unit, MessagingConfig config);
  ~Site();
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  [[nodiscard]] Unit& unit() noexcept { return unit_; }
  [[nodiscard]] const std::string& unit_name() const noexcept { return unit_.params().name; }
  [[nodiscard]] const MessagingConfig& config() const noexcept { return config_; }
  [[nodiscard]] const Directory& directory() const noexcept { return directory_; }
  /// Connectors and endpoints.
  [[nodiscard]] Ends& ends() const noexcept { return *ends_; }
  /// How components are reached, as the configuration says. @error kConfig names the file
  [[nodiscard]] Expected<ComponentLink::Params> component_link() const;
  /// Why components cannot be reached; "": they can.
  [[nodiscard]] const std::string& trouble() const noexcept { return trouble_; }
  /// "": it works.
  [[nodiscard]] std::string not_ready() const;
  /// The unit's shard as names of entities have it.
  [[nodiscard]] const std::string& owner() const noexcept { return owner_; }
  [[nodiscard]] std::string now() const;

  void set_controller(MessagingKind kind, Controller& controller) {
    controllers_[static_cast<std::size_t>(kind)] = &controller;
  }
  [[nodiscard]] Step step(const ObjectRefKey& object) const;
  /// Whether the turn that has just begun, of that kind, is for a change, and not for what was
  /// there before.
  [[nodiscard]] bool is_for_change(MessagingKind kind) const noexcept;
  /// An object's turn: something that it depends on is another thing.
  void look_at(MessagingKind kind, const QueueKey& key, Priority priority = Priority::kLive) const;
  void look_at(const ObjectRefKey& object) const { look_at(object.kind, object.key.view()); }
  /// Soon, once for all that happens until then.
  void look_at_later(MessagingKind kind, const QueueKey& key, Duration delay) const;
  /// At the infra, whose status says something that is another thing now.
  void look_soon(const Key& infra) const;
  /// At a space whose addresses are more or fewer; while much is being made, not as soon.
  void look_soon(const OwnedInfra& infra, const OwnedSpace& space) const;
  /// At all spaces of an infra: something that they all show is another thing.
  void look_at_spaces(const OwnedInfra& infra) const;
  void look_at(const InfraWork& infra, std::span<const ObjectId> objects,
               Priority priority = Priority::kLive) const;
  /// Decides what the infra's scheduler has to; those whose placing is another one now get a turn,
  /// `but` excepted.
  void decide(OwnedInfra& infra, std::optional<ObjectId> but = std::nullopt);
  /// Of decide(), since the begin, with infras that went.
  struct Decisions {
    DurationHistogram durations;  ///< of those that changed something
    std::uint64_t moves = 0;
  };
  [[nodiscard]] const Decisions& decisions() const noexcept { return decisions_; }
  /// Addresses that wait for a turn or have it, and entities that are being made.
  [[nodiscard]] std::uint64_t busy(const OwnedInfra& infra) const noexcept;
  /// These are so many that one which only comes on is not worth a write.
  [[nodiscard]] bool is_busy(const OwnedInfra& infra) const noexcept;
  /// Until something that only comes on is looked at again: so long that there are no more than so
  /// many in a second.
  [[nodiscard]] Duration told_after(const OwnedInfra& infra) const noexcept;
  /// All of a space, behind what changes; before that those of look_first(), and those that
  /// somebody waits for.
  void look_at_addresses(const ObjectRefKey& space);
  /// An address changed and has to wait for its infra to begin here: its turn then is for a change.
  /// No more than a few are remembered.
  void look_first(const ObjectRefKey& address);

  [[nodiscard]] OwnedInfra* infra(const Key& key);
  /// @param names  the owner in names of its entities: another shard's where the infra came from
  /// there. Then nothing is deleted as an orphan, for others of that shard have such names, too.
  OwnedInfra& own(const Key& key, const MessagingInfra& object, const std::string& names,
                  InfraWork::Callbacks callbacks);
  void disown(const Key& key);
  /// All that are not ours any more: connections to their components end.
  void disown_lost(const Unit::Goes& goes);
  void each_infra(const std::function<void(OwnedInfra&)>& visit);
  void each_infra(const std::function<void(const OwnedInfra&)>& visit) const;
  /// The infra and the space that are ours and an object belongs to. Null: not bound, or not ours.
  struct Place {
    OwnedInfra* infra = nullptr;
    OwnedSpace* space = nullptr;
  };
  [[nodiscard]] Place place(const Directory::SpaceFound& space);
  /// Whether the space's infra is there but not begun here yet: until then nobody knows what its
  /// components hold of the space.
  [[nodiscard]] bool begins_later(const CachedSpace& space) const;

  /// Writes the status if it says something else than the object's.
  /// @param precise  with the object's revision as precondition: what others rely on.
  /// @returns kDone: it is as wanted.
  [[nodiscard]] net::Task<Outcome> write_status(ObjectRefKey object, krm::Json status,
                                                bool precise);
  /// Says it in an event; nothing waits for that. Of a status that is written tales_of() are told.
  void tell(const ObjectRefKey& object, const Tale& tale);
  /// kDone: it has our finalizer.
  [[nodiscard]] net::Task<Outcome> add_finalizer(ObjectRefKey object);
  [[nodiscard]] net::Task<Outcome> remove_finalizer(ObjectRefKey object);
  /// What making an object begins with: it gets our finalizer, or, if it is not to be made, the
  /// status that says so. @returns how that turn ends; nullopt: it goes on
  [[nodiscard]] net::Task<std::optional<Outcome>> begin_making(ObjectRefKey object,
                                                               std::optional<krm::Json> final_word);

 private:
  struct Written;
  /// @param status  if not null, it is read, too: that costs more than the rest
  [[nodiscard]] std::optional<Written> written(const ObjectRefKey& object,
                                               krm::Json* status = nullptr) const;
  [[nodiscard]] net::Task<Outcome> patch(ObjectRefKey object, std::string body,
                                         std::string_view type, std::string_view subresource);
  void lay(MessagingKind kind, const krm::Json& object);

  Unit& unit_;
  const MessagingConfig config_;
  Directory directory_;
  std::string owner_, trouble_;
  ComponentLink::Params link_;
  std::array<Controller*, kMessagingKinds> controllers_{};
  CheckTimes check_times_;
  std::map<std::string, OwnedInfra> infras_;  // by infra_text()
  std::unique_ptr<Ends> ends_;
  std::unique_ptr<Teller> teller_;
  Decisions decisions_;
  std::set<std::string, std::less<>> first_;  // of look_first(), by text_of()
};

}  // namespace kintsugi::workers
