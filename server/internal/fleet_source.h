#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/alive.h"
#include "http/headers.h"
#include "net/loop.h"
#include "net/upstream.h"
#include "proxy/admin/fleet_report.h"
#include "proxy/config/config.h"
#include "server/internal/kube_tls.h"
#include "server/internal/proxy_files.h"
#include "shards/informer.h"
#include "topology/feed.h"
#include "topology/fleet/fleet.h"

namespace kintsugi::server {

/// `topology.fleet` as the machine of the fleet takes it.
[[nodiscard]] topology::FleetOptions fleet_options(const proxy::ProxyConfig& config);
/// What the provider file says. @error kConfig names the file and the entry
[[nodiscard]] Expected<std::vector<topology::FleetProvider>> load_fleet_providers(
    const proxy::ProxyConfig& config);

/// Source `clusterprofiles`: lists and watches the hub, runs providers' programs, probes servers,
/// and does no more; what follows of it is decided by topology::Fleet. Threads: the control loop's;
/// programs are waited for on threads of their own.
class FleetSource {
 public:
  struct Params {
    net::UpstreamParams hub;
    http::HeaderList headers;
    topology::FleetOptions options;
    std::vector<topology::FleetProvider> providers;
    std::vector<std::string> namespaces;  ///< none: all
    std::string selector;
    RevocationsPtr revocations;
    std::function<bool(const std::string& uid)> known;
    std::uint64_t seed = 1;
  };
  /// @param changed  shards() is another one; first when the hub was listed and each cluster tried,
  ///                 or that takes long.
  FleetSource(net::Loop& loop, Params params, std::function<void()> changed);
  ~FleetSource();
  FleetSource(const FleetSource&) = delete;
  FleetSource& operator=(const FleetSource&) = delete;

  void start();
  /// For connections to the hub from now on.
  void set_hub_tls(std::shared_ptr<net::TlsContext> tls);
  void set_providers(std::vector<topology::FleetProvider> providers);
  /// How members answer the feed's probes.
  void look_at(const std::vector<topology::Feed::ShardStatus>& statuses);

  /// How callers get there, in an order that stays.
  [[nodiscard]] const std::vector<StaticAccess>& shards() const noexcept { return shards_; }
  /// Of callers' connections, and of what the proxy asks for itself; null: not known.
  [[nodiscard]] std::shared_ptr<net::TlsContext> tls(const std::string& shard) const;
  [[nodiscard]] std::shared_ptr<net::TlsContext> own_tls(const std::string& shard) const;
  [[nodiscard]] proxy::FleetReport report() const;

 private:
  class HubList;
  enum class Part : std::uint8_t { kProfiles, kSecrets, kClusters, kOneSecret };
  struct Probe {
    std::unique_ptr<net::Upstream> upstream;
    std::unique_ptr<net::Call> call;
  };
  struct Contexts {
    std::shared_ptr<const topology::FleetAccess> access;
    std::shared_ptr<net::TlsContext> callers, own;
  };

  [[nodiscard]] topology::Fleet::Now now() const;
  void add_lists();
  [[nodiscard]] std::unique_ptr<HubList> make_list(Part part, const std::string& target,
                                                   const std::string& selector);
  void on_put(Part part, const krm::Json& object);
  void on_gone(Part part, std::string_view ns, std::string_view name, bool listed);
  void on_listed(HubList& list);
  void on_refused(HubList& list, int status);
  void advance_soon();
  void advance();
  void perform(topology::FleetAction& action);
  void ask(const topology::FleetAction& action);
  void probe(const topology::FleetAction& action);
  void end_probe(const std::string& key);
  void relist(std::size_t list);
  void follow_secrets();
  void publish();
  [[nodiscard]] bool is_listed() const;
  [[nodiscard]] bool is_settled() const;
  [[nodiscard]] Expected<Contexts> contexts_of(std::shared_ptr<const topology::FleetAccess> access,
                                               const std::string& name) const;

  net::Loop& loop_;
  Params params_;
  std::function<void()> changed_;
  topology::Fleet fleet_;
  std::unique_ptr<net::Upstream> hub_;
  std::vector<std::unique_ptr<HubList>> lists_;
  std::map<std::string, std::unique_ptr<HubList>> secrets_;        ///< by place
  std::array<std::set<HubList*>, topology::kFleetLists> awaited_;  ///< of a relist
  std::map<std::string, Probe> probes_;
  std::map<std::uint64_t, std::shared_ptr<void>> programs_;  ///< by turn
  std::map<std::string, Contexts> contexts_;                 ///< by shard
  std::vector<StaticAccess> shards_;
  std::uint64_t seeds_ = 0;
  TimePoint listed_at_ = TimePoint::max();
  bool published_ = false, posted_ = false;
  net::Timer timer_;
  Alive alive_;
};

}  // namespace kintsugi::server
