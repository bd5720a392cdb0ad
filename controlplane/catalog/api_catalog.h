#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/server.h"
#include "base/strings.h"
#include "krm/json.h"

namespace kintsugi::controlplane {

/// Where an APIExport is, wherever its cluster lives.
struct ExportRef {
  std::string cluster;  ///< logical cluster name
  std::string name;
  bool operator==(const ExportRef&) const = default;
};

/// The APIs that can be bound: APIExports, APIResourceSchemas and WorkspaceTypes of this shard as
/// stored, and those of all other shards as replicas (replication.h), which are stored too: what
/// was known stays known while their shard is away, and after a restart. Source: T-13,
/// AM-492 to AM-509. One instance per loop, fed by ApiServer::on_change. Cost of a
/// look-up: a hash look-up and a read of the store. Memory: about 300 bytes for each export and
/// type, none for schemas. Threads: its loop.
class ApiCatalog {
 public:
  /// Where a path leads, as far as this shard knows better than the objects say (KK-103).
  struct Paths {
    /// Canonical path of a logical cluster of this shard; "": it is on another one.
    std::function<std::string(std::string_view cluster)> of_own;
    /// The logical cluster at the path, wherever it is; "": not known.
    std::function<std::string(std::string_view path)> leads_to;
  };
  /// Reads what is stored and follows every change. The server, and what `paths` asks, must outlive
  /// this or stop(). Without `paths` what objects say counts; of two clusters that say one path the
  /// first has it, as long as it is there.
  void start(apiserver::ApiServer& server, Paths paths = {});
  void stop() noexcept { subscriptions_.clear(); }

  /// The export that a reference means. @param path  canonical path ("root:acme") or name of a
  /// logical cluster; "" = `from`. nullopt: not known (here, or not at all).
  [[nodiscard]] std::optional<ExportRef> find_export(std::string_view from, std::string_view path,
                                                     std::string_view name) const;
  /// The APIConversion of a schema (conversion_rules.h).
  [[nodiscard]] std::optional<krm::Json> get_conversion(std::string_view cluster,
                                                        std::string_view name) const;
  /// The object, storage version (apis.kcp.io/v1alpha2). Of a replica: without managedFields, and
  /// its resourceVersion is that of the copy.
  [[nodiscard]] std::optional<krm::Json> get_export(const ExportRef& ref) const;
  [[nodiscard]] std::optional<krm::Json> get_schema(std::string_view cluster,
                                                    std::string_view name) const;
  /// @param path  canonical path or name of a logical cluster.
  [[nodiscard]] std::optional<krm::Json> get_type(std::string_view path,
                                                  std::string_view name) const;
  /// Canonical path of the cluster that holds the export, its name when that is not known.
  [[nodiscard]] std::string path_of(std::string_view cluster) const;
  /// Every export with this identity hash.
  [[nodiscard]] std::vector<ExportRef> exports_with_identity(std::string_view hash) const;

  /// Objects by where they are stored.
  struct Counts {
    std::size_t exports = 0, replicated_exports = 0, types = 0, replicated_types = 0;
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

  /// Called after each change, in a turn of this loop, when the new state can be read here.
  using ExportListener = std::function<void(const ExportRef& ref)>;
  /// Of a schema, or of the APIConversion that has its name.
  using SchemaListener = std::function<void(std::string_view cluster, std::string_view name)>;
  using TypeListener = std::function<void(std::string_view cluster, std::string_view name)>;
  void on_export(ExportListener listener) { export_listeners_.push_back(std::move(listener)); }
  void on_schema(SchemaListener listener) { schema_listeners_.push_back(std::move(listener)); }
  void on_type(TypeListener listener) { type_listeners_.push_back(std::move(listener)); }

 private:
  enum class Kind : std::uint8_t { kExport, kSchema, kType };
  struct Known {       // an export or a type
    std::string path;  // annotation kcp.io/path
    std::string hash;  // identity of an export, may be empty
  };
  struct Place {  // a cluster that holds exports or types
    std::string path;
    std::size_t objects = 0;
  };
  using Found = std::optional<krm::Json>;

  void follow(apiserver::ApiServer& server, Kind kind, std::string_view group,
              std::string_view resource);
  void note(Kind kind, bool replica, std::string_view cluster, std::string_view name,
            const krm::Json* object);
  void enter(std::string_view cluster, std::string_view path, bool replica);
  void leave(std::string_view cluster);
  void identify(const ExportRef& ref, std::string_view before, std::string_view now);
  void tell(Kind kind, std::string_view cluster, std::string_view name) const;
  [[nodiscard]] std::string_view cluster_at(std::string_view path) const;
  [[nodiscard]] Found get(Kind kind, std::string_view cluster, std::string_view name) const;

  [[nodiscard]] std::size_t& count_of(Kind kind, bool replica) noexcept;

  const apiserver::ApiServer* server_ = nullptr;
  Paths paths_;
  Counts counts_;
  StringMap<Known> known_;                         // "<e|t><l|r><cluster>/<name>"
  StringMap<Place> places_;                        // by cluster
  StringMap<std::string> clusters_;                // canonical path -> cluster
  StringMap<std::vector<ExportRef>> by_identity_;  // once per copy
  std::vector<ExportListener> export_listeners_;
  std::vector<SchemaListener> schema_listeners_;
  std::vector<TypeListener> type_listeners_;
  std::vector<std::shared_ptr<void>> subscriptions_;
};

}  // namespace kintsugi::controlplane
