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
#include "proxy/merge/watch_text.h"

namespace kintsugi::proxy {
namespace {

constexpr Duration kLastWarning = seconds(2);  ///< before the planned end: a bookmark
constexpr std::size_t kWideRoute = 16;         ///< slots; more have rarer bookmarks
constexpr std::int64_t kMinLifetime = 1'800;   ///< [s] of a watch without timeoutSeconds
constexpr std::int64_t kMaxLifetime = 3'600;

std::int64_t random_between(std::int64_t least, std::int64_t most) {
  thread_local std::minstd_rand random{std::random_device{}()};
  return std::uniform_int_distribution<std::int64_t>(least, most)(random);
}

Duration lifetime_of(const MergeQuery& query) {
  return seconds(query.timeout_seconds > 0 ? std::min<std::int64_t>(query.timeout_seconds, 86'400)
                                           : random_between(kMinLifetime, kMaxLifetime));
}

}  // namespace

class MergedWatch final : public http::RequestHandler,
                          private WatchDrain::Watch,
                          public MemberWatch::Sink {
 public:
  MergedWatch(MergeLoop& shared, http::RequestHead head, http::ResponseStream& stream,
              MergeRoute route, MergeQuery query, const std::string& accept)
      : shared_(shared),
        down_(stream),
        form_(AnswerForm::of(head)),
        head_(std::move(head)),
        route_(std::move(route)),
        query_(std::move(query)),
        codec_(route_.scope, shared.slots),
        headers_(shared.loop),
        bookmark_(shared.loop),
        idle_(shared.loop),
        end_(shared.loop),
        expiry_(shared.loop),
        alive_(std::make_shared<char>()) {
    ask_as(head_, accept);
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
    members_ = route_.members();
    if (members_.empty()) {
      refuse(shards_unavailable({{"none", "no shard is known"}}, true));
      return;
    }
    const DecodedVersion version =
        codec_.decode(query_.resource_version, member_flags(codec_.history(), members_));
    const bool initial = query_.initial_events.value_or(false);
    if (version.kind == VersionClass::kMalformed) {
      refuse(version_malformed(query_.resource_version));
      return;
    }
    // Of a shard's own version it is not known where the other shards were.
    if (version.kind == VersionClass::kUnknown || version.kind == VersionClass::kFuture ||
        !version.departed.empty() || (version.kind == VersionClass::kNative && !initial)) {
      begin();
      fail_with(version_expired(), version.reason.empty() ? "native" : version.reason);
      return;
    }
    end_bookmark_ = initial && query_.bookmarks;
    for (const Member& member : members_) {
      WatchStart from;
      from.revision = version.kind == VersionClass::kCursor ? version.components[member.slot] : 0;
      if (!member.needed && from.revision == 0) {
        continue;
      }
      from.any_state = version.kind == VersionClass::kZero;
      from.initial_events = initial || from.revision == 0;
      if (query_.initial_events == std::optional(false) && from.revision == 0) {
        from.initial_events = false;
        from.recent = true;
      }
      add(member, from);
    }
    headers_.start(shared_.params.headers_wait, [this] { begin(); });
    for (std::size_t i = 0; i < parts_.size() && !done_; ++i) {
      parts_[i]->open();
    }
  }

  void on_data(std::string_view bytes, bool) noexcept override { down_.consume(bytes.size()); }
  void on_drained() noexcept override {
    for (const auto& part : parts_) {
      part->give_credit();
    }
  }
  void on_close(Errc) noexcept override { stop(); }

  /// The slots have changed.
  void follow() {
    if (done_) {
      return;
    }
    std::vector<Member> now = route_.members();
    if (now == members_ && shared_.slots.get() == &codec_.history()) {
      return;
    }
    const auto covers = [&now](const auto& part) {
      return std::any_of(now.begin(), now.end(), [&](const Member& member) {
        return member.slot == part->member().slot && member.id == part->member().id;
      });
    };
    codec_ = CursorCodec(route_.scope, shared_.slots);
    const bool lost_objects = std::any_of(parts_.begin(), parts_.end(), [&](const auto& part) {
      return !covers(part) && part->position() != 0;
    });
    if (lost_objects) {
      // What the client has of that shard it can only lose by listing again; not all at once.
      expiry_.start(Duration(random_between(0, shared_.params.expire_spread.count())),
                    [this] { fail_with(version_expired(), "removed"); });
    }
    std::erase_if(parts_, [&](const auto& part) { return !covers(part); });
    for (const Member& member : now) {
      const bool known = std::any_of(parts_.begin(), parts_.end(), [&](const auto& part) {
        return part->member().slot == member.slot;
      });
      if (!known && member.needed && !done_) {
        add(member, WatchStart{0, true, false, false});
        parts_.back()->open();
      }
    }
    members_ = std::move(now);
    moved();
  }

 private:
  void add(const Member& member, const WatchStart& from) {
    parts_.push_back(std::make_unique<MemberWatch>(shared_, *this, member, head_, route_,
                                                   query_.passed_on, from));
  }

  // What the shards tell.
  void on_event(MemberWatch&, const EventFacts& facts, std::string_view event) noexcept override {
    learn(facts.facts);
    moved();
    if (facts.facts.cluster.starts_with("system:")) {
      return;  // these exist on every shard (AGG-1501)
    }
    ++shared_.stats.events;
    if (facts.columns.empty() || !columns_sent_) {
      out_ += event;
      columns_sent_ = columns_sent_ || !facts.columns.empty();
    } else {
      out_ += without_columns(event, facts.columns);
    }
    out_ += '\n';
  }
  void on_bookmark(MemberWatch&, const ObjectFacts& facts) noexcept override {
    learn(facts);
    is_stale_ = true;
  }
  void on_initial_end(MemberWatch&) noexcept override {
    moved();
    end_initial_phase();
  }
  void on_accepted(MemberWatch&) noexcept override {
    if (std::none_of(parts_.begin(), parts_.end(), [](const auto& part) {
          return part->state() == MemberWatch::State::kOpening;
        })) {
      begin();
      end_initial_phase();
    }
  }
  void on_batch_end(MemberWatch& from) noexcept override {
    flush();
    if (down_.unsent_bytes() < shared_.params.private_high) {
      from.give_credit();
    }
  }
  bool on_lost(MemberWatch& from, std::string_view cause) noexcept override {
    const std::string& shard = from.member().name;
    if (!headed_) {
      ++shared_.stats.failed;
      refuse(shards_unavailable({{shard, std::string(cause)}}, true));
      return false;
    }
    if (from.half_begun()) {  // objects that it told of may be gone by now (AGG-806)
      fail_with(end_bookmark_ ? shards_unavailable({{shard, std::string(cause)}}, true)
                              : version_expired(),
                "initial");
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
    if (head.status == 404) {
      const bool nowhere = std::all_of(parts_.begin(), parts_.end(), [](const auto& part) {
        return part->state() == MemberWatch::State::kAbsent;
      });
      if (nowhere && !headed_) {
        pass_on(head, body);
      }
    } else if (!headed_) {
      pass_on(head, body);
    } else if (head.status != 429) {
      fail_with(Error(Errc::kForbidden,
                      "shard " + from.member().name + " answers " + std::to_string(head.status)),
                "refused");
    }
  }
  void on_too_large(MemberWatch& from) noexcept override {
    fail_with(
        Error(Errc::kInternal, "an event of shard " + from.member().name + " is larger than " +
                                   std::to_string(shared_.params.max_event) + " bytes"),
        "large");
  }

  void learn(const ObjectFacts& facts) {
    if (!kind_.known() && !facts.kind.empty()) {
      kind_ = {std::string(facts.kind), std::string(facts.api_version)};
    }
  }

  void begin() {
    if (headed_ || done_) {
      return;
    }
    headed_ = true;
    headers_.cancel();
    begun_at_ = shared_.loop.now();
    http::HeaderList headers;
    headers.add("content-type", "application/json");
    headers.add("cache-control", "no-cache, private");
    headers.add("audit-id", head_.headers.get("audit-id"));
    down_.send_head(200, headers, false);
    shared_.watches.add(*this);
    const Duration life = lifetime_of(query_);
    if (life > 2 * kLastWarning) {
      end_.start(life - kLastWarning, [this] {
        send_bookmark();
        flush();
        end_.start(kLastWarning, [this] { end_in_order(); });
      });
    } else {
      end_.start(life, [this] { end_in_order(); });
    }
    arm_idle();
    flush();
  }

  void arm_idle() {
    idle_.start(about(shared_.params.bookmark_idle), [this] {
      const TimePoint oldest = shared_.loop.now() - shared_.params.max_stall;
      if (std::any_of(parts_.begin(), parts_.end(),
                      [oldest](const auto& part) { return part->silent_since() < oldest; })) {
        end_in_order();
        return;
      }
      send_bookmark();
      flush();
      arm_idle();
    });
  }

  /// The one bookmark that ends the initial events of all shards (AGG-802).
  void end_initial_phase() {
    const bool all = std::all_of(parts_.begin(), parts_.end(),
                                 [](const auto& part) { return part->initial_done(); });
    if (end_bookmark_ && all && kind_.known() && !done_) {
      end_bookmark_ = false;
      begin();
      emit_bookmark(true);
      flush();
    }
  }

  /// A component has moved: a bookmark follows the last event of the burst (AGG-514).
  void moved() {
    is_stale_ = true;
    if (!query_.bookmarks || end_bookmark_ || bookmark_armed_ || done_) {
      return;
    }
    bookmark_armed_ = true;
    const Duration gap =
        parts_.size() > kWideRoute ? shared_.params.bookmark_gap_wide : shared_.params.bookmark_gap;
    const TimePoint due = last_bookmark_ + gap;
    if (due > shared_.loop.now()) {
      bookmark_.start(due - shared_.loop.now(), [this] { trail(); });
      return;
    }
    shared_.loop.post([this, alive = std::weak_ptr<char>(alive_)] {
      if (!alive.expired()) {
        trail();
      }
    });
  }
  void trail() {
    bookmark_armed_ = false;
    if (is_stale_) {
      send_bookmark();
      flush();
    }
  }

  void send_bookmark() {
    if (query_.bookmarks && !end_bookmark_ && kind_.known() && headed_ && !done_) {
      emit_bookmark(false);
    }
  }

  void emit_bookmark(bool initial_end) {
    ++shared_.stats.bookmarks;
    last_bookmark_ = shared_.loop.now();
    is_stale_ = false;
    Components components(codec_.history().current().uids.size());
    for (const auto& part : parts_) {
      components[part->member().slot] = part->position();
    }
    out_ += bookmark_event(kind_, codec_.format(components), initial_end, {});
  }

  void flush() {
    if (headed_ && !out_.empty() && !done_) {
      down_.send_data(out_, false);
      out_.clear();
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

  void fail_with(const Error& error, std::string_view reason) {
    if (done_) {
      return;
    }
    if (error.code() == Errc::kExpired) {
      ++shared_.stats.expired[reason];
    }
    log_info("a merged watch ends with an error",
             {{"reason", reason}, {"path", route_.path}, {"errc", errc_name(error.code())}});
    if (!headed_) {
      refuse(error);
      return;
    }
    out_ += error_event(error);
    finish();
  }

  void finish() {
    const std::string last = std::exchange(out_, {});
    stop();
    down_.send_data(last, true);
  }

  /// A shard's own Status goes to the client.
  void pass_on(const http::ResponseHead& answer, const std::string& body) {
    http::HeaderList headers = passed_headers(answer);
    headers.add("audit-id", head_.headers.get("audit-id"));
    stop();
    down_.send_head(answer.status, headers, false);
    down_.send_data(body, true);
  }

  void refuse(const Error& error) {
    stop();
    send_error(down_, form_, error);
  }

  void stop() noexcept {
    done_ = true;
    leave();
    for (net::Timer* timer : {&headers_, &bookmark_, &idle_, &end_, &expiry_}) {
      timer->cancel();
    }
    for (const auto& part : parts_) {
      part->stop();
    }
    alive_.reset();
  }

  MergeLoop& shared_;
  http::ResponseStream& down_;
  AnswerForm form_;
  http::RequestHead head_;  // what every shard is asked with
  MergeRoute route_;
  MergeQuery query_;
  CursorCodec codec_;
  net::Timer headers_, bookmark_, idle_, end_, expiry_;
  std::vector<Member> members_;
  std::vector<std::unique_ptr<MemberWatch>> parts_;
  StreamKind kind_;
  std::string out_;
  TimePoint begun_at_{}, last_bookmark_{};
  bool headed_ = false, done_ = false;
  bool end_bookmark_ = false;  // still to be sent
  bool columns_sent_ = false;
  bool is_stale_ = false;  // a component has moved since the last bookmark
  bool bookmark_armed_ = false;
  std::shared_ptr<char> alive_;
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
