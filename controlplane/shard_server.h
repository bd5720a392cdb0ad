#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "apiserver/open_watches.h"
#include "apiserver/server.h"
#include "auth/jwt.h"
#include "auth/reserved_identity.h"
#include "auth/sealed_token.h"
#include "auth/x509_identity.h"
#include "base/alive.h"
#include "base/certificate_ends.h"
#include "base/error.h"
#include "base/memory_budget.h"
#include "controlplane/clusters/root_view.h"
#include "net/loop.h"
#include "net/tls.h"
#include "serving/trace_gate.h"
#include "store/books.h"
#include "store/store.h"

namespace kintsugi::net {
struct OutgoingPolicy;
}

namespace kintsugi::serving {
class MemoryPressure;
class ProcessLimits;
}  // namespace kintsugi::serving

namespace kintsugi::controlplane {

class ShardLoop;
class ShardControllers;
class ReplicationReport;
class AbuseTotals;
class WorkspaceQuotas;

struct ShardServerParams {
  std::string name;                           ///< "root" makes it the root shard
  std::map<std::string, std::string> labels;  ///< for the Shard object, where absent
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  ///< 0: chosen by the kernel
  /// Where others come to it, "https://shard-1.edge.svc:6443"; "": at its own address and port.
  std::string advertised{};
  std::size_t loops = 1;     ///< threads that serve; controllers run on the first
  std::string external_url;  ///< the proxy's, "" = the shard's own
  std::shared_ptr<net::TlsContext> server_tls;
  std::shared_ptr<net::TlsContext> client_tls;  ///< as this shard, to other shards
  std::shared_ptr<auth::ReloadableCertificateVerifier> verifier;
  std::vector<std::string> proxy_names{"kcp-front-proxy"};  ///< may assert identities
  auth::BorderRules peers{};   ///< whose certificates may administer logical clusters from outside
  auth::JwtKeys account_keys;  ///< sign and verify ServiceAccount tokens
  std::string root_ca_pem;     ///< for ConfigMaps kube-root-ca.crt
  std::function<void(std::string line)> audit;     ///< ServerParams::audit of every loop
  apiserver::ConcurrencyLimits concurrency;        ///< of every loop
  std::shared_ptr<serving::ProcessLimits> limits;  ///< null: nobody waits for a seat
  /// What a workspace may have where its LogicalCluster does not say otherwise, if the store keeps
  /// books (quotas/workspace_books.h).
  store::Sums quotas = store::no_limits();
  /// Whoever may write an APIBinding may accept claims for verbs that he does not hold (KK-166).
  bool claims_escalation = false;
  /// A CustomResourceDefinition of what is bound is refused (KK-226), not stored to wait.
  bool refuses_overlaps = false;
  /// Where webhooks of tenants may be (net/outgoing.h); null: the defaults.
  std::shared_ptr<const net::OutgoingPolicy> outgoing;
  /// Strangers hear the same of a logical cluster that exists and of none (SE-160); else what kcp
  /// tells them.
  bool hides_existence = true;
  /// For tests of proxies: towards them it is what a shard of kcp is (internal/kcp_stand_in.h),
  /// with virtual workspaces at a port of their own, and knows the tokens of this CSV
  /// (auth::TokenFile).
  bool as_kcp = false;
  std::optional<serving::TraceRules> tracing;  ///< nullopt: no spans are collected
  Secret tokens{};
  /// For metrics; null: one of its own.
  std::shared_ptr<AbuseTotals> abuse;
  auth::TokenKeys token_keys{};  ///< of continue tokens; empty: those that stand in the store
  /// What its loops count together.
  std::shared_ptr<apiserver::WatchCounts> watches = std::make_shared<apiserver::WatchCounts>();
  std::shared_ptr<MemoryBudget> memory;                 ///< of the process; null: without a bound
  std::shared_ptr<serving::MemoryPressure> pressure;    ///< of the process; null: nobody looks
  std::shared_ptr<const CertificateEnds> certificates;  ///< for metrics; null: none
  RootAddress root;  ///< where the root shard is; unused on the root shard
  /// Of a store that other processes serve, too: told when this one has got the duty of those that
  /// write by themselves, and when it has lost it. May be empty.
  std::function<void(bool leads)> on_duty{};
};

/// A whole shard: API servers on N loops over one store, the controllers of logical clusters on the
/// first, registration in root. Of several on a shared store all serve, and one at a time has the
/// controllers: what the others were in the midst of is not written any more (GR-302). Threads: all
/// calls from the thread of the first loop.
class ShardServer {
 public:
  /// Listens when it returns; ready a moment later (/readyz). `loop` and `store` must outlive it.
  /// @error kConfig, kIo the address cannot be had.
  [[nodiscard]] static Expected<std::unique_ptr<ShardServer>> start(net::Loop& loop,
                                                                    store::Store& store,
                                                                    ShardServerParams params);
  ~ShardServer();
  ShardServer(const ShardServer&) = delete;
  ShardServer& operator=(const ShardServer&) = delete;

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] std::string base_url() const;
  /// Where the other processes of this shard answer: whoever leads tells proxies (GR-301).
  void set_replicas(std::vector<std::string> urls);
  /// New connections use the new certificate.
  void set_tls(const std::shared_ptr<net::TlsContext>& tls);
  /// Tokens are signed with the first private key and hold if any of the keys signed them.
  void set_account_keys(const auth::JwtKeys& keys);
  /// Why its /readyz fails; "": it is ready.
  [[nodiscard]] std::string not_ready();
  /// Readiness off, watches end with a bookmark, connections go; `done` on the first loop.
  void drain(std::function<void()> done);

 private:
  struct Extra {
    std::unique_ptr<net::Loop> loop;
    std::unique_ptr<ShardLoop> parts;
    std::thread thread;
    bool ready = false;  ///< its loop's
  };
  ShardServer(net::Loop& loop, store::Store& store, ShardServerParams params);
  [[nodiscard]] Expected<void> open();
  [[nodiscard]] Expected<void> open_extra();
  void take_duty(const std::optional<store::Fence>& held);
  [[nodiscard]] bool is_set_up();
  void follow_token_keys();
  void renew_token_keys();
  /// No loop is ready before all are: what made the first one so has come to the others.
  void await_ready();
  /// Again and again: loops give up what the pressure's step says.
  void watch_memory();

  net::Loop& loop_;
  store::Store& store_;
  ShardServerParams params_;
  std::uint16_t port_ = 0;
  bool draining_ = false;
  std::vector<std::string> replicas_;
  std::shared_ptr<ReplicationReport> replication_;
  std::unique_ptr<ShardLoop> first_;
  std::unique_ptr<WorkspaceQuotas> quotas_;        ///< null: the store keeps no books
  std::unique_ptr<ShardControllers> controllers_;  ///< null: another process has them
  std::vector<std::unique_ptr<Extra>> extra_;
  net::Timer ready_timer_, memory_timer_, cold_timer_;
  std::atomic<std::size_t> unready_ = 0;  ///< extra loops that do not know yet
  std::shared_ptr<void> duty_, key_changes_;
  Alive alive_;
};

}  // namespace kintsugi::controlplane
