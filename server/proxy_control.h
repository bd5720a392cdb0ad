#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "aggregation/position/move_keeper.h"
#include "aggregation/position/slot_keeper.h"
#include "apiserver/server.h"
#include "auth/audit_log.h"
#include "auth/audit_webhook.h"
#include "auth/certificate_proofs.h"
#include "base/alive.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/signals.h"
#include "net/ticket_keys.h"
#include "proxy/admin/admin.h"
#include "proxy/admin/admin_gate.h"
#include "proxy/config/config.h"
#include "proxy/feed_world.h"
#include "proxy/forwarding/backend_check.h"
#include "server/internal/api_objects.h"
#include "server/internal/backend_judge.h"
#include "server/internal/console_workers.h"
#include "server/internal/exec_renewal.h"
#include "server/internal/file_watch.h"
#include "server/internal/fleet_source.h"
#include "server/internal/proxy_controllers.h"
#include "server/internal/proxy_files.h"
#include "server/internal/proxy_loop.h"
#include "server/internal/proxy_replicas.h"
#include "server/internal/store_opening.h"
#include "server/loaded_config.h"
#include "serving/trace_exporter.h"
#include "store/etcd/etcd_store.h"
#include "store/late_store.h"
#include "store/store.h"
#include "topology/feed.h"
#include "topology/partition_notes.h"

namespace kintsugi::server {

/// The helper that asks credential plug-ins, where a kubeconfig has one (exec_plugin.h). Before
/// ProxyControl::make. @error kIo
[[nodiscard]] Expected<void> help_with_plugins(const proxy::ProxyConfig& config);

/// The control side of the proxy process: owns the store, the topology feed, the controllers, the
/// admin listeners and the data loops. Its loop runs on the main thread.
class ProxyControl {
 public:
  /// Opens the store and the ports. @error kConfig, kIo: one line that says what could not be had.
  /// @param reload  is called when a file of `loaded` has changed.
  /// @param sockets  of net::take_inherited_sockets(): to be listened at instead of `listener`'s
  [[nodiscard]] static Expected<std::unique_ptr<ProxyControl>> make(
      LoadProxyConfig reload, LoadedProxyConfig loaded, const std::vector<int>& sockets);
  ~ProxyControl();
  /// Until SIGTERM or SIGINT. @returns the exit status.
  int run();

 private:
  ProxyControl(LoadProxyConfig reload, LoadedProxyConfig loaded);
  [[nodiscard]] Expected<void> open(const std::vector<int>& sockets);
  /// In `data_dir`; in memory where that cannot be written and nothing has to be kept (FP-158).
  [[nodiscard]] Expected<void> open_store();
  [[nodiscard]] Expected<void> open_lmdb();
  /// Etcd that does not answer yet: `store_` is late.
  [[nodiscard]] Expected<void> open_etcd();
  void has_etcd(store::EtcdStore& store);
  void on_late_store(StoreOpening::Result opened);
  [[nodiscard]] Expected<void> begin_late(StoreOpening::Result opened);
  /// What proxies keep in the store besides objects: cursors, keys, moves, starts.
  [[nodiscard]] Expected<void> begin_records(ProxyFiles& files);
  /// The others that share the store, and what they have to know of this one.
  void begin_replicas();
  /// The part of start_feed() that reads objects.
  void start_own_kinds();
  void on_store_ended();
  /// Where the numbers of sequence cursors begin, and what is known of earlier ones.
  [[nodiscard]] Expected<void> begin_sequences();
  [[nodiscard]] Expected<void> open_admin();
  [[nodiscard]] Expected<void> open_audit_log(const auth::AuditPolicy& policy);
  [[nodiscard]] Expected<void> open_access_log();
  [[nodiscard]] Expected<void> open_tracing();
  void take_audit_policy(std::shared_ptr<const auth::AuditPolicy> policy);
  [[nodiscard]] proxy::ExplainSources explain_sources();
  /// What the data loops are asked for and only the control loop knows.
  void tell_loops();
  /// A server answers 401 to what the proxy asks for itself.
  [[nodiscard]] bool is_unknown_somewhere() const;
  /// As whom a server is asked; see topology::FeedParams.
  [[nodiscard]] std::string own_name_at(const std::string& server) const;
  /// What its kubeconfigs say, loaded once. @error kConfig
  [[nodiscard]] Expected<void> load_topology();
  /// The files that say how the topology is learned are there.
  [[nodiscard]] bool has_kubeconfigs() const;
  void try_feed();
  [[nodiscard]] Expected<void> start_feed();
  /// Before anything is known, so that nothing is forwarded: see BackendCheck.
  [[nodiscard]] Expected<void> check_backend();
  /// Ready is what every loop has the snapshot for: it was posted to them before this is.
  void tell_ready(bool ready);
  /// They act as soon as this proxy has the duty to.
  void start_controllers();
  void take_duty(const std::optional<store::Fence>& held);
  void give_up_duty();
  void cluster_gone(std::string_view cluster);
  [[nodiscard]] bool tells_partitions() const noexcept;
  [[nodiscard]] Expected<void> read_note_source();
  void start_notes();
  void start_own_shards();
  /// Identities of kcp's exports can be read somewhere.
  [[nodiscard]] bool has_root() const { return !config_.topology.root_kubeconfig.empty(); }
  void release_controllers();
  /// @{ Source `clusterprofiles` (proxy_fleet.cc).
  [[nodiscard]] Expected<void> make_fleet(const TopologyFiles& files);
  void take_fleet();
  void look_at_fleet();
  void reload_fleet(TopologyFiles& files, std::vector<std::string>& stuck);
  /// What was read from files gets the servers of the fleet.
  void keep_fleet(ProxyFiles& files) const;
  /// @}
  /// @{ Source `static`, in the order of the slots.
  [[nodiscard]] std::vector<std::string> static_uids() const;
  [[nodiscard]] std::vector<topology::ShardSpec> static_specs() const;
  /// @}
  /// Everything that is read from files again, as a set (proxy_reload.cc).
  void reload(const std::vector<std::string>& changed);
  /// The same once credential plug-ins have been asked.
  void reload_now(const std::vector<std::string>& changed);
  /// What the files say now, loaded and checked as a set.
  struct Candidate;
  [[nodiscard]] Expected<std::shared_ptr<Candidate>> load_candidate();
  [[nodiscard]] Expected<void> take(Candidate& candidate);
  void reloaded(const std::vector<std::string>& changed, const std::vector<FollowedFile>& followed,
                const Expected<void>& result);
  [[nodiscard]] BackendPairs backend_pairs() const;
  void follow_files();
  void collect(proxy::ReportPart part, std::function<void(std::vector<proxy::LoopReport>)> done);
  [[nodiscard]] proxy::TopologyReport topology_report() const;
  void on_signal(int number);
  void drain();

  const LoadProxyConfig reload_;
  proxy::ProxyConfig config_;
  const std::string config_path_;  ///< "" without --config
  std::string config_text_;
  net::Loop loop_;
  net::Signals signals_;
  std::unique_ptr<store::Store> store_;
  store::EtcdStore* etcd_ = nullptr;  ///< store_, where it is on etcd
  store::LateStore* late_ = nullptr;  ///< store_, until it is open
  std::atomic<bool> has_store_{true};
  std::unique_ptr<StoreOpening> opening_;
  bool keeps_nothing_ = false;  ///< the store is in memory
  topology::SnapshotPublisher publisher_;
  std::shared_ptr<auth::ReloadableCertificateVerifier> verifier_;
  std::shared_ptr<net::TicketKeys> ticket_keys_ = std::make_shared<net::TicketKeys>();
  ShardTls admin_tls_;                         ///< for the feed; empty until it starts
  std::shared_ptr<net::TlsContext> root_tls_;  ///< the same
  std::string root_server_;
  std::optional<TopologyFiles> topology_files_;  ///< loaded at the start, until the feed has them
  std::vector<std::string> peer_servers_;        ///< in the order of the feed's peers
  ShardTls backend_tls_;
  std::vector<StaticAccess> static_shards_;
  std::unique_ptr<FileWatch> watch_;
  std::unique_ptr<ExecRenewal> plugins_;     ///< null: no kubeconfig had one at the start
  std::vector<proxy::ReloadCount> reloads_;  ///< by key
  std::vector<CertificateEnd> certificates_;
  std::atomic<bool> ready_{false};
  std::uint64_t ready_turn_ = 0;
  std::unique_ptr<auth::AuditLog> audit_;              ///< null: there is none
  std::unique_ptr<auth::AuditLog> access_log_;         ///< null: there is none
  std::unique_ptr<serving::TraceExporter> traces_;     ///< null: no spans are collected
  std::unique_ptr<auth::AuditWebhook> audit_webhook_;  ///< null: there is none
  std::unique_ptr<ProxyShared> shared_;
  std::vector<std::unique_ptr<ProxyLoop>> loops_;
  std::unique_ptr<aggregation::SlotKeeper> slots_;
  std::unique_ptr<aggregation::MoveKeeper> moves_;
  std::unique_ptr<ProxyReplicas> replicas_;  ///< null: the store is this process's alone

  // The control loop's own view of the objects: writes of controllers go through it.
  std::unique_ptr<auth::Authenticator> no_authenticator_;
  std::unique_ptr<auth::Authorizer> no_authorizer_;
  std::unique_ptr<kinds::StaticPlusCrdRegistry> registry_;
  std::unique_ptr<apiserver::ApiServer> objects_server_;
  std::unique_ptr<ApiObjects> objects_;
  std::unique_ptr<proxy::BackendCheck> backend_check_;
  std::shared_ptr<proxy::BackendTrust> trust_ = std::make_shared<proxy::BackendTrust>(false);
  std::unique_ptr<BackendJudge> judge_;
  std::vector<std::string> reloading_;  ///< files whose change is being judged
  std::shared_ptr<const proxy::RouteTable> routes_;
  bool backend_proven_ = false;
  std::unique_ptr<topology::Feed> feed_;
  std::unique_ptr<proxy::FeedWorld> world_;
  std::unique_ptr<proxy::WorkspaceIssuerBook> issuers_;  ///< with authentication.workspaces
  std::unique_ptr<ProxyControllers> controllers_;        ///< null before the feed begins
  std::shared_ptr<void> duty_;  ///< strives for it; null in a store of our own
  /// Logical clusters that went lately: nobody may have had the duty just then.
  std::deque<std::pair<TimePoint, std::string>> gone_;
  std::unique_ptr<topology::PartitionNotes> notes_;  ///< null where shards have the Partitions
  std::string note_source_;
  std::shared_ptr<void> own_shards_;
  std::unique_ptr<FleetSource> fleet_;  ///< null: another source
  std::string hub_server_;
  bool judged_ = false;                      ///< the servers' trust, as all shards are known
  std::unique_ptr<ConsoleWorkers> workers_;  ///< null: none are named
  std::unique_ptr<proxy::AdminHandler> admin_;
  std::unique_ptr<auth::CertificateProofs> admin_identities_;  ///< of its clients on TCP
  std::unique_ptr<proxy::AdminGate> admin_gate_;               ///< in front of it on TCP
  std::vector<std::unique_ptr<net::Listener>> admin_listeners_;
  void watch_memory();
  void tell_why_not_ready();
  [[nodiscard]] std::string why_not_ready() const;

  void accept_when_ready(int looks);

  net::Timer fleet_timer_, feed_timer_, stop_timer_, hold_timer_, accept_timer_, memory_timer_,
      status_timer_;
  std::uint16_t port_ = 0;
  std::size_t draining_ = 0;
  bool stopping_ = false;
  bool waiting_logged_ = false;
  int exit_status_ = 0;
  Alive alive_;
};

}  // namespace kintsugi::server
