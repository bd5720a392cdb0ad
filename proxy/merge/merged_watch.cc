#include "proxy/merge/merged_watch.h"

#include <algorithm>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "base/log.h"
#include "krm/status.h"
#include "proxy/answer.h"
#include "proxy/merge/list_plan.h"
#include "proxy/merge/member_watch.h"
#include "proxy/merge/shard_answer.h"
#include "proxy/merge/watch_group.h"
#include "proxy/merge/watch_text.h"

namespace kintsugi::proxy {
namespace {

constexpr Duration kTableComes = seconds(5);       ///< a table of slots after a change of members
constexpr Duration kLastDial = milliseconds(500);  ///< for a connection after headers_wait
constexpr Duration kLastWarning = seconds(2);      ///< before the planned end: a bookmark
constexpr std::size_t kWideRoute = 16;             ///< slots; more have rarer bookmarks
constexpr std::int64_t kMinLifetime = 1'800;       ///< [s] of a watch without timeoutSeconds
constexpr std::int64_t kMaxLifetime = 3'600;

std::int64_t random_between(std::int64_t least, std::int64_t most) {
  thread_local std::minstd_rand random{std::random_device{}()};
  return std::uniform_int_distribution<std::int64_t>(least, most)(random);
}

Error too_many_at_once() {
  Error error(Errc::kTooManyRequests, "too many watches ask for the present objects at once");
  error.edit().retry_after_seconds = 1;
  return error;
}

Duration lifetime_of(const MergeQuery& query) {
  return seconds(query.timeout_seconds > 0 ? std::min<std::int64_t>(query.timeout_seconds, 86'400)
                                           : random_between(kMinLifetime, kMaxLifetime));
}

}  // namespace

/// One client: reads its group's log, and until it is where the log begins, shard by shard, a
/// stream of its own.
class MergedWatch final : public http::RequestHandler,
                          private WatchDrain::Watch,
                          private GroupReader,
                          private MemberWatch::Sink {
 public:
  MergedWatch(MergeLoop& shared, http::RequestHead head, http::ResponseStream& stream,
              MergeRoute route, MergeQuery query, const std::string& accept)
      : shared_(shared),
        down_(stream),
        form_(AnswerForm::of(head)),
        query_(std::move(query)),
        headers_(shared.loop),
        bookmark_(shared.loop),
        idle_(shared.loop),
        end_(shared.loop),
        doom_(shared.loop),
        initial_(shared.loop) {
    ask_as(head, accept);
    audit_id_ = std::string(head.headers.get("audit-id"));
    group_ = group_of(shared_, std::move(head), std::move(route), query_);
    shared_.open.push_back(this);
    ++shared_.stats.watches;
    ++shared_.stats.watches_begun;
  }
  ~MergedWatch() override {
    stop();
    std::erase(shared_.open, this);
    --shared_.stats.watches;
  }

  void start() {
    alive_ = std::make_shared<char>();
    members_ = group_->members();
    if (members_.empty()) {
      refuse(shards_unavailable({{"none", "no shard is known"}}, true));
      return;
    }
    const CursorCodec& codec = group_->codec();
    const std::vector<bool> flags = member_flags(codec.history(), members_);
    const DecodedVersion version = codec.decode(query_.resource_version, flags);
    const bool initial = query_.initial_events.value_or(false);
    if (version.kind == VersionClass::kMalformed) {
      refuse(version_malformed(query_.resource_version));
      return;
    }
    if (version.kind == VersionClass::kNative && !initial) {
      resume_at_event(version.native, flags);
    } else {
      start_at(version);
    }
  }

  void start_at(const DecodedVersion& version) {
    const CursorCodec& codec = group_->codec();
    const bool initial = query_.initial_events.value_or(false);
    if (version.kind == VersionClass::kUnknown || version.kind == VersionClass::kFuture ||
        !version.departed.empty() || (version.kind == VersionClass::kNative && !initial)) {
      begin();
      fail_with(version_expired(), version.reason.empty() ? "native" : version.reason);
      return;
    }
    end_bookmark_ = initial && query_.bookmarks;
    bookmark_generation_ = codec.history().current().generation;
    group_->add(*this);
    next_ = group_->log().end();
    for (const Member& member : members_) {
      const std::uint64_t component =
          version.kind == VersionClass::kCursor ? version.components[member.slot] : 0;
      if (member.needed || component != 0) {
        parts_.push_back({member, nullptr, component, false, false, 0});
        place(parts_.back(), initial, version.kind == VersionClass::kZero);
      }
    }
    const bool lists = std::any_of(parts_.begin(), parts_.end(), [](const Part& part) {
      return part.own != nullptr && part.component == 0;
    });
    if (!lists) {
      open_own();
      return;
    }
    const Scope& scope = codec.scope();
    ticket_ = shared_.initial_gate.enter(shared_.loop,
                                         scope.route + '\n' + scope.group + '\n' + scope.resource,
                                         group_->identity(), [this](InitialGate::Answer answer) {
                                           if (answer == InitialGate::Answer::kGo) {
                                             open_own();
                                           } else {
                                             refuse(too_many_at_once());
                                           }
                                         });
    if (done_) {
      ticket_.reset();
    }
  }

  void on_data(std::string_view bytes, bool) noexcept override { down_.consume(bytes.size()); }
  void on_drained() noexcept override {
    if (evicted_) {
      end_in_order();
      return;
    }
    for (const Part& part : parts_) {
      if (part.own != nullptr) {
        part.own->give_credit();
      }
    }
    read_log();
  }
  void on_close(Errc) noexcept override { stop(); }

  /// The slots, or who is a member, have changed; the group knows already.
  void follow() {
    if (done_) {
      return;
    }
    const std::vector<Member>& now = group_->members();
    const std::uint32_t generation = bookmark_generation_;
    bookmark_generation_ = group_->codec().history().current().generation;
    bool lost_objects = false;
    bool departs = false;
    read_log();  // what the group told of shards that left
    std::erase_if(parts_, [&](Part& part) {
      const bool stays = std::any_of(now.begin(), now.end(), [&part](const Member& member) {
        return member.slot == part.member.slot && member.id == part.member.id;
      });
      GroupLog::Index until = 0;
      if (!stays && part.attached && group_->tells_departure(part.member.slot, until)) {
        part.leaves_at = until;
        departs = true;
        return next_ >= until;
      }
      lost_objects = lost_objects || (!stays && part.component != 0);
      departs = departs || !stays;
      if (!stays && part.own != nullptr) {
        retire(std::move(part.own));
      }
      return !stays;
    });
    if (departs) {
      // Its component becomes zero: never within one generation (AGG-504). The table that says so
      // is on its way, unless a Partition was edited.
      quiet_generation_ = generation;
      quiet_until_ = shared_.loop.now() + kTableComes;
    }
    if (lost_objects) {
      // What the client has of that shard it can only lose by listing again; not all at once.
      expire("removed", shared_.expiry_turn(0, 1));
    }
    for (const Member& member : now) {
      if (const Part* part = part_of(member.slot);
          (part == nullptr || part->leaves_at != 0) && member.needed) {
        // The group has just begun with its present objects: they are for all its readers.
        parts_.push_back({member, nullptr, 0, true, false, 0});
      }
    }
    members_ = now;
    moved();
    settle();
  }

 private:
  void open_own() {
    headers_.start(shared_.params.headers_wait, [this] {
      const bool dials = std::any_of(parts_.begin(), parts_.end(), [this](const Part& part) {
        const MemberWatch* stream = stream_of(part);
        return stream != nullptr && stream->state() == MemberWatch::State::kOpening &&
               !stream->is_connected();
      });
      if (dials) {  // it is about to fail rather than silent
        headers_.start(kLastDial, [this] { begin(); });
      } else {
        begin();
      }
    });
    for (std::size_t i = 0; i < parts_.size() && !done_; ++i) {
      if (parts_[i].own != nullptr) {
        parts_[i].own->open();
      }
    }
    if (!done_) {
      initial_.start(shared_.params.give_up, [this] { give_up(); });
      settle();
    }
  }

  struct Part {
    Member member;
    std::unique_ptr<MemberWatch> own;  ///< until it reads the log
    std::uint64_t component = 0;
    bool attached = false;  ///< reads the log
    bool skips = false;     ///< the log may begin with events that the client has
    /// Not 0: its shard is no member any more, its objects end before this place of the log.
    GroupLog::Index leaves_at = 0;
  };

  Part* part_of(std::size_t slot) noexcept {
    for (Part& part : parts_) {
      if (part.member.slot == slot) {
        return &part;
      }
    }
    return nullptr;
  }

  /// Native resourceVersion of an event: where its readers were (AGG-519).
  void resume_at_event(std::uint64_t revision, const std::vector<bool>& flags) {
    const auto found = [this, alive = std::weak_ptr<char>(alive_),
                        size = flags.size()](ResumeRing::Found at) {
      if (alive.expired() || done_) {
        return;
      }
      const auto unfit = [](std::uint64_t component) { return component == kBegun; };
      DecodedVersion version;
      version.kind = VersionClass::kNative;
      if (at.known && at.components.size() == size &&
          size == group_->codec().history().current().uids.size() &&
          std::none_of(at.components.begin(), at.components.end(), unfit)) {
        version.kind = VersionClass::kCursor;
        version.components = std::move(at.components);
      }
      start_at(version);
    };
    if (shared_.find_deliveries) {
      shared_.find_deliveries(group_->key(), revision, flags, found);
    } else {
      found(shared_.find_delivery(group_->key(), revision, flags));
    }
  }

  /// Where a part's events come from at first.
  void place(Part& part, bool initial, bool any_state) {
    WatchStart from;
    from.revision = part.component;
    from.any_state = any_state;
    from.initial_events = initial || part.component == 0;
    if (query_.initial_events == std::optional(false) && part.component == 0) {
      from.initial_events = false;
      from.recent = true;
    }
    if (!from.initial_events && !from.recent && group_->follow(part.member, part.component)) {
      attach(part);
      return;
    }
    part.component = from.initial_events ? 0 : from.revision;
    if (!from.initial_events) {
      group_->find_kind();
    }
    part.own = group_->make_stream(*this, part.member, from);
  }

  /// From now on the part reads the log. Events that lie behind the reader's place are sent now.
  void attach(Part& part) {
    part.attached = true;
    part.skips = true;
    const GroupLog& log = group_->log();
    const std::size_t slot = part.member.slot;
    const GroupLog::Index first = log.first_after(slot, part.component);
    if (!headed_) {  // nothing can be sent yet; what others have is skipped again
      next_ = std::min(next_, first);
      return;
    }
    for (GroupLog::Index i = first; i < next_; ++i) {
      if (log.at(i).slot == slot) {
        deliver(part, log.at(i));
      }
    }
  }

  /// A live stream of its own gives way to the group's, or becomes it.
  void try_attach(Part& part) {
    if (part.own == nullptr || done_) {
      return;
    }
    const MemberWatch::State state = part.own->state();
    const bool absent = state == MemberWatch::State::kAbsent;
    if (!absent && (state != MemberWatch::State::kLive || part.own->position() <= kBegun)) {
      return;
    }
    const std::size_t slot = part.member.slot;
    if (!group_->follows(slot)) {
      part.own->give_credit();
      group_->adopt(std::move(part.own));
      part.attached = true;
      if (std::none_of(parts_.begin(), parts_.end(),
                       [&part](const Part& one) { return &one != &part && one.attached; })) {
        next_ = group_->log().end();
      }
      return;
    }
    if (absent) {
      if (group_->stream(slot)->state() == MemberWatch::State::kAbsent) {
        retire(std::move(part.own));
        part.attached = true;
        part.skips = true;
      }
      return;
    }
    const std::optional<std::uint64_t> floor = group_->log().floor(slot);
    if (floor && part.component >= *floor &&
        group_->log().bytes_from(group_->log().first_after(slot, part.component)) <=
            shared_.params.private_high) {
      retire(std::move(part.own));
      attach(part);
    }
  }

  /// It may be on the stack: it goes in the next turn.
  void retire(std::unique_ptr<MemberWatch> stream) {
    stream->stop();
    shared_.loop.post([kept = std::shared_ptr<MemberWatch>(std::move(stream))] {});
  }

  [[nodiscard]] bool reads_all_from_log() const noexcept {
    return std::all_of(parts_.begin(), parts_.end(),
                       [](const Part& part) { return part.attached; });
  }

  // What the group tells.
  void on_group_moved() noexcept override {
    read_log();
    end_initial_phase();
  }
  void on_slot_accepted(std::size_t) noexcept override { settle(); }
  void on_slot_lost(std::size_t slot, std::string_view cause) noexcept override {
    const Part* part = part_of(slot);
    if (!headed_ && part != nullptr && part->attached && strict()) {
      refuse_without(part->member.name, cause);
    }
  }
  void on_slot_refused(std::size_t slot, const http::ResponseHead& head,
                       const std::string& body) noexcept override {
    if (const Part* part = part_of(slot); part != nullptr && part->attached) {
      refused_by(part->member, head, body);
    }
  }
  void on_slot_expired(std::size_t slot, std::string_view reason,
                       Duration delay) noexcept override {
    if (Part* part = part_of(slot); part != nullptr && part->attached) {
      part->attached = false;  // its stream has no successor for this client
      expire(reason, delay);
    }
  }
  void on_group_failed(const Error& error, std::string_view reason) noexcept override {
    begin();
    fail_with(error, reason);
  }

  // What streams of its own tell.
  void on_event(MemberWatch& from, const EventFacts& facts,
                std::string_view event) noexcept override {
    Part& part = *part_of(from.member().slot);
    part.component = from.position();
    last_progress_ = shared_.loop.now();
    group_->learn(facts.facts, facts.columns);
    is_stale_ = true;
    if (is_hidden(facts.facts)) {
      return;
    }
    if (facts.columns.empty() || !columns_sent_) {
      own_ += columns_needed(facts.columns) ? with_columns(event, group_->columns())
                                            : std::string(event);
    } else {
      own_ += without_columns(event, facts.columns);
    }
    own_ += group_->coding().separator;
    columns_sent_ = true;
    ++shared_.stats.events;
    group_->ring().deliver_to(facts.facts.revision, components(), shared_.loop.now());
  }
  void on_bookmark(MemberWatch& from, const ObjectFacts& facts) noexcept override {
    part_of(from.member().slot)->component = from.position();
    group_->learn(facts, {});
    is_stale_ = true;
  }
  void on_initial_end(MemberWatch& from) noexcept override {
    Part& part = *part_of(from.member().slot);
    part.component = from.position();
    send_own();
    try_attach(part);
    end_initial_phase();
    moved();
  }
  void on_accepted(MemberWatch& from) noexcept override {
    if (from.state() == MemberWatch::State::kAbsent) {
      try_attach(*part_of(from.member().slot));
    }
    settle();
  }
  void on_batch_end(MemberWatch& from) noexcept override {
    send_own();
    if (down_.unsent_bytes() < shared_.params.private_high) {
      from.give_credit();
    }
    Part* part = part_of(from.member().slot);
    if (part != nullptr && part->own.get() == &from) {
      try_attach(*part);
    }
    read_log();
    moved();
  }
  bool on_lost(MemberWatch& from, std::string_view cause) noexcept override {
    if (from.half_begun()) {  // objects that it told of may be gone by now (AGG-806)
      begin();
      fail_with(end_bookmark_ ? shards_unavailable({{from.member().name, std::string(cause)}}, true)
                              : version_expired(),
                "initial");
      return false;
    }
    if (!headed_ && strict()) {
      refuse_without(from.member().name, cause);
      return false;
    }
    return true;
  }
  void on_expired(MemberWatch&) noexcept override {
    begin();
    fail_with(version_expired(), "history");
  }
  void on_refused(MemberWatch& from, const http::ResponseHead& head,
                  const std::string& body) noexcept override {
    refused_by(from.member(), head, body);
  }
  void on_too_large(MemberWatch& from) noexcept override {
    begin();
    fail_with(
        Error(Errc::kInternal, "an event of shard " + from.member().name + " is larger than " +
                                   std::to_string(shared_.params.max_event) + " bytes"),
        "large");
  }

  [[nodiscard]] bool strict() const noexcept { return !query_.partial; }

  void refuse_without(const std::string& shard, std::string_view cause) {
    ++shared_.stats.failed;
    refuse(shards_unavailable({{shard, std::string(cause)}}, true));
  }

  void refused_by(const Member& member, const http::ResponseHead& head, const std::string& body) {
    if (head.status == 404) {
      const bool nowhere = std::all_of(parts_.begin(), parts_.end(), [this](const Part& part) {
        return state_of(part) == MemberWatch::State::kAbsent;
      });
      if (nowhere && !headed_) {
        pass_on(head, body);
      }
    } else if (!headed_) {
      pass_on(head, body);
    } else if (head.status != 429) {
      fail_with(Error(Errc::kForbidden,
                      "shard " + member.name + " answers " + std::to_string(head.status)),
                "refused");
    }
  }

  [[nodiscard]] const MemberWatch* stream_of(const Part& part) const noexcept {
    return part.own != nullptr ? part.own.get() : group_->stream(part.member.slot);
  }
  [[nodiscard]] MemberWatch::State state_of(const Part& part) const noexcept {
    const MemberWatch* stream = stream_of(part);
    return stream == nullptr ? MemberWatch::State::kStopped : stream->state();
  }
  [[nodiscard]] TimePoint silent_since(const Part& part) const noexcept {
    const MemberWatch* stream = stream_of(part);
    return stream == nullptr ? TimePoint::max() : stream->silent_since();
  }

  /// Every shard has accepted: the head goes out.
  void settle() {
    const bool open = std::any_of(parts_.begin(), parts_.end(), [this](const Part& part) {
      return part.own != nullptr ? part.own->state() == MemberWatch::State::kOpening
                                 : !group_->accepted(part.member.slot);
    });
    if (!open && !done_) {
      begin();
      end_initial_phase();
    }
  }

  void begin() {
    if (headed_ || done_) {
      return;
    }
    const TimePoint late = shared_.loop.now() - shared_.params.headers_wait;
    for (const Part& part : parts_) {
      if (strict() && silent_since(part) < late) {
        refuse_without(part.member.name, "it is away");
        return;
      }
    }
    headed_ = true;
    headers_.cancel();
    begun_at_ = shared_.loop.now();
    http::HeaderList headers;
    headers.add("content-type", group_->coding().content_type);
    headers.add("cache-control", "no-cache, private");
    headers.add("audit-id", audit_id_);
    down_.send_head(200, headers, false);
    shared_.watches.add(*this);
    const Duration life = lifetime_of(query_);
    if (life > 2 * kLastWarning) {
      end_.start(life - kLastWarning, [this] {
        send_bookmark();
        end_.start(kLastWarning, [this] { end_in_order(); });
      });
    } else {
      end_.start(life, [this] { end_in_order(); });
    }
    arm_idle();
    send_own();
    read_log();
  }

  void arm_idle() {
    idle_.start(about(shared_.params.bookmark_idle), [this] {
      const TimePoint oldest = shared_.loop.now() - shared_.params.max_stall;
      if (strict() && std::any_of(parts_.begin(), parts_.end(),
                                  [&](const Part& part) { return silent_since(part) < oldest; })) {
        ++shared_.stats.evicted_stall;
        end_in_order();
        return;
      }
      send_bookmark();
      arm_idle();
    });
  }

  /// The one bookmark that ends the initial events of all shards (AGG-802).
  void end_initial_phase() {
    const bool all = std::all_of(parts_.begin(), parts_.end(), [this](const Part& part) {
      const MemberWatch* stream = stream_of(part);
      return stream == nullptr || stream->initial_done() ||
             (gave_up_ && stream->state() == MemberWatch::State::kWaiting);
    });
    if (!all || done_) {
      return;
    }
    initial_.cancel();
    ticket_.reset();
    if (end_bookmark_ && group_->kind().known()) {
      begin();
      if (done_) {
        return;
      }
      read_log();
      end_bookmark_ = false;
      emit_bookmark(true);
      send_own();
    }
  }

  /// A shard never finished its initial events; while the client takes them slowly, or they come,
  /// the shard is not to blame.
  void give_up() {
    const bool held = std::any_of(parts_.begin(), parts_.end(), [](const Part& part) {
      return part.own != nullptr && part.own->is_held_back();
    });
    const Duration quiet = shared_.loop.now() - last_progress_;
    if (held || quiet < shared_.params.give_up) {
      initial_.start(held ? shared_.params.give_up : shared_.params.give_up - quiet,
                     [this] { give_up(); });
      return;
    }
    std::vector<std::pair<std::string, std::string>> late;
    for (const Part& part : parts_) {
      if (const MemberWatch* stream = stream_of(part);
          stream != nullptr && !stream->initial_done()) {
        late.emplace_back(part.member.name, "its present objects did not come in time");
      }
    }
    if (strict() || !headed_) {
      begin();
      fail_with(shards_unavailable(late, true), "initial");
      return;
    }
    gave_up_ = true;
    end_initial_phase();
  }

  /// Everything of the log that the client can take now.
  void read_log() {
    const GroupLog& log = group_->log();
    if (!headed_ || done_ || evicted_ || parts_.empty()) {
      return;
    }
    if (next_ < log.begin()) {
      evict();
      return;
    }
    bool sent = false;
    while (next_ < log.end() && down_.unsent_bytes() < shared_.params.private_high) {
      const GroupLog::Index index = next_++;
      const GroupLog::Entry& entry = log.at(index);
      if (Part* part = part_of(entry.slot);
          part != nullptr && part->attached && (log.is_current(index) || part->leaves_at != 0)) {
        deliver(*part, entry);
        sent = true;
      }
    }
    if (next_ < log.end()) {
      const bool over = log.bytes_from(next_) > shared_.params.queue_high ||
                        log.end() - next_ > shared_.params.queue_high_events;
      if (over && caught_up_) {
        evict();
      }
    } else {
      caught_up_ = true;
      for (Part& part : parts_) {
        if (const MemberWatch* stream = group_->stream(part.member.slot);
            part.attached && stream != nullptr && stream->position() > part.component) {
          part.component = stream->position();
          sent = true;
        }
      }
    }
    std::erase_if(parts_, [this](const Part& part) {
      return part.leaves_at != 0 && next_ >= part.leaves_at;
    });
    if (sent) {
      moved();
    }
  }

  void deliver(Part& part, const GroupLog::Entry& entry) {
    if (part.skips) {
      if (part.component > kBegun && (entry.position < part.component ||
                                      (entry.position == part.component && !entry.repeats))) {
        return;
      }
      part.skips = false;
    }
    part.component = std::max(part.component, entry.position);
    ++shared_.stats.events;
    const std::string_view event = entry.bytes.view();
    const std::string_view columns = event.substr(entry.columns_at, entry.columns_size);
    if (columns_needed(columns)) {
      down_.send_data(with_columns(event, group_->columns()), false);
    } else if (columns_sent_ && !columns.empty()) {
      down_.send_data(without_columns(event, columns), false);
    } else {
      down_.send_data(entry.bytes, false);
    }
    columns_sent_ = true;
    if (!reads_all_from_log()) {
      group_->ring().deliver_to(entry.revision, components(), shared_.loop.now());
    }
  }

  /// The first event of a Table stream has the columns, whoever was sent them first.
  [[nodiscard]] bool columns_needed(std::string_view columns) const noexcept {
    return !columns_sent_ && columns.empty() && group_->kind().is_table() &&
           !group_->columns().empty();
  }

  /// It is too far behind: it gets the end of what is on its way, if it takes it soon.
  void evict() {
    evicted_ = true;
    ++shared_.stats.evicted_slow;
    bookmark_.cancel();
    idle_.cancel();
    end_.start(shared_.params.slow_grace, [this] {
      stop();
      down_.reset(Errc::kOk);
    });
  }

  /// A component has moved: a bookmark follows the last event of the burst (AGG-514).
  void moved() {
    is_stale_ = true;
    if (!query_.bookmarks || end_bookmark_ || bookmark_armed_ || done_ || !headed_ || evicted_) {
      return;
    }
    const Duration gap =
        parts_.size() > kWideRoute ? shared_.params.bookmark_gap_wide : shared_.params.bookmark_gap;
    const TimePoint due = last_bookmark_ + gap;
    if (due <= shared_.loop.now()) {
      send_bookmark();
      return;
    }
    arm_bookmark(due - shared_.loop.now());
  }
  void arm_bookmark(Duration delay) {
    bookmark_armed_ = true;
    bookmark_.start(delay, [this] {
      bookmark_armed_ = false;
      if (is_stale_) {
        send_bookmark();
      }
    });
  }

  void send_bookmark() {
    const bool leaving = std::any_of(parts_.begin(), parts_.end(),
                                     [](const Part& part) { return part.leaves_at != 0; });
    const bool quiet =
        bookmark_generation_ == quiet_generation_ && shared_.loop.now() < quiet_until_;
    if (quiet) {
      if (!bookmark_armed_) {
        arm_bookmark(quiet_until_ - shared_.loop.now());
      }
      return;
    }
    if (query_.bookmarks && !end_bookmark_ && group_->kind().known() && headed_ && !done_ &&
        !leaving && !doomed_) {
      emit_bookmark(false);
      send_own();
    }
  }

  [[nodiscard]] Components components() const {
    Components out(group_->codec().history().current().uids.size());
    for (const Part& part : parts_) {
      out[part.member.slot] = part.component;
    }
    return out;
  }

  void emit_bookmark(bool initial_end) {
    ++shared_.stats.bookmarks;
    last_bookmark_ = shared_.loop.now();
    is_stale_ = false;
    const bool first_of_table = group_->kind().is_table() && !columns_sent_;
    const bool level = std::all_of(parts_.begin(), parts_.end(), [this](const Part& part) {
      const MemberWatch* stream = group_->stream(part.member.slot);
      return part.attached && stream != nullptr && stream->position() == part.component;
    });
    if (!initial_end && !first_of_table && next_ == group_->log().end() && level) {
      send_own();
      down_.send_data(group_->bookmark(), false);
      return;
    }
    own_ +=
        group_->coding().bookmark(group_->kind(), group_->codec().format(components()), initial_end,
                                  first_of_table ? group_->columns() : std::string());
    columns_sent_ = columns_sent_ || (first_of_table && !group_->columns().empty());
  }

  /// What was made for this client alone.
  void send_own() {
    if (headed_ && !own_.empty() && !done_) {
      down_.send_data(own_, false);
      own_.clear();
    }
  }

  /// A last bookmark if it is wanted, then the end of the stream; not within a second of its head
  /// (AGG-1303).
  void end_in_order() noexcept override {
    if (done_ || !headed_) {
      return;
    }
    const TimePoint earliest = begun_at_ + shared_.params.min_life;
    if (shared_.loop.now() < earliest) {
      end_.start(earliest - shared_.loop.now(), [this] { end_in_order(); });
      return;
    }
    send_bookmark();
    finish();
  }

  /// The client has lost events: it is told in its turn, and reads on until then.
  void expire(std::string_view reason, Duration delay) {
    if (delay <= Duration{}) {
      begin();
      fail_with(version_expired(), reason);
      return;
    }
    doomed_ = true;
    doom_.start(delay, [this, reason] {
      begin();
      fail_with(version_expired(), reason);
    });
  }

  void fail_with(const Error& error, std::string_view reason) {
    if (done_) {
      return;
    }
    if (error.code() == Errc::kExpired) {
      ++shared_.stats.expired[reason];
    }
    log_info(
        "a merged watch ends with an error",
        {{"reason", reason}, {"path", group_->route().path}, {"errc", errc_name(error.code())}});
    if (!headed_) {
      refuse(error);
      return;
    }
    own_ += group_->coding().error(error);
    finish();
  }

  void finish() {
    const std::string last = std::exchange(own_, {});
    stop();
    down_.send_data(last, true);
  }

  /// A shard's own Status goes to the client.
  void pass_on(const http::ResponseHead& answer, const std::string& body) {
    http::HeaderList headers = passed_headers(answer);
    headers.add("audit-id", audit_id_);
    stop();
    down_.send_head(answer.status, headers, false);
    down_.send_data(body, true);
  }

  void refuse(const Error& error) {
    stop();
    send_error(down_, form_, error);
  }

  void stop() noexcept {
    if (std::exchange(done_, true)) {
      return;
    }
    leave();
    for (net::Timer* timer : {&headers_, &bookmark_, &idle_, &end_, &doom_, &initial_}) {
      timer->cancel();
    }
    for (Part& part : parts_) {
      if (part.own != nullptr) {
        retire(std::move(part.own));
      }
    }
    alive_.reset();
    group_->remove(*this);
    ticket_.reset();
  }

  MergeLoop& shared_;
  http::ResponseStream& down_;
  AnswerForm form_;
  MergeQuery query_;
  std::string audit_id_;
  std::shared_ptr<WatchGroup> group_;
  std::unique_ptr<InitialGate::Ticket> ticket_;  // while present objects come
  net::Timer headers_, bookmark_, idle_, end_, doom_, initial_;
  std::shared_ptr<char> alive_;  // while something asked of other loops may come back
  std::vector<Member> members_;
  std::vector<Part> parts_;
  GroupLog::Index next_ = 0;
  std::string own_;  // made for this client and not sent yet
  TimePoint begun_at_{}, last_bookmark_{}, last_progress_{};
  bool headed_ = false, done_ = false, evicted_ = false;
  bool end_bookmark_ = false;  // still to be sent
  bool columns_sent_ = false;
  bool is_stale_ = false;  // a component has moved since the last bookmark
  bool bookmark_armed_ = false;
  bool caught_up_ = false;  // it has been at the end of the log
  bool gave_up_ = false;    // on the initial events of a shard
  bool doomed_ = false;     // 410 comes: bookmarks would say what is not so
  std::uint32_t bookmark_generation_ = 0, quiet_generation_ = 0;
  TimePoint quiet_until_{};
};

std::unique_ptr<http::RequestHandler> make_merged_watch(MergeLoop& shared, http::RequestHead head,
                                                        http::ResponseStream& stream,
                                                        MergeRoute route, MergeQuery query,
                                                        std::string accept) {
  auto watch = std::make_unique<MergedWatch>(shared, std::move(head), stream, std::move(route),
                                             std::move(query), accept);
  watch->start();
  return watch;
}

void follow_slots(MergedWatch& watch) { watch.follow(); }

}  // namespace kintsugi::proxy
