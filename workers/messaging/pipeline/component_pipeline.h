#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "workers/messaging/model/age.h"
#include "workers/messaging/model/entities.h"
#include "workers/messaging/pipeline/check_times.h"
#include "workers/messaging/wire/management.h"

namespace kintsugi::workers {

/// What a request is for: step of pipeline_step_seconds. kCheck: for no entity, but to learn what
/// the component is and holds.
enum class PipelineStep : std::uint8_t { kCreate, kVerify, kRead, kLook, kUpdate, kDelete, kCheck };
inline constexpr std::size_t kPipelineSteps = 7;
[[nodiscard]] std::string_view pipeline_step_text(PipelineStep step) noexcept;

/// How far an object is at one component.
struct ObjectProgress {
  std::uint32_t wanted = 0;    ///< entities
  std::uint32_t applied = 0;   ///< of these, as wanted and confirmed
  std::uint32_t leftover = 0;  ///< no longer wanted, still to be deleted
  std::uint32_t links = 0;     ///< autolinks and link routes of the wanted
  std::uint32_t active = 0;    ///< of these, seen active
  bool link_unknown = false;   ///< some link was not looked at yet
  std::string error;       ///< of the first that failed: "<kind> <name>: <the component's text>"
  std::string link_error;  ///< of the first that is not active
  [[nodiscard]] bool settled() const noexcept { return applied == wanted && leftover == 0; }
};

/// What was found other than applied, and set right: an event and a count. kForeign: what is
/// nobody's of ours, or holds messages, and stays; told, not counted.
struct DriftRepair {
  ObjectId object = 0;  ///< of an orphan: the largest there is
  EntityKind kind = EntityKind::kAddress;
  std::string name;
  enum class Cause : std::uint8_t {
    kMissing,
    kDifferent,
    kOrphan,
    kForeign
  } cause = Cause::kMissing;
};

/// An exchange that failed, of the last 100.
struct FailedExchange {
  TimePoint at{};
  std::string what, text;
  std::int64_t code = 0;
};

/// What one component is to hold, what it holds, and the requests that lead from this to that. A
/// state machine without I/O: requests come out of next(), answers go in. Source: MR-30, MH-1,
/// MH-2, BH-1. Order: the entities of an object as they were given, and before them all of kFirst
/// objects; each waits for the answer to the one before it only where one depends on the other
/// (queue on its address, vhost, sslProfile, connector, settings). Different objects run in
/// parallel, at most `window` requests at a time, kinds of the router's agent at most
/// `agent_window`, settings of brokers one at a time and at most a fifth of the time (BH-1).
/// Nothing is sent for what is applied already. Contents are not kept: they are rendered when they
/// are sent. Memory: about 90 B an entity.
/// Threads: one at a time. Lifetime: callbacks may call every const member, want() and forget().
class ComponentPipeline {
 public:
  struct Params {
    ComponentKind kind = ComponentKind::kRouter;
    std::string owner;  ///< of entity names: only such are deleted as orphans; "": none are
    std::size_t window = 100, agent_window = 4;
    double sweep_per_second = 5000;             ///< blind CREATEs of a sweep
    Duration counters = seconds(30);            ///< (b)
    Duration sweep = std::chrono::minutes(30);  ///< (c), (d); spread by `seed`
    Duration links = std::chrono::minutes(10);  ///< of those that are active
    Duration verify = seconds(1);               ///< MH-12
    Duration retry_least = seconds(1), retry_most = std::chrono::minutes(5);
    std::size_t most_queried = 10'000;  ///< MH-1
    std::size_t most_read = 2'000;      ///< MH-2
    std::uint64_t seed = 1;
    /// Everything is looked at by another connection, a 180th to a 60th of `sweep` after that
    /// (MD-5).
    bool resync_by_reconnect = false;
    CheckTimes* check_times = nullptr;  ///< of all components of a unit; outlives them
  };
  /// What an object wants, rendered again; empty when the object is not known any more.
  using Render = std::function<std::vector<DesiredEntity>(ObjectId)>;
  struct Callbacks {
    Render render;
    std::function<void(ObjectId)> changed;  ///< its progress is another one
    std::function<void(const DriftRepair&)> repaired;
    /// Brokers: whether a queue or address is named after one of our spaces; of others nothing is
    /// looked at, and without it none counts as an orphan (BH-4).
    std::function<bool(std::string_view)> ours;
    std::function<void()> facts;  ///< synchronized(), facts of the component, trouble() changed
    /// Routers: whether others make entities with our owner there. Brokers: whether what nobody
    /// wants here may be wanted by another name of it; asked again at complete(). Then it stays.
    std::function<bool()> shared{};
  };
  ComponentPipeline(Params params, Callbacks callbacks);
  ~ComponentPipeline();
  ComponentPipeline(const ComponentPipeline&) = delete;
  ComponentPipeline& operator=(const ComponentPipeline&) = delete;

  // What is to be there.

  /// The object's entities here, in their order, in place of what it wanted before; what is not in
  /// it any more is deleted, a changed one replaced: by update where the kind has that, else DELETE
  /// and CREATE in one slot. An entity that several objects want (a settings class) stays until the
  /// last of them lets go.
  /// @param first  before all others: vhosts, connectors, sslProfiles.
  void want(ObjectId object, std::span<const DesiredEntity> entities, bool first = false);
  /// Takes an entity as present although this process did not make it: a restart trusts what the
  /// status says, until a check finds otherwise.
  /// @param active  its links were seen active: they are looked at when all others are, not at
  /// once.
  void assume(ObjectId object, std::span<const DesiredEntity> entities, bool active = false);
  /// The object is gone and has nothing left here: its number may be used again.
  void forget(ObjectId object);
  [[nodiscard]] ObjectProgress progress(ObjectId object) const;
  /// Whether the object wants anything here. Cost: its entities, no texts.
  [[nodiscard]] bool wants(ObjectId object) const noexcept;
  /// All objects that there are have said what they want. Until then nothing is taken for an
  /// orphan: what a component holds may be wanted by one that was not read yet.
  void complete(TimePoint now);  ///< also: Callbacks::shared has become false

  // The connection.

  void on_ready(std::string_view product, std::string_view version, TimePoint now);
  /// Applied state is kept, what was in flight is not known.
  void on_lost(std::string_view why, TimePoint now);
  struct Send {
    std::uint64_t tag = 0;  ///< ours; given back with the answer
    ManagementRequest request;
    Duration deadline{};  ///< 0: the session's
    PipelineStep step = PipelineStep::kCheck;
  };
  /// The next request, if one may be sent now; call until nullopt while the session has room.
  [[nodiscard]] std::optional<Send> next(TimePoint now);
  /// @param reply  nullptr: none came in time.
  void on_answer(std::uint64_t tag, const ManagementReply* reply, TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_timer() const noexcept;
  void on_timer(TimePoint now);
  /// Whether the session is to be ended: three requests without an answer.
  [[nodiscard]] bool wants_reset() const noexcept;
  /// Whether it is to be ended so that the next one looks at everything anew (MD-5).
  [[nodiscard]] bool wants_reconnect() const noexcept;
  /// From now on everything is looked at anew, as after a connect (MR-30).
  void resync(TimePoint now);

  // What is known.

  [[nodiscard]] bool is_connected() const noexcept;
  /// It is connected, and whether what was applied before is still there was looked at since (or it
  /// is of no use). Until then nothing is said anew of what objects have there.
  [[nodiscard]] bool is_looked_at() const noexcept;
  [[nodiscard]] std::uint32_t looks() const noexcept;  ///< how often it became so
  /// It has not connected yet, or was not looked at yet, and was not found to be out of reach:
  /// nothing is known of it.
  [[nodiscard]] bool is_unheard() const noexcept;
  /// It is connected, has said who it is, and answers: new addresses may be placed there (BH-5).
  [[nodiscard]] bool is_usable() const noexcept;
  /// Everything wanted was applied at least once since it connected, and nothing waits.
  [[nodiscard]] bool synchronized() const noexcept;
  /// Why it is of no use as a whole: "UnsupportedRouter", "UnsupportedVersion", "Forbidden",
  /// "SameBroker", "ConnectionLost", …; reason and message.
  struct Trouble {
    std::string_view reason;
    std::string message;
  };
  [[nodiscard]] const std::optional<Trouble>& trouble() const noexcept;
  [[nodiscard]] const RouterCounters& router() const noexcept;
  struct BrokerFacts {
    std::string version;
    std::int64_t global_max_size = 0;
    std::int64_t queues = 0;  ///< of ours
    /// Its own identity, told at each connect and kept until it tells another; "": it told none.
    std::string node;
  };
  [[nodiscard]] const BrokerFacts& broker() const noexcept;
  /// A broker that may be there, or is, and has not said which one it is.
  [[nodiscard]] bool is_unidentified() const noexcept;
  /// By another name it is a component, too: as long as that is so it is asked which one it is at
  /// each connect, and nothing else is sent (BH-10).
  /// @param message  of trouble() then; "": it is not
  /// @returns whether that is another thing than before
  bool set_twin(std::string message, TimePoint now);
  /// State of a connector of ours, by entity name.
  [[nodiscard]] LinkStatus connector(std::string_view name) const;
  [[nodiscard]] std::size_t entities() const noexcept;
  [[nodiscard]] std::size_t entities(EntityKind kind) const noexcept;
  [[nodiscard]] std::size_t classes() const noexcept;  ///< settings classes among them
  [[nodiscard]] std::size_t pending() const noexcept;  ///< entities that are not as wanted
  [[nodiscard]] std::optional<TimePoint> last_sync() const noexcept;
  struct Counts {
    /// (operation, code) of what was sent: "CREATE", "createQueue", …; code 0: no answer.
    std::vector<std::pair<std::pair<std::string, std::int64_t>, std::uint64_t>> requests;
    std::map<EntityKind, std::uint64_t> repairs;
    std::uint64_t class_writes = 0, exact_writes = 0;  ///< of settings, by what they match
    std::uint64_t sent = 0;
  };
  [[nodiscard]] const Counts& counts() const noexcept;
  [[nodiscard]] const std::deque<FailedExchange>& failures() const noexcept;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace kintsugi::workers
