#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "krm/json.h"

namespace kintsugi::topology {

/// What a controller wrote of one resource, for metrics.
struct WriteCounts {
  std::uint64_t created = 0, updated = 0, deleted = 0;
  std::map<std::string, std::uint64_t, std::less<>> failed;  ///< by cause, lost races too
  /// Counts a finished write in `kind`, one of the three above.
  void count(std::uint64_t WriteCounts::*kind, const Expected<krm::Json>& result) {
    if (result) {
      ++(this->*kind);
    } else {
      ++failed[std::string(errc_name(result.error().code()))];
    }
  }
};

/// The objects that the proxy stores and serves itself, as controllers see them. Declared here,
/// implemented over the API server in cmd/, so that nothing below needs to know it. Threads: one
/// loop.
class Objects {
 public:
  virtual ~Objects() = default;

  /// Committed state; nullopt when absent.
  [[nodiscard]] virtual std::optional<krm::Json> get(std::string_view cluster,
                                                     std::string_view group,
                                                     std::string_view resource,
                                                     std::string_view name) const = 0;
  /// Cluster "*": all. Return false to stop.
  virtual void list(std::string_view cluster, std::string_view group, std::string_view resource,
                    const std::function<bool(const krm::Json&)>& visit) const = 0;

  using Done = std::function<void(Expected<krm::Json>)>;
  /// Writes go through the API server with all its rules but authorization; `done` comes in a later
  /// turn. An update carries the resourceVersion it was computed from and fails with kConflict when
  /// the object moved on.
  virtual void create(std::string_view cluster, std::string_view group, std::string_view resource,
                      krm::Json object, Done done) = 0;
  /// As create, with the uid and the creation time that the object says.
  virtual void adopt(std::string_view cluster, std::string_view group, std::string_view resource,
                     krm::Json object, Done done) = 0;
  virtual void update(std::string_view cluster, std::string_view group, std::string_view resource,
                      std::string_view subresource, krm::Json object, Done done) = 0;
  virtual void remove(std::string_view cluster, std::string_view group, std::string_view resource,
                      std::string_view name, std::string_view uid, Done done) = 0;

  struct Change {
    std::string_view cluster, group, resource, name;
    const krm::Json* object;    ///< null: deleted
    const krm::Json* previous;  ///< null: created
  };
  /// Every committed change of a resource, in order. Destroying the handle ends it.
  [[nodiscard]] virtual std::shared_ptr<void> on_change(
      std::string_view group, std::string_view resource,
      std::function<void(const Change&)> listener) = 0;
};

}  // namespace kintsugi::topology
