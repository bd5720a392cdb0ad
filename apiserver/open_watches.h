#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "serving/watch_list.h"

namespace kintsugi::apiserver {

class ApiServer;

/// How many watches each logical cluster has, at all servers of a process; those of all clusters
/// are nobody's. Threads: any.
class WatchCounts {
 public:
  void begun(const std::string& cluster);
  void ended(const std::string& cluster) noexcept;
  [[nodiscard]] std::size_t of(std::string_view cluster) const;

 private:
  mutable std::mutex mutex_;
  StringMap<std::size_t> counts_;
};
/// Before the server serves.
void count_watches(ApiServer& server, std::shared_ptr<WatchCounts> counts);

/// Offers the watches that a server serves. Read `into` in the same turn.
/// Threads: the server's loop.
void list_watches(const ApiServer& server, serving::WatchList& into);

}  // namespace kintsugi::apiserver
