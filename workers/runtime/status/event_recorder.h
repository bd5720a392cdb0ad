#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "krm/json.h"
#include "workers/runtime/status/redactor.h"

namespace kintsugi::workers {

/// The object that an event is about.
struct EventObject {
  std::string_view cluster;
  std::string_view api_version;
  std::string_view kind;
  std::string_view ns;  ///< "": the event stands in `default`
  std::string_view name;
  std::string_view uid;
};

/// What people are told of one object.
struct Tale {
  bool warning = false;
  std::string reason;
  std::string note;
  [[nodiscard]] bool operator==(const Tale&) const = default;
};

/// Makes `events.k8s.io/v1` objects of what happens (RT-83). Equal ones (object, reason, message)
/// that are at most 10 minutes apart are one series: one object, whose count is written at most
/// once a minute. New events: 25 at once per object, then 1 each 5 minutes; those above are dropped
/// and counted. Notes: printable, without secrets, at most 1,024 bytes. Limits: max_series,
/// max_objects; the longest unused go first, and a series that goes loses the count not yet
/// written. No clock, no I/O. Threads: one at a time.
class EventRecorder {
 public:
  struct Params {
    std::string controller{};  ///< reportingController, "kintsugi.dev/network"
    std::string instance{};    ///< reportingInstance
    Duration series_window = std::chrono::minutes(10);
    Duration count_interval = std::chrono::minutes(1);
    int burst = 25;
    Duration refill = std::chrono::minutes(5);
    std::size_t max_series = 4'096;
    std::size_t max_objects = 16'384;
  };
  /// @param redactor  may be nullptr; outlives this.
  /// @param seed      of the names, so that no two recorders make the same; random.
  EventRecorder(Params params, const Redactor* redactor, std::uint64_t seed)
      : params_(std::move(params)), redactor_(redactor), seed_(seed) {}

  /// A request to the API server, `events` of group events.k8s.io.
  struct Write {
    bool create = false;  ///< POST of the object; else a merge patch of /…/events/<name>
    std::string cluster;
    std::string ns;
    std::string name;
    std::string body;
  };
  struct Happening {
    EventObject about{};
    bool warning = false;
    std::string_view reason{};  ///< CamelCase, at most 128 bytes are used
    std::string_view action{};  ///< what was tried, "Reconcile"; at most 128 bytes are used
    std::string_view note{};
  };
  /// @param wall_us  wall clock [µs since 1970]; stands in the objects, decides nothing.
  /// @returns the object to be created; nullopt: counted in its series, or dropped.
  [[nodiscard]] std::optional<Write> record(const Happening& happening, TimePoint now,
                                            std::int64_t wall_us);
  /// A count whose minute is over; call until nullopt.
  [[nodiscard]] std::optional<Write> take_due(TimePoint now);
  /// When take_due() should be called, at the latest.
  [[nodiscard]] std::optional<TimePoint> next_timer() const noexcept;
  /// The event is not on the server (404 of its patch, failed create): its series ends, and the
  /// next occurrence is created anew.
  void forget(std::string_view cluster, std::string_view ns, std::string_view name);

  [[nodiscard]] std::size_t series() const noexcept { return series_.size(); }
  [[nodiscard]] std::size_t objects() const noexcept { return objects_.size(); }
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }

 private:
  struct Series {
    std::uint64_t hash = 0;
    std::string cluster, ns, name;
    std::int64_t count = 1;
    TimePoint last{};        // occurrence
    TimePoint next_write{};  // of the count
    std::int64_t last_wall = 0;
    std::optional<std::multimap<TimePoint, std::uint64_t>::iterator> due;  // in due_
  };
  struct Bucket {
    std::uint64_t hash = 0;
    int tokens = 0;
    TimePoint at{};  // up to here it was refilled
  };
  template <class Value>
  struct Recent {  // the longest unused first
    std::list<Value> order;
    std::unordered_map<std::uint64_t, typename std::list<Value>::iterator> index;
    [[nodiscard]] std::size_t size() const noexcept { return index.size(); }
    Value* use(std::uint64_t hash);
    Value& put(Value value);
    void erase(std::uint64_t hash);
  };

  void end(std::uint64_t series);
  [[nodiscard]] bool admit(std::uint64_t object, TimePoint now);
  [[nodiscard]] Write make(const Happening& happening, const std::string& note, std::uint64_t hash,
                           std::int64_t wall_us) const;

  Params params_;
  const Redactor* redactor_;
  std::uint64_t seed_;
  Recent<Series> series_;
  Recent<Bucket> objects_;
  std::multimap<TimePoint, std::uint64_t> due_;  // counts to be written, by series
  std::uint64_t made_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace kintsugi::workers
