#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "http/handler.h"

namespace kintsugi::serving {

/// One running watch, for people.
struct WatchRow {
  std::string_view kind;            ///< "forwarded", "merged" or "served"; of a literal
  std::string user;                 ///< who authenticated here; "": nobody whom the proxy knows
  std::string address;              ///< of the client
  std::string cluster;              ///< "*": several; "": the path names none
  std::string path;                 ///< kMostPath bytes at most
  std::vector<std::string> shards;  ///< whose events it is sent; none: the proxy's own objects
  TimePoint since{};                ///< its head
  std::int64_t age = 0;             ///< [s] since then
  std::uint64_t sent = 0;           ///< bytes of events that its connection has taken
  std::size_t queue = 0;            ///< bytes that wait for its client
};

/// The watches that somebody who looks at a loop sees first: whose clients are farthest behind,
/// then the oldest. Made, filled and read in one turn. Threads: the loop's.
class WatchList {
 public:
  /// Rows of one loop.
  static constexpr std::size_t kMost = 500;
  static constexpr std::size_t kMostPath = 256;

  /// Is called in rows(), if at all.
  using Describe = std::function<void(WatchRow& row)>;
  /// @param queue  bytes that wait for its client
  /// Cost: a comparison for those that are not among the first.
  void offer(std::size_t queue, TimePoint since, const Describe& describe);
  /// How many were offered.
  [[nodiscard]] std::size_t open() const noexcept { return open_; }
  /// The first kMost of them in their order.
  [[nodiscard]] std::vector<WatchRow> rows(TimePoint now);

 private:
  struct One {
    std::size_t queue;
    TimePoint since;
    Describe describe;
    /// It is listed before the other one.
    [[nodiscard]] bool operator<(const One& other) const noexcept {
      return queue != other.queue ? queue > other.queue : since < other.since;
    }
  };
  std::vector<One> first_;  // a heap, the last of them at its front
  std::size_t open_ = 0;
};

/// Who asked, as far as the connection tells.
void name_client(WatchRow& row, const http::PeerInfo& peer);
/// Path and cluster. @param target  with a query or without
void name_target(WatchRow& row, std::string_view target);

}  // namespace kintsugi::serving
