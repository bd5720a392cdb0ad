#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "endpointslice/slice_builder.h"

namespace kintsugi::endpointslice {

/// An APIExport somewhere on the shards, as far as slices care.
struct ExportRecord {
  std::string cluster;  ///< logical cluster name
  std::string name, uid;
  std::string path;  ///< its kcp.io/path annotation, may be empty: a word for clients, no fact
  bool skip_default_slice =
      false;  ///< annotation apiexports.apis.kcp.io/skip-endpointslice is there
};

/// The controllers' picture of shards, exports and bindings. Implemented over the topology feed.
/// Threads: one loop.
class World {
 public:
  virtual ~World() = default;
  /// Every registered shard, sorted by name. Stays as it is until SliceController::shards_changed
  /// is called.
  [[nodiscard]] virtual const std::vector<topology::ShardFacts>& shard_table() const = 0;
  /// One row per row of shard_table(), in its order; consumers are those of the given export.
  [[nodiscard]] virtual std::vector<SliceShard> shards(std::string_view export_cluster,
                                                       std::string_view export_name) const = 0;
  /// @param path a logical cluster name or a workspace path.
  [[nodiscard]] virtual ExportFacts find_export(std::string_view path,
                                                std::string_view name) const = 0;
  virtual void exports(const std::function<void(const ExportRecord&)>& visit) const = 0;
  [[nodiscard]] virtual const ExportRecord* export_record(std::string_view cluster,
                                                          std::string_view name) const = 0;
};

}  // namespace kintsugi::endpointslice
