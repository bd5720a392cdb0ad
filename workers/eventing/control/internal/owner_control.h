#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "net/task.h"
#include "workers/eventing/control/eventing_site.h"
#include "workers/eventing/control/internal/group_turn.h"
#include "workers/eventing/control/internal/owned_group.h"
#include "workers/runtime/control/controller.h"

namespace kintsugi::workers {

/// Keeps the ConsumerGroups of objects of one kind: a group is made, set right when it is another
/// than its owner says, and tells its owner by its changes what became of it. The owner's deletion
/// waits for the group's. What a kind means by it is the derived class'.
/// Threads: the unit's loop's.
class OwnerControl {
 public:
  OwnerControl(const OwnerControl&) = delete;
  OwnerControl& operator=(const OwnerControl&) = delete;
  virtual ~OwnerControl() = default;
  void set_controller(Controller& controller) { controller_ = &controller; }
  [[nodiscard]] const CacheUse<CachedOwner>& owners() const noexcept { return owners_; }
  [[nodiscard]] net::Task<Outcome> reconcile(Key key);

 protected:
  /// @param projection  owner_projection(), maybe with more
  OwnerControl(EventingSite& site, const Resource& kind, std::string_view finalizer,
               const Projection<CachedOwner>& projection);

  /// What one look at an owner finds.
  struct Turn {
    const Key& key;
    const CachedOwner& owner;
    const CachedGroup* group;  ///< nullptr: there is none
    krm::Json object, status;
  };
  /// The next write for one that is not being deleted.
  [[nodiscard]] virtual GroupWrite next(const Turn& turn) = 0;

  // What next() is made of. nullopt: there is nothing to do.
  [[nodiscard]] std::optional<GroupWrite> need_finalizer(const Turn& turn) const;
  /// Makes the group, or sets it right; waits for one that is being deleted.
  [[nodiscard]] std::optional<GroupWrite> keep_group(const Turn& turn, const krm::Json& wish) const;
  /// What the group says will pass, and is not told for so long.
  [[nodiscard]] std::optional<Duration> passes(const Turn& turn);
  /// The end of the turn where the status is like that. @param guarded  what is written is given
  /// away by it: only over the object as it was seen
  [[nodiscard]] GroupWrite write_status(const Turn& turn, const krm::Json& want,
                                        bool guarded = false) const;
  /// The group goes, then the finalizer.
  [[nodiscard]] GroupWrite farewell(const Turn& turn) const;

  [[nodiscard]] EventingSite& site() const noexcept { return site_; }
  [[nodiscard]] Controller* controller() const noexcept { return controller_; }

 private:
  [[nodiscard]] GroupWrite look(const Key& key);
  void lay(const ApiAnswer& answer);
  void group_changed(const CacheChange& change);
  [[nodiscard]] std::string path(const Turn& turn) const;

  EventingSite& site_;
  const Resource& kind_;
  const std::string_view finalizer_;
  CacheUse<CachedOwner> owners_;
  Controller* controller_ = nullptr;
  std::map<std::string, TimePoint> passing_since_;  // by seen_key()
};

}  // namespace kintsugi::workers
