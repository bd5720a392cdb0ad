#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "apiserver/server.h"
#include "net/revocation.h"
#include "server/confinement.h"
#include "server/layout.h"
#include "server/tenant_options.h"
#include "serving/process_limits.h"
#include "serving/trace_gate.h"
#include "store/books.h"
#include "store/etcd/etcd_store.h"

namespace kintsugi::server {

/// Files with revocation lists ("" = none), and what they mean.
struct ShardRevocations {
  std::string client_file;          ///< of the installation's client CA
  std::string request_header_file;  ///< of its request-header CA
  std::string backend_file;         ///< of the CA of other shards
  net::CrlRules rules;
};

/// What one shard is to be. Checked before: names are names, numbers within their bounds.
struct ShardOptions {
  Layout layout;     ///< of the installation that it joins
  std::string name;  ///< "root": the one that the others join
  /// One of several processes of it that share an etcd, by its folder in that of the shard; "": the
  /// one that is in the shard's own.
  std::string replica{};
  std::map<std::string, std::string> labels;  ///< for its Shard object, where absent
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;   ///< 0: that of the last run, or any
  std::string advertised;   ///< ShardServerParams::advertised
  std::uint32_t loops = 1;  ///< threads that serve, 1 to 64
  apiserver::ConcurrencyLimits concurrency;
  std::shared_ptr<serving::ProcessLimits> limits;  ///< who waits for a seat, who is refused
  std::string limits_file;                         ///< where some of them are from; "": nowhere
  /// Reads them again. @error kConfig, kIo: they stay
  std::function<Expected<void>(serving::ProcessLimits&)> reload_limits;
  store::Sums quotas = store::no_limits();  ///< ShardServerParams::quotas
  std::size_t memory_budget = 0;   ///< [bytes] 0: three quarters of what the process may use
  bool claims_escalation = false;  ///< ShardServerParams::claims_escalation
  bool refuses_overlaps = false;   ///< ShardServerParams::refuses_overlaps
  std::string audit_log;           ///< "": none
  std::string audit_webhook;       ///< kubeconfig of who gets its events; "": none
  ShardRevocations revocations;
  std::string encryption;            ///< EncryptionConfiguration; "": that of the installation
  bool insecure_file_modes = false;  ///< keys that others may read are warnings
  TenantOptions tenants;
  Confinement confinement;
  bool as_kcp = false;  ///< ShardServerParams::as_kcp
  serving::TracingConfig tracing;
  /// Where its data is, instead of in its folder; what depends on the folder is filled in at the
  /// start. Without endpoints: LMDB.
  store::EtcdParams etcd;
  std::string etcd_password_file;  ///< of etcd.user
  bool opens_moved = false;        ///< also a store that was copied elsewhere
};

/// Runs a shard on this thread until SIGTERM or SIGINT; SIGHUP reads its files again.
/// @returns the exit status: 1 with a line on stderr when it could not start.
int run_shard_program(ShardOptions options);

}  // namespace kintsugi::server
