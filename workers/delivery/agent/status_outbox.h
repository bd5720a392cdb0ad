#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/time.h"

namespace kintsugi::workers {

/// Statuses of one client on their way to the broker: of each object in order and one at a time,
/// the latest in place of one that waits, at most so many a second and object, so many in flight.
/// First answers and the last word of a deletion neither wait for their rate nor give way.
/// Where the broker refuses one, those of its prefix go one at a time, and after each refusal after
/// a rest that grows: some brokers end the connection with it, which is that of all others, too.
/// Source: CM-35 to CM-39. No clock, no I/O.
class StatusOutbox {
 public:
  struct Params {
    double per_second = 5;        ///< of one object
    std::size_t in_flight = 100;  ///< of all objects
    std::size_t of_one = 16;      ///< that wait, of one object: the oldest gives way
  };
  struct Item {
    std::string topic, payload, content_type, hash;
    std::string prefix;           ///< of the topic
    std::int64_t generation = 0;  ///< the hub's that it answers
    bool must = false;
  };
  struct Sending {
    std::string uid;
    const Item* item = nullptr;  ///< until the next call
  };

  explicit StatusOutbox(Params params) : params_(params) {}

  void put(const std::string& uid, Item item);
  /// What is to be sent now: it counts as in flight, without an id until sent().
  [[nodiscard]] std::optional<Sending> next(TimePoint now);
  void sent(const std::string& uid, int id);
  /// @param accepted  false: it rests and goes again. @returns whose it was
  std::optional<std::string> acknowledged(int id, bool accepted, TimePoint now);
  /// The connection is gone: what was in flight waits again.
  void lost();
  /// When next() may have something; nullopt: not before a call of others.
  [[nodiscard]] std::optional<TimePoint> next_time() const;

  /// Something of it waits or is in flight.
  [[nodiscard]] bool has(std::string_view uid) const noexcept {
    const auto line = lines_.find(uid);
    return line != lines_.end() && !line->second.items.empty();
  }
  [[nodiscard]] std::size_t items() const noexcept { return items_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::size_t in_flight() const noexcept { return in_flight_; }
  /// Objects whose status the broker has refused and not taken since.
  [[nodiscard]] std::size_t refused() const noexcept;
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }

 private:
  struct Line {
    std::deque<Item> items;  // the first one is in flight where `flying`
    bool flying = false;
    bool queued = false;  // in waiting_, at `at`
    bool parked = false;  // in its prefix's `parked`
    TimePoint not_before{}, at{};
    unsigned refusals = 0;  // in a row
    TimePoint rests_until{};
  };
  /// A prefix of which the broker refuses something.
  struct Refused {
    std::set<std::string, std::less<>> uids;
    std::deque<std::string> parked;  // wait for the end of the one that flies
    bool flying = false;
    unsigned refusals = 0;  // in a row
    TimePoint not_before{};
  };
  [[nodiscard]] bool may_fly(const std::string& uid, Line& line, TimePoint now);
  void landed(const std::string& prefix, Line& line, const std::string& uid, bool accepted,
              TimePoint now);
  void unpark(Refused& prefix, std::size_t most);
  void remove(Line& line, std::size_t at);
  void settle(const std::string& uid, Line& line);
  void queue(const std::string& uid, Line& line, TimePoint at);
  void sweep(TimePoint now);

  const Params params_;
  std::map<std::string, Line, std::less<>> lines_;
  std::set<std::pair<TimePoint, std::string>> waiting_;
  std::map<int, std::string> flights_;
  std::map<std::string, Refused, std::less<>> refused_;  // by prefix
  std::size_t items_ = 0, bytes_ = 0, in_flight_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace kintsugi::workers
