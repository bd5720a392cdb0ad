#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <queue>
#include <string>
#include <string_view>
#include <vector>

#include "workers/messaging/pipeline/component_pipeline.h"
#include "workers/messaging/pipeline/internal/entity_table.h"
#include "workers/messaging/pipeline/internal/exchanges.h"

namespace kintsugi::workers {

/// The state of a pipeline and what moves it; by file: pipeline_wants.cc (wants and holds),
/// pipeline_work.cc (what is sent next), pipeline_answers.cc (entities' answers),
/// pipeline_connection.cc (connection, trouble),
/// pipeline_checks.cc (timers, scans), pipeline_router.cc and pipeline_broker.cc (what
/// scans find). Threads: one at a time.
class PipelineCore {
 public:
  using Params = ComponentPipeline::Params;
  using Callbacks = ComponentPipeline::Callbacks;
  using Send = ComponentPipeline::Send;
  PipelineCore(Params params, Callbacks callbacks);

  void want(ObjectId object, std::span<const DesiredEntity> entities, bool first);
  void assume(ObjectId object, std::span<const DesiredEntity> entities, bool active);
  void forget(ObjectId object);
  void complete(TimePoint now);
  [[nodiscard]] ObjectProgress progress(ObjectId object) const;
  [[nodiscard]] bool wants(ObjectId object) const noexcept;

  void on_ready(std::string_view product, std::string_view version, TimePoint now);
  void on_lost(std::string_view why, TimePoint now);
  [[nodiscard]] std::optional<Send> next(TimePoint now);
  void on_answer(std::uint64_t tag, const ManagementReply* reply, TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_timer() const noexcept;
  void on_timer(TimePoint now);
  void resync(TimePoint now);
  [[nodiscard]] bool set_twin(std::string message, TimePoint now);

  /// Callbacks that are due; they may call want() and forget().
  void tell();

  // What is known; read by the class in front.
  [[nodiscard]] LinkStatus connector(std::string_view name) const;
  [[nodiscard]] bool synchronized() const noexcept {
    return connected && greeted && pending == 0 && !trouble && first_checks_done;
  }
  bool connected = false;
  bool looked_at = false;  ///< since it connected; false for a while after each connect
  std::uint32_t looks = 0;
  bool greeted = false;            ///< first counters, or version and node, are there
  bool first_checks_done = false;  ///< scans of this connection's begin
  std::size_t pending = 0;
  unsigned lost = 0;
  bool reconnect = false;  ///< the connection is to end, and the next one resyncs
  std::optional<ComponentPipeline::Trouble> trouble;
  RouterCounters router;
  ComponentPipeline::BrokerFacts broker;
  std::optional<TimePoint> last_sync;
  EntityTable table;
  ExchangeCounts exchanges;

 private:
  struct Timer {
    TimePoint due{};
    std::uint32_t entity = 0;
    std::uint16_t serial = 0;
    bool operator>(const Timer& other) const noexcept { return due > other.due; }
  };

  // Wants.
  void release(std::uint32_t hold);
  [[nodiscard]] bool is_first(const Entity& entity) const noexcept;

  // Work.
  [[nodiscard]] ExchangeStep step_of(const Entity& entity) const noexcept;
  [[nodiscard]] bool may_go(const Entity& entity) const noexcept;
  [[nodiscard]] Ring ring_for(const Entity& entity, ExchangeStep step) const noexcept;
  /// To be called after any change of an entity: counts, rings, those that wait for it, its end.
  void reconsider(std::uint32_t index, bool urgent = false);
  void wake(ObjectId object, std::uint8_t rank);
  void touch(Entity& entity);
  void set_presence(Entity& entity, Presence presence);
  [[nodiscard]] std::uint32_t pick(TimePoint now);
  [[nodiscard]] std::uint32_t pick_sweep(TimePoint now);
  [[nodiscard]] std::optional<Send> send_entity(std::uint32_t index, ExchangeStep step,
                                                TimePoint now);
  [[nodiscard]] const DesiredEntity* render(const Entity& entity);
  [[nodiscard]] bool looks_allowed(TimePoint now) const noexcept;
  [[nodiscard]] bool has_bulk() const noexcept;
  void arm(std::uint32_t index, TimePoint due);
  void disarm(Entity& entity) noexcept { ++entity.serial; }

  // Answers.
  void entity_answer(std::uint32_t index, Flight& flight, const ManagementReply& reply,
                     TimePoint now);
  void created(std::uint32_t index, const Flight& flight, const EntityOutcome& outcome,
               TimePoint now);
  void read_back(std::uint32_t index, const Flight& flight, const EntityOutcome& outcome,
                 TimePoint now);
  void deleted(std::uint32_t index, const Flight& flight, const EntityOutcome& outcome,
               TimePoint now);
  void updated(std::uint32_t index, const Flight& flight, const EntityOutcome& outcome,
               TimePoint now);
  void looked(std::uint32_t index, const Flight& flight, const EntityOutcome& outcome,
              TimePoint now);
  void applied(std::uint32_t index, EntityHash hash, TimePoint now);
  void fail(std::uint32_t index, std::string_view text, std::int64_t code, TimePoint now);
  [[nodiscard]] bool may_read_queue(TimePoint now);
  void forbidden(std::string_view text, TimePoint now);
  void unanswered(const Flight& flight, TimePoint now, bool back_off);
  void set_link(std::uint32_t index, const LinkStatus& status, TimePoint now);
  void look_again(std::uint32_t index, TimePoint now);
  void repaired(std::uint32_t index, DriftRepair::Cause cause);
  void foreign(Scan& scan, std::string_view name);
  void changed(const Entity& entity);
  void changed(ObjectId object);

  // Checks.
  void question_answer(Flight& flight, const ManagementReply* reply, TimePoint now);
  void ask(Question question, EntityKind kind = EntityKind::kAddress);
  [[nodiscard]] std::optional<Send> next_question(TimePoint now, bool may_scan);
  [[nodiscard]] ManagementRequest question_request(const Scan& scan) const;
  void end_scan(TimePoint now);
  void scan_time(TimePoint sent, TimePoint now);
  void begin_checks(TimePoint now, bool with_sweep);
  void begin_sweep(TimePoint now);
  [[nodiscard]] TimePoint next_checks(TimePoint wished, TimePoint now);
  void on_counters(const RouterCounters& seen, const Flight& flight, TimePoint now);
  /// The component began anew: nothing that was applied is there. @param presence  kUnsure: so it
  /// seems, and what is not wanted is deleted nevertheless
  void everything_absent(Presence presence);
  [[nodiscard]] bool small_enough(EntityKind kind) const noexcept;
  [[nodiscard]] std::uint8_t begin_round(EntityKind kind) noexcept;
  void find_missing(EntityKind kind, std::uint8_t round);
  void router_page(Scan& scan, const QueryPage& page, TimePoint now);
  void router_row(const Scan& scan, std::string_view name, const krm::Json& row, TimePoint now);
  void names_page(const Scan& scan, const krm::Json& names);
  void queues_page(Scan& scan, const QueuePage& page, TimePoint now);
  void queue_row(Scan& scan, std::string_view name, const krm::Json& row);
  void orphan(EntityKind kind, std::string_view name);
  void read_settings();
  void on_node(const ManagementReply& reply, TimePoint now);
  void greet(TimePoint now);
  /// Nothing more is sent, whatever else is amiss.
  [[nodiscard]] bool is_twin() const noexcept { return greeted && !twin_.empty(); }
  void set_trouble(std::string_view reason, std::string message);
  void clear_trouble();

  [[nodiscard]] std::size_t& present(EntityKind kind) noexcept {
    return present_[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] std::size_t present(EntityKind kind) const noexcept {
    return present_[static_cast<std::size_t>(kind)];
  }

  /// Entities of that kind that may be there or not: their requests were not answered.
  [[nodiscard]] std::size_t unsure(EntityKind kind) const noexcept {
    return unsure_[static_cast<std::size_t>(kind)];
  }
  /// Whether a component counts others than what is known of it explains; what is unsure explains
  /// as many as it is.
  enum class Router : std::uint8_t { kSame, kMaybeAnother, kAnother };
  [[nodiscard]] Router which_router(const RouterCounters& seen, TimePoint sent,
                                    TimePoint now) const noexcept;
  [[nodiscard]] bool count_differs(std::optional<std::int64_t>& foreign, std::int64_t there,
                                   EntityKind kind) const noexcept;

  static constexpr std::size_t kKinds = 11;
  Params params_;
  Callbacks callbacks_;
  EntityRings rings_{table};
  Flights flights_;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::array<std::size_t, kKinds> present_{}, unsure_{};
  std::array<std::uint8_t, kKinds> rounds_{};
  std::size_t waiting_ = 0;  ///< links that are not active
  std::size_t lookers_ = 0;  ///< looks in flight
  unsigned queue_reads_ = 0;
  TimePoint queue_reads_since_{};
  unsigned turn_ = 0;
  TimePoint now_{};

  std::deque<Scan> questions_;  ///< not part of a walk: at once
  std::deque<Scan> scans_;      ///< one after the other
  TimePoint scan_free_{}, looks_free_{}, settings_free_{}, forbidden_until_{};
  unsigned forbidden_ = 0;
  std::optional<TimePoint> counters_at_, checks_at_, states_at_;
  TimePoint last_lost_{};
  TimePoint booted_{};        ///< of the router, at the latest
  TimePoint heard_{};         ///< it has answered to what was sent then
  TimePoint heard_before_{};  ///< the same, of the connections before this one
  bool knew_counters_ = false;
  std::string twin_;  ///< of set_twin()
  bool told_node_ = false, told_version_ = false;
  std::optional<std::int64_t> foreign_links_, foreign_routes_, foreign_queues_;
  std::uint64_t link_changes_ = 0;
  bool sweeping_ = false, tables_after_sweep_ = false, resync_ = false;
  std::uint32_t sweep_at_ = 0;
  double sweep_tokens_ = 0;
  TimePoint sweep_filled_{};
  bool relooking_ = false;
  std::uint32_t relook_at_ = 0;

  ObjectId rendered_object_ = kNoIndex;
  std::vector<DesiredEntity> rendered_;

  std::vector<ObjectId> told_;
  std::vector<DriftRepair> repairs_;
  bool complete_ = false, orphans_left_ = false;
  bool facts_ = false, telling_ = false, was_synchronized_ = false;
};

}  // namespace kintsugi::workers
