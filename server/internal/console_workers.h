#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "krm/json.h"
#include "net/loop.h"
#include "server/internal/worker_socket.h"

namespace kintsugi::server {

/// One row for each role that a worker's pages tell of.
/// @param instance  the worker. @param status,health  of /readyz?verbose; 0: it did not answer
/// @param metrics   "" for none
[[nodiscard]] std::vector<krm::Json> worker_rows(std::string_view instance, int status,
                                                 std::string_view health, std::string_view metrics);

/// Workers of this machine for the console (OP-711): what their sockets say, asked for while
/// somebody looks. One that does not answer in time is said so. Threads: the control loop's.
class ConsoleWorkers {
 public:
  static constexpr Duration kFresh = seconds(2), kPatience = seconds(2);
  static constexpr std::size_t kMost = 64;            ///< workers; the others are left out
  static constexpr std::size_t kMostPage = 4U << 20;  ///< [bytes] of metrics that are read

  /// @param sockets  health sockets, "….sock"; the metrics are at "….metrics.sock"
  ConsoleWorkers(net::Loop& loop, const std::vector<std::string>& sockets);
  /// As they were told last; nothing before they were asked the first time.
  [[nodiscard]] std::vector<krm::Json> rows();
  /// `done` once rows() are those of now: in this call, or when all have answered or kPatience is
  /// over.
  void ask(std::function<void()> done);

 private:
  class One;
  std::vector<std::shared_ptr<One>> all_;
};

}  // namespace kintsugi::server
