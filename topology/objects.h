#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "krm/json.h"

namespace kintsugi::topology {

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
