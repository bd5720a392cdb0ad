#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "aggregation/bytes/json_split.h"
#include "net/loop.h"
#include "net/upstream.h"
#include "shards/shard_client.h"

namespace kintsugi::aggregation {

/// Follows the roles and bindings of one server, and tells that rights may have changed: when any
/// of them does, and whenever a gap in what was followed has ended. Where it may not read them it
/// asks again now and then. Threads: its loop.
class GrantWatch {
 public:
  /// @param find  the server as the proxy itself; null: not known now. @param prefix  of the
  /// paths. @param changed  must not destroy the watch
  GrantWatch(net::Loop& loop, std::function<shards::ShardClient*()> find, std::string prefix,
             std::function<void()> changed);
  GrantWatch(const GrantWatch&) = delete;
  GrantWatch& operator=(const GrantWatch&) = delete;

 private:
  /// One kind: listed for its revision, and watched from there.
  struct Line {
    std::string path;
    std::unique_ptr<net::Call> call;
    net::Timer timer;
    Duration backoff{};
    EventSplitter events{kMaxEvent};
  };
  static constexpr std::size_t kMaxEvent = 4U << 20;
  void list(Line& line);
  void watch(Line& line, const std::string& revision);
  void take(Line& line, std::string_view bytes);
  void rest(Line& line, Duration wait);
  void fail(Line& line);
  /// @return nullptr: the server is away
  [[nodiscard]] net::Upstream* open(Line& line, net::FetchRequest& request);

  net::Loop& loop_;
  std::function<shards::ShardClient*()> find_;
  std::function<void()> changed_;
  std::array<Line, 4> lines_;
};

}  // namespace kintsugi::aggregation
