#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/alive.h"
#include "base/error.h"
#include "http/headers.h"
#include "krm/json.h"
#include "net/loop.h"
#include "net/upstream.h"
#include "workers/runtime/endpoints/endpoint_set.h"
#include "workers/runtime/role_metrics.h"
#include "workers/runtime/unit/shared_clusters.h"
#include "workers/runtime/unit/unit.h"

namespace kintsugi::workers {

/// What a role does at one endpoint; dies before its unit.
class RoleWork {
 public:
  virtual ~RoleWork() = default;
  /// The role's own check for /readyz; "": it works.
  [[nodiscard]] virtual std::string not_ready() const { return {}; }
  /// Adds what it counts to the series of Role::families.
  virtual void count(RoleSeries&) const {}
  /// Adds exchanges with peers that failed, each an object with `at` (RFC 3339), to a list. For
  /// roles that say Role::tells_errors.
  virtual void add_errors(krm::Json&) const {}
  /// Adds what it has placed, besides the partitions of its ring.
  virtual void count_placements(PlacementCounts&) const {}
};

/// A set of controllers by its name ("messaging"): how they begin at an endpoint.
struct Role {
  std::string name;
  std::function<std::unique_ptr<RoleWork>(Unit&)> start;
  std::vector<RoleFamily> families{};  ///< of metrics
  bool tells_errors = false;           ///< there is a page /debug/<role>/errors
};

struct WorkerParams {
  /// Where the endpoints stand: an APIExportEndpointSlice of a logical cluster, read through
  /// `server` (RT-10). With an empty `slice`: `server` itself is the only one.
  std::string slice_cluster, slice;
  std::string server;  ///< https://proxy:6443, from the kubeconfig, without the path of a cluster
  std::vector<std::string> allowed_endpoint_hosts;  ///< besides the server's (RT-15)
  std::vector<std::string> lease_clusters;
  std::string user_agent;
  std::string identity_host;  ///< of identities in the ring (RT-53)
  /// Connections to a URL: TLS with the client pair. @error kConfig
  std::function<Expected<net::UpstreamParams>(const net::Url&)> upstream;
  std::function<http::HeaderList()> credentials;  ///< headers of every request; may be empty
  RingNodeParams ring;                            ///< times; without role and identity
  std::string data_dir;  ///< journals stand at <data_dir>/<role>/<unit>; "": none
  std::uint64_t journal_max_bytes = std::uint64_t{8} << 30;
  double writes_per_second = 200, burst = 400;
  Duration patience = seconds(20);    ///< of reconciles that run, at the end
  Duration begin_again = seconds(5);  ///< with endpoints whose unit could not begin
};

/// One role: a unit for each endpoint, as they come and go. Source: sections 2 and 3.
/// Threads: its loop's.
class Worker {
 public:
  Worker(net::Loop& loop, WorkerParams params, Role role);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// @error kConfig: no connection can be made to the server's URL. A unit that cannot begin, as
  /// without a place for its journal, is no error: it is tried again, and not_ready() says why.
  [[nodiscard]] Expected<void> start();
  /// All units run out; `done` once, in a later turn.
  void stop(std::function<void()> done);

  /// Memory is short: units leave low work alone until it is not (RT-5).
  void set_pressure(bool pressure);

  /// "": each unit works. Else the first that does not, and why.
  [[nodiscard]] std::string not_ready() const;
  [[nodiscard]] const std::string& role() const noexcept { return role_.name; }
  /// Those that are there, also those that run out.
  [[nodiscard]] std::vector<const Unit*> units() const;
  [[nodiscard]] const std::vector<RoleFamily>& families() const noexcept { return role_.families; }
  /// What all units count.
  [[nodiscard]] RoleSeries series() const;
  /// Of all units: partitions of rings that this process decides about, reason "ring", and what
  /// the role places.
  [[nodiscard]] PlacementCounts placements() const;
  /// Adds those of all units to a list. @returns false: the role has no such page
  [[nodiscard]] bool add_errors(krm::Json& list) const;
  /// Units that waited since another one showed the same cluster (RT-14).
  [[nodiscard]] std::uint64_t duplicate_clusters() const noexcept {
    return clusters_.duplicates_total();
  }
  /// Endpoints that no credential is sent to, with the reason (RT-15).
  [[nodiscard]] const std::vector<RefusedEndpoint>& refused() const noexcept {
    return endpoints_.refused();
  }

 private:
  class SliceSink;
  struct Place;
  void take(EndpointChange change);
  void begin(const UnitEndpoint& endpoint);
  [[nodiscard]] Expected<std::unique_ptr<Place>> make(const UnitEndpoint& endpoint);
  void begin_again();
  void run_out(const std::string& name);
  void on_run_out(const std::string& name);

  net::Loop& loop_;
  WorkerParams params_;
  Role role_;
  EndpointSet endpoints_;
  std::unique_ptr<net::Upstream> upstream_;
  SharedClusters clusters_;
  std::unique_ptr<SliceSink> slice_;
  std::map<std::string, std::unique_ptr<Place>> places_;  // by name, also those that run out
  /// Whose unit could not begin, and why; by name.
  std::map<std::string, std::pair<UnitEndpoint, std::string>> failed_;
  net::Timer again_;
  bool pressure_ = false;
  std::function<void()> done_;
  Alive alive_;
};

}  // namespace kintsugi::workers
