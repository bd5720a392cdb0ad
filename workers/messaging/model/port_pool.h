#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "workers/runtime/status/conditions.h"

namespace kintsugi::workers {

/// Ports of dedicated listeners of one infra (MS-070, MS-071). An owner is one protocol of one
/// endpoint, and has one port. A port that is given back stays its owner's tombstone until the
/// listener is known to be gone from all routers: HTTP listeners cannot be deleted, and hold their
/// port. The same owner gets its tombstone back, nobody else does. Limits: the range. No I/O.
/// Memory: about 250 B a port in use. Threads: one.
class PortPool {
 public:
  /// A smaller range takes no port away.
  void set_range(std::int64_t first, std::int64_t last);
  /// The owner's port: the one it has, its tombstone's, else the lowest free one. nullopt: none
  /// (AllocatedPorts=False/PortsExhausted).
  [[nodiscard]] std::optional<std::int64_t> allocate(std::string_view owner);
  /// What a status says. False: another owner has that port, or it is outside the range: allocate
  /// another.
  bool assume(std::string_view owner, std::int64_t port);
  void release(std::string_view owner);
  /// The listener is gone from all routers: the port is free.
  void cleared(std::string_view owner);
  [[nodiscard]] std::optional<std::int64_t> port(std::string_view owner) const;
  [[nodiscard]] bool is_tombstone(std::string_view owner) const;
  [[nodiscard]] std::int64_t free() const noexcept;
  [[nodiscard]] Condition exhausted() const;

 private:
  struct Port {
    std::int64_t port = 0;
    bool tombstone = false;
  };
  [[nodiscard]] bool in_range(std::int64_t port) const noexcept {
    return port >= first_ && port <= last_;
  }

  std::int64_t first_ = 0, last_ = -1;
  StringMap<Port> owners_;
  std::set<std::int64_t> used_;
};

}  // namespace kintsugi::workers
