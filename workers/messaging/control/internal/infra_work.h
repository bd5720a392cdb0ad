#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/alive.h"
#include "net/loop.h"
#include "workers/messaging/amqp/component_driver.h"
#include "workers/messaging/control/internal/directory.h"
#include "workers/messaging/control/internal/object_numbers.h"
#include "workers/messaging/model/entities.h"
#include "workers/messaging/pipeline/component_pipeline.h"

namespace kintsugi::workers {

/// A router or broker of an infra.
struct InfraComponent {
  /// Whether it can be reached. kUnheard: ComponentPipeline::is_unheard().
  enum class Reach : std::uint8_t { kUnheard, kLost, kConnected };

  ComponentKind kind = ComponentKind::kRouter;
  ComponentEndpoint where;
  std::unique_ptr<ComponentPipeline> pipeline;
  std::unique_ptr<ComponentDriver> driver;  ///< dies first
  bool configured = false;                  ///< was synchronized since it connected
  std::int64_t last_sync = 0;  ///< when it became so the last time, seconds since 1970; 0: never
  bool was_synchronized = false;
  std::string node;  ///< a broker's, as others were compared with it
  bool identified = false;
  Reach told = Reach::kUnheard;  ///< as those that have something there were told
  std::uint32_t looks = 0;       ///< then
};

/// An infra whose partition is ours: connections to its routers and brokers, and which objects have
/// something there. Ends with the partition: then nothing more is sent. Source: MR-28, MR-30.
/// Threads: the unit's loop's.
class InfraWork {
 public:
  struct Callbacks {
    std::function<std::vector<DesiredEntity>(const ObjectRefKey&, const InfraComponent&)> render;
    /// Its progress is another one.
    std::function<void(const ObjectRefKey&, Priority)> changed;
    std::function<void(const ObjectRefKey&)> reach;  ///< of reach_those_at()
    std::function<bool()> busy;                      ///< whether to be silent of what only comes on
    /// Null for what belongs to no object, an orphan.
    std::function<void(const ObjectRefKey*, const InfraComponent&, const DriftRepair&)> repaired;
    std::function<bool(std::string_view)> ours;         ///< a name at brokers: of one of our spaces
    std::function<bool(const InfraComponent&)> shared;  ///< another infra has that router, too
    std::function<void()> facts;                        ///< of components
    std::function<bool()> may_act;                      ///< asked before each request
  };
  struct Params {
    Key key;
    std::string owner;  ///< of entity names
    ComponentLink::Params link;
    ComponentPipeline::Params pipeline;
    std::uint64_t seed = 1;
  };
  InfraWork(net::Loop& loop, Params params, Callbacks callbacks);
  ~InfraWork();
  InfraWork(const InfraWork&) = delete;
  InfraWork& operator=(const InfraWork&) = delete;

  [[nodiscard]] const Key& key() const noexcept { return params_.key; }
  [[nodiscard]] const std::string& owner() const noexcept { return params_.owner; }

  /// The components that there are now: connections to new ones are made, those to others closed.
  /// Whoever has something on routers or brokers is reached when there are new ones.
  void set_components(std::span<const ComponentEndpoint> routers,
                      std::span<const ComponentEndpoint> brokers);
  [[nodiscard]] const std::vector<std::unique_ptr<InfraComponent>>& components() const noexcept {
    return components_;
  }
  /// Every object has said what it wants: orphans may be looked for. Once.
  void set_complete();
  [[nodiscard]] bool is_complete() const noexcept { return complete_; }
  [[nodiscard]] std::int64_t count(ComponentKind kind) const noexcept;
  /// Entities of all components that are connected and not as wanted there.
  [[nodiscard]] std::size_t pending() const noexcept;
  [[nodiscard]] InfraComponent* find(ComponentKind kind, std::string_view host) const noexcept;

  /// As long as it is there, `changed` does not tell of that object: its turn is now, and looks at
  /// what became of it by itself. In one turn of the loop.
  class OwnTurn {
   public:
    OwnTurn(InfraWork& work, ObjectId object) noexcept : work_(work) { work_.turn_of_ = object; }
    ~OwnTurn() { work_.turn_of_ = kNobody; }
    OwnTurn(const OwnTurn&) = delete;
    OwnTurn& operator=(const OwnTurn&) = delete;

   private:
    InfraWork& work_;
  };

  /// What an object wants at a component; nothing is sent for what is there.
  void want(const ObjectRefKey& object, InfraComponent& component,
            std::span<const DesiredEntity> entities, bool first = false);
  /// The same at all routers.
  void want_at_routers(const ObjectRefKey& object, std::span<const DesiredEntity> entities,
                       bool first = false);
  /// At all components of a kind: nothing.
  void want_nothing(const ObjectRefKey& object, ComponentKind kind);
  /// What an object has by its status, which this process has not seen made.
  /// @param active  the status says that its links were seen active everywhere.
  void assume(const ObjectRefKey& object, InfraComponent& component,
              std::span<const DesiredEntity> entities, bool active = false);
  /// The number of an object; it has one from now on, until forget().
  [[nodiscard]] ObjectId number(const ObjectRefKey& object);
  /// nullopt: it has none.
  [[nodiscard]] std::optional<ObjectId> known(const ObjectRefKey& object) const;
  /// Somebody waits for what becomes of it: while much is under way it is told of as soon as all is
  /// as wanted, others behind all that is to be made. No more than a few are.
  void set_urgent(ObjectId number, bool urgent);
  [[nodiscard]] bool is_urgent(ObjectId number) const { return urgent_[number]; }
  [[nodiscard]] bool is_urgent(const ObjectRefKey& object) const;
  /// True once for each number.
  [[nodiscard]] bool first_sight(ObjectId number);
  /// Whether first_sight() was asked.
  [[nodiscard]] bool seen(ObjectId number) const { return seen_[number]; }
  [[nodiscard]] ObjectRefKey object(ObjectId number) const { return numbers_.object(number); }
  [[nodiscard]] ObjectProgress progress(const ObjectRefKey& object,
                                        const InfraComponent& component) const;
  /// At all components of a kind: everything is as wanted.
  [[nodiscard]] bool settled(const ObjectRefKey& object, ComponentKind kind) const;
  /// It is gone, and nothing of it is anywhere.
  void forget(const ObjectRefKey& object);
  [[nodiscard]] std::size_t objects() const noexcept { return numbers_.size(); }
  /// `Callbacks::reach` for each object that has something at one of these components, or with
  /// `everyone` for all: so many a turn, begun anew by each call.
  void reach_those_at(std::span<const InfraComponent* const> components, bool everyone);

 private:
  static constexpr ObjectId kNobody = 0xFFFFFFFFU;
  void add(ComponentKind kind, const ComponentEndpoint& where);
  /// A broker says which one it is, or is out of reach.
  void follow_identity(InfraComponent& broker);
  /// Brokers that are one are told so (BH-10).
  void tell_twins();
  /// One that may turn out to be another one.
  [[nodiscard]] bool has_unclear_broker() const;
  /// At brokers, once each of them has said which one it is: before that one might hold what is
  /// wanted by another name.
  void look_for_orphans();
  void reach_some();

  net::Loop& loop_;
  Params params_;
  Callbacks callbacks_;
  std::vector<std::unique_ptr<InfraComponent>> components_;
  ObjectNumbers numbers_;
  std::vector<bool> seen_, urgent_;
  std::size_t urgent_ones_ = 0;
  bool complete_ = false;
  ObjectId turn_of_ = kNobody;
  struct Reaching {
    std::vector<const InfraComponent*> at;
    bool everyone = false, runs = false;
    ObjectId next = 0;
  } reaching_;
  Alive alive_;
};

}  // namespace kintsugi::workers
