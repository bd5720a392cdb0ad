#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/secret.h"
#include "base/time.h"
#include "krm/json.h"
#include "topology/fleet/internal/access.h"
#include "topology/fleet/internal/profile.h"
#include "topology/fleet/internal/removal.h"
#include "topology/fleet/provider.h"
#include "topology/snapshot.h"

namespace kintsugi::topology {

/// What a provider's program said.
struct FleetCredential {
  std::string certificate_pem;
  Secret key_pem, token;
  std::int64_t ends = 0;  ///< [unix seconds], 0: it does not say
};

/// A cluster of the fleet as the topology has it.
struct FleetShard {
  ShardSpec spec;                             ///< base_url "": it is not known how it is reached
  std::shared_ptr<const FleetAccess> access;  ///< null: the same
};

/// What is to be done, in any order and at the same time.
struct FleetAction {
  enum class Kind : std::uint8_t {
    kAsk,     ///< run `exec`, then Fleet::told()
    kProbe,   ///< ask the server of `access` whether it is there, then Fleet::probed()
    kRelist,  ///< list the profiles (`list`: kProfiles) or Secrets again
  };
  Kind kind = Kind::kAsk;
  std::string key;         ///< of the cluster
  std::uint64_t turn = 0;  ///< goes with the result
  FleetExec exec;
  std::shared_ptr<const FleetAccess> access;
  std::size_t list = 0;  ///< a FleetList
};

/// The collections of the hub that clusters are made of.
enum class FleetList : std::uint8_t { kProfiles, kSecrets };
inline constexpr std::size_t kFleetLists = 2;

/// What a server said to a probe.
struct FleetAnswer {
  int status = 0;     ///< 0: none
  std::string cause;  ///< then: why
};

/// One cluster for people.
struct FleetRow {
  std::string name;      ///< of the shard; "": it has none
  std::string object;    ///< "ClusterProfile fleet/berlin"
  std::string provider;  ///< "": none
  std::string server;
  std::string_view state;  ///< "joining", "member", "leaving", "in doubt"
  FleetFault fault;
  std::optional<bool> healthy;  ///< what the hub says
  std::size_t left_out = 0;     ///< labels that are no labels
};

/// From objects of a hub to shards: source `clusterprofiles`. All decisions and bounds of GR-701 to
/// GR-704 are here; no sockets, no processes, no clock. A cluster joins when its server has
/// answered (or is one that the slot table knows, which is down then and not gone), keeps the last
/// access that worked while its objects say what cannot be used, and leaves after a grace time.
/// What is wrong with one cluster is that cluster's fault alone. Threads: one at a time.
class Fleet {
 public:
  struct Now {
    TimePoint time;
    std::int64_t unix_seconds = 0;
  };
  static constexpr std::size_t kMostAsked = 8;  ///< programs at a time
  static constexpr std::size_t kMost = 4'096;   ///< clusters
  static constexpr Duration kShortestRest = seconds(1), kLongestRest = seconds(60);

  /// @param known  a shard of this uid has a slot: it was a member before. May be empty.
  Fleet(FleetOptions options, std::vector<FleetProvider> providers,
        std::function<bool(const std::string& uid)> known = {});
  ~Fleet();
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  /// The provider file has changed.
  void set_providers(std::vector<FleetProvider> providers, Now now);

  /// @{ Reports of the hub. @param listed  a list lacks it; else it was deleted
  void put_profile(const krm::Json& object, Now now);
  void drop_profile(std::string_view ns, std::string_view name, bool listed, Now now);
  /// Of Cluster API, or one of wanted_secrets().
  void put_secret(const krm::Json& object, Now now);
  void drop_secret(std::string_view ns, std::string_view name, bool listed, Now now);
  /// Clusters of Cluster API, for their labels.
  void put_cluster(const krm::Json& object, Now now);
  void drop_cluster(std::string_view ns, std::string_view name, Now now);
  /// A list is complete.
  void listed(FleetList list, Now now);
  /// @}

  /// @{ Results of actions; those of older turns are not looked at.
  void told(const std::string& key, std::uint64_t turn, Judged<FleetCredential> said, Now now);
  void probed(const std::string& key, std::uint64_t turn, const FleetAnswer& answer, Now now);
  /// Its certificates cannot be used, so that nothing could be asked.
  void unusable(const std::string& key, std::uint64_t turn, std::string message, Now now);
  /// @}
  /// The server of a member answered a later probe so; 401: other credentials are asked for.
  void seen(std::string_view shard, int status, Now now);

  /// What is to be done now; each is told once.
  [[nodiscard]] std::vector<FleetAction> take_actions(Now now);
  /// When take_actions() may have something again without a report; max(): never.
  [[nodiscard]] TimePoint due() const;

  /// "<namespace>/<name>" of Secrets that profiles name.
  [[nodiscard]] std::set<std::string> wanted_secrets() const;
  /// Whether shards() differs from what it was at the last call.
  [[nodiscard]] bool take_changed() noexcept { return std::exchange(changed_, false); }
  [[nodiscard]] std::vector<FleetShard> shards() const;
  [[nodiscard]] std::vector<FleetRow> rows() const;
  /// Every cluster was tried once.
  [[nodiscard]] bool is_settled() const;
  /// Faults since the start, by reason.
  [[nodiscard]] const std::array<std::uint64_t, kFleetReasons>& faults() const noexcept {
    return faults_;
  }

 private:
  struct Member;
  using Members = std::map<std::string, std::unique_ptr<Member>, std::less<>>;

  void put(const std::string& key, Judged<FleetObject> object, FleetList list, Now now);
  void leave(const std::string& key, Now now);
  void erase(const std::string& key, Now now);
  void drop(const std::string& key, FleetList list, bool is_listed, Now now);
  void consider(Member& member, Now now);
  void consider_readers(Now now);
  void use(Member& member, FleetAccess access, Now now);
  [[nodiscard]] Judged<std::optional<FleetAccess>> resolve(Member& member, Now now);
  [[nodiscard]] Judged<std::optional<FleetAccess>> by_program(Member& member,
                                                              const FleetProvider& provider,
                                                              const krm::Json& cluster, Now now);
  [[nodiscard]] Judged<FleetAccess> by_secret(const Member& member, const krm::Json& cluster) const;
  [[nodiscard]] Judged<FleetAccess> of_cluster_api(const Member& member) const;
  [[nodiscard]] Judged<FleetAccess> kubeconfig(const std::string& secret, const std::string& key,
                                               std::string_view context) const;
  [[nodiscard]] std::optional<FleetFault> name(Member& member);
  void blame(Member& member, FleetFault fault);
  void admit(Member& member, std::shared_ptr<const FleetAccess> access);
  void rest(Member& member, Now now);
  void name_again(Now now);

  const FleetOptions options_;
  const FleetServers servers_;
  std::vector<FleetProvider> providers_;
  std::function<bool(const std::string&)> known_;
  Members members_;
  std::array<RemovalGuard, kFleetLists> guards_;
  std::map<std::string, std::map<std::string, Secret>, std::less<>> secrets_;  ///< base64 by key
  std::map<std::string, krm::Json, std::less<>> clusters_;  ///< of Cluster API: metadata alone
  std::deque<FleetAction> actions_;
  std::size_t asked_ = 0;  ///< programs that run
  std::uint64_t turns_ = 0, accesses_ = 0;
  bool changed_ = false;
  std::array<std::uint64_t, kFleetReasons> faults_{};
};

}  // namespace kintsugi::topology
