#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "aggregation/asking/asking.h"
#include "aggregation/asking/shard_question.h"
#include "aggregation/bytes/json_split.h"
#include "aggregation/bytes/watch_text.h"
#include "aggregation/list/list_probe.h"
#include "aggregation/list/shard_pages.h"
#include "net/loop.h"

namespace kintsugi::aggregation {

/// Brings the initial events of one shard to an end where its watch does not do so by itself
/// (AGG-806): a server that refuses them is listed, one
/// that falls silent is asked whether there is more. Lives while they come. Threads: its loop.
class InitialPhase final : private ShardPages::Listener {
 public:
  /// None of these may destroy the phase; all may stop() it.
  class Host {
   public:
    /// The shard answered the list that stands in for the watch.
    virtual void on_list_accepted() = 0;
    /// A present object, as an ADDED event without its marker.
    virtual void on_listed_event(std::string_view event) = 0;
    /// Credit is owed for the list's bytes: see consume().
    virtual void on_listed_bytes(std::size_t count) = 0;
    /// All present objects were told: a new watch goes on from the revision.
    virtual void on_phase_end(const StreamKind& kind, std::uint64_t revision) = 0;
    /// The shard lacks the resource (404), or says nothing about it.
    virtual void on_phase_absent(const http::ResponseHead& head, const std::string& body) = 0;
    /// The shard's answer to the list is final.
    virtual void on_phase_refused(const http::ResponseHead& head, const std::string& body) = 0;
    /// Its taker is slow: the shard's bytes wait for it.
    [[nodiscard]] virtual bool is_held_back() const noexcept = 0;
    /// It failed: what was told may be gone by now.
    virtual void on_phase_lost(std::string_view cause) = 0;

   protected:
    ~Host() = default;
  };

  /// @param question  outlives this. @param start  of the watch: nothing older than its revision
  /// will do (V16)
  InitialPhase(Asking& shared, Host& host, const Member& member, ShardQuestion& question,
               const WatchStart& start);

  /// This shard's initial events are taken by LIST for now.
  [[nodiscard]] bool prefers_list() const;
  /// The shard refuses them: it is listed instead.
  /// @param reason  label of kintsugi_watchlist_emulated_total
  void list(std::string_view reason);
  /// The watch was accepted, or an event of it has come.
  void watch_accepted();
  void heard(const EventFacts& facts);
  /// The watch, or this, is over.
  void stop() noexcept;
  void consume(std::size_t bytes) noexcept;

 private:
  enum class Task : std::uint8_t { kNone, kDeliver, kCompare, kProbe };
  /// What came, whatever its order.
  struct Tally {
    std::size_t count = 0;
    std::uint64_t hash = 0;
    void add(const ObjectFacts& facts) noexcept;
    bool operator==(const Tally&) const = default;
  };

  void on_item(std::string_view item, const ListEnvelope& envelope) override;
  void on_bytes(std::size_t count) override;
  void on_pages_end(ShardPages::End end) override;

  void begin(Task task);
  void silent();
  void end_compare(ShardPages::End end);
  void end_probe(ShardPages::End end);
  void end_deliver(ShardPages::End end);
  /// All present objects were told, as they were at this revision.
  void end_at(std::uint64_t revision);
  /// The shard tells nothing until it has reached what was asked for: has it?
  void ask_how_far();
  void refuse_future(std::uint64_t reached);
  [[nodiscard]] StreamKind kind() const;

  Asking& shared_;
  Host& host_;
  const Member& member_;
  ShardQuestion& question_;
  const bool any_state_;
  const std::uint64_t wanted_;
  TimePoint asked_at_{};
  net::Timer timer_, future_;
  std::unique_ptr<ListProbe> head_probe_;
  std::unique_ptr<ShardPages> pages_;
  Task task_ = Task::kNone;
  Tally watched_, listed_;
  bool only_added_ = true;
  bool accepted_ = false;  // the list that is delivered
  bool is_slow_ = false;   // it has objects, and has not begun to tell
  bool head_asked_ = false;
};

}  // namespace kintsugi::aggregation
