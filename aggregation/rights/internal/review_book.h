#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/time.h"
#include "topology/snapshot.h"

/// What is known of who may do what on which server (AGG-904 to AGG-907).
namespace kintsugi::aggregation {

/// A server that answers reviews: a shard, and the path of a logical cluster on it ("": itself).
struct ReviewServer {
  topology::ShardId shard = 0;
  std::string prefix;
  auto operator<=>(const ReviewServer&) const = default;
};

enum class Right : std::uint8_t {
  kUnknown,  ///< asked and not answered
  kAllowed,
  kDenied,
  kUnavailable,  ///< nobody can tell: not at all, or no longer
};

/// Which questions are asked when, and whom the answers are for: a state machine without I/O.
/// Answers hold for `fresh`; questions that somebody follows are asked again and again, by all
/// followers together, and at once when rights may have changed. Bounds: entries, and questions
/// under way per server. Cost: logarithmic in the number of followed questions.
class ReviewBook {
 public:
  struct Limits {
    Duration fresh = seconds(10);        ///< of an answer, for those who come later
    Duration recheck = seconds(60);      ///< of followed questions, give or take a fifth
    Duration grace = seconds(300);       ///< of followers who were allowed, without answers
    Duration retry = seconds(2);         ///< between attempts without an answer; up to 5 s
    Duration soon = milliseconds(50);    ///< after a change of rights
    Duration later = milliseconds(700);  ///< once more: servers learn of their own changes late
    std::size_t entries = 65'536;        ///< besides followed ones
    std::size_t under_way = 64;          ///< of one server
  };
  /// Who waits for an answer, or lives by it.
  class Follower {
   public:
    /// The right is another one than before; kUnavailable after kAllowed only when the grace is
    /// over. May unfollow, also others.
    virtual void on_right(Right right, std::string_view reason) noexcept = 0;

   protected:
    ~Follower() = default;
  };
  using Ticket = std::uint64_t;

  explicit ReviewBook(const Limits& limits) : limits_(limits) {}

  struct Known {
    Ticket ticket = 0;
    Right right = Right::kUnknown;  ///< kAllowed, kDenied: a fresh answer; on_right tells the rest
    std::string reason;
  };
  /// Begins to follow a question. @param body  of the review, which is the question
  [[nodiscard]] Known follow(const ReviewServer& server, const std::string& body,
                             Follower& follower, TimePoint now);
  void unfollow(Ticket ticket) noexcept;

  struct Question {
    std::string key;  ///< for answer()
    ReviewServer server;
    std::string body;
  };
  /// The next question to be sent; nullopt: none now.
  [[nodiscard]] std::optional<Question> next();
  /// What came of it. @param allowed  nullopt: no answer could be had
  void answer(const std::string& key, std::optional<bool> allowed, std::string_view reason,
              TimePoint now);
  /// Rights on this server may have changed.
  void changed(const ReviewServer& server, TimePoint now);
  /// Rights anywhere may have changed.
  void all_changed(TimePoint now);
  /// Does what is due.
  void tick(TimePoint now);
  /// When tick() has something to do; TimePoint::max(): never.
  [[nodiscard]] TimePoint due() const noexcept { return std::min(first_round_, first_check()); }

  /// Decisions that are known.
  [[nodiscard]] std::size_t entries() const noexcept { return entries_.size(); }
  [[nodiscard]] std::size_t followers() const noexcept { return followers_.size(); }

 private:
  struct Server;
  struct Entry {
    std::string key;
    Server* server = nullptr;
    std::string body;  // while it may have to be sent
    Right right = Right::kUnknown;
    std::string reason;
    TimePoint decided_at{};
    std::uint64_t epoch = 0;  // of the server, when the answer was asked for
    bool queued = false, under_way = false, again = false;
    std::uint32_t failures = 0;
    TimePoint failing_since = TimePoint::max();
    TimePoint check_at = TimePoint::max();  // as in schedule_
    std::vector<Ticket> followers;
    std::list<std::string>::iterator age;
  };
  struct Server {
    ReviewServer name;
    std::uint64_t epoch = 1;
    std::size_t entries = 0, under_way = 0;
    std::deque<std::string> queue;  // keys
    TimePoint soon = TimePoint::max(), later = TimePoint::max(), last_round{};
  };
  struct Following {
    Entry* entry = nullptr;
    Follower* follower = nullptr;
    Right told = Right::kUnknown;
  };

  [[nodiscard]] TimePoint first_check() const noexcept {
    return schedule_.empty() ? TimePoint::max() : schedule_.begin()->first;
  }
  [[nodiscard]] bool is_fresh(const Entry& entry, TimePoint now) const noexcept;
  void ask(Entry& entry, bool first);
  void schedule(Entry& entry, TimePoint at);
  void round(Server& server, TimePoint now);
  void tell(Entry& entry, TimePoint now);
  void evict();

  Limits limits_;
  StringMap<std::unique_ptr<Entry>> entries_;  // by digest of server and body
  std::list<std::string> ages_;                // keys, oldest first
  std::map<ReviewServer, Server> servers_;
  std::set<std::pair<TimePoint, Entry*>> schedule_;
  std::unordered_map<Ticket, Following> followers_;
  TimePoint first_round_ = TimePoint::max();  // of all servers
  std::size_t queued_ = 0;                    // of all servers
  Ticket last_ticket_ = 0;
};

}  // namespace kintsugi::aggregation
