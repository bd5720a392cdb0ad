// What has to be there before the proxy learns the topology.
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "base/data_folder.h"
#include "base/log.h"
#include "base/version.h"
#include "net/service_notices.h"
#include "server/files.h"
#include "server/internal/etcd_opening.h"
#include "server/internal/exec_plugin.h"
#include "server/internal/store_note.h"
#include "server/internal/tracing.h"
#include "server/internal/webhook_server.h"
#include "server/program.h"
#include "server/proxy_control.h"
#include "store/lmdb/rescue.h"
#include "store/memory/memory_store.h"

namespace kintsugi::server {
namespace {

constexpr Duration kFeedRetry = milliseconds(20);
constexpr Duration kStoreAnswers = seconds(3);
constexpr Duration kBackendRetry = milliseconds(500);
constexpr Duration kStoreOpens = seconds(600);  // the mirror of the largest store

std::string mirror_in(const std::string& data_dir) { return data_dir + "/mirror"; }

void tell_audit_level(const auth::AuditPolicy& policy) {
  if (policy.wants_bodies()) {
    log_warn("audit: bodies stream through, levels Request and RequestResponse are Metadata here");
  }
}

}  // namespace

Expected<void> help_with_plugins(const proxy::ProxyConfig& config) {
  const bool runs_providers = config.has_fleet() && !config.topology.fleet.provider_file.empty();
  if (runs_providers || name_exec_plugins(kubeconfigs_of(config))) {
    return start_exec_helper();
  }
  refuse_exec_plugins();
  return {};
}

bool ProxyControl::is_unknown_somewhere() const {
  const auto refusals = feed_ != nullptr ? feed_->refusals() : decltype(feed_->refusals())();
  return std::any_of(refusals.begin(), refusals.end(),
                     [](const auto& one) { return one.code == 401; });
}

Expected<void> ProxyControl::open_lmdb() {
  if (file_exists(mirror_in(config_.data_dir))) {
    return fail(Errc::kConfig,
                "the data of this proxy is in etcd (" + mirror_in(config_.data_dir) + ")");
  }
  store::LmdbParams params;
  params.directory = config_.data_dir;
  auto store = store::open_or_rescue(std::move(params));
  if (!store) {
    return fail(std::move(store.error()));
  }
  store_ = std::move(*store);
  set_data_folder(config_.data_dir);
  return {};
}

/// A folder with data of its own stays with that.
Expected<void> ProxyControl::open_etcd() {
  if (file_exists(config_.data_dir + "/data.mdb")) {
    return fail(Errc::kConfig, "the data of this proxy is in " + config_.data_dir);
  }
  net::service_notices().status("opens its store");
  net::service_notices().extend(kStoreOpens);
  const proxy::StoreConfig& config = config_.store;
  store::EtcdParams params = access_of_etcd(config);
  params.compacts = config.compacts;
  params.stale_limit = config.stale_limit;
  params.mirror_directory = mirror_in(config_.data_dir);
  params.on_ended = [this] { loop_.post([this] { on_store_ended(); }); };
  opening_ = std::make_unique<StoreOpening>(std::move(params), config.password_file);
  auto opened = opening_->wait(kStoreAnswers);
  if (!opened) {
    log_warn("etcd does not answer yet: forwards, and serves what is stored later");
    auto late = std::make_unique<store::LateStore>();
    late_ = late.get();
    store_ = std::move(late);
    has_store_ = false;
    return {};
  }
  opening_.reset();
  if (!*opened) {
    return fail(std::move(opened->error()));
  }
  has_etcd(***opened);
  store_ = std::move(**opened);
  return {};
}

void ProxyControl::has_etcd(store::EtcdStore& store) {
  etcd_ = &store;
  const StoreNote note{access_of_etcd(config_.store), config_.store.password_file};
  if (auto written = write_store_note(config_.data_dir, note); !written) {
    log_warn("cannot note where the data is: there will be no backup of it",
             {{"error", written.error().to_string()}});
  }
  set_data_folder(mirror_in(config_.data_dir));
}

void ProxyControl::on_late_store(StoreOpening::Result opened) {
  opening_.reset();
  if (stopping_) {
    return;
  }
  if (auto begun = begin_late(std::move(opened)); !begun) {
    complain("proxy", std::move(begun.error()).at("store"));
    exit_status_ = 1;
    loop_.stop();
    return;
  }
  log_info("etcd answers: serves everything");
}

void ProxyControl::begin_replicas() {
  ProxyReplicas::Params params{.loop = loop_, .store = *store_};
  params.own.id = shared_->instance;
  params.own.version = product_version();
  params.own.address = config_.listener.address + ":" + std::to_string(port_);
  params.own.region = config_.region;
  params.own.started = std::time(nullptr);
  params.balances = config_.listener.balance_watches;
  for (const auto& one : loops_) {
    params.loops.push_back(one.get());
  }
  params.ready = shared_->ready;
  if (etcd_ != nullptr) {
    params.settled = [etcd = etcd_] { etcd->finish_upgrade(); };
  }
  replicas_ = std::make_unique<ProxyReplicas>(std::move(params));
}

/// Who has asked for the duty hears of it in a later turn: until then the controllers are those of
/// a proxy that does not have it.
Expected<void> ProxyControl::begin_late(StoreOpening::Result opened) {
  if (!opened) {
    return fail(std::move(opened.error()));
  }
  auto files = load_proxy_files(config_);
  if (!files) {
    return fail(std::move(files.error()));
  }
  has_etcd(**opened);
  std::exchange(late_, nullptr)->open(std::move(*opened));
  if (auto begun = begin_records(*files); !begun) {
    return begun;
  }
  if (feed_ != nullptr) {
    take_duty({});
    start_own_kinds();
  }
  has_store_ = true;
  if (ready_.load(std::memory_order_relaxed)) {
    net::service_notices().ready("ready");
  }
  return {};
}

/// Somebody has restored etcd: the next process has another history, and watches begin anew.
void ProxyControl::on_store_ended() {
  if (!stopping_) {
    log_error("proxy ends: its store has to be opened anew");
    exit_status_ = 1;
    drain();
  }
}

Expected<void> ProxyControl::open_store() {
  Expected<void> made = make_directories(config_.data_dir);
  if (config_.store.is_etcd) {
    if (made) {
      made = open_etcd();
    }
    return made ? std::move(made) : fail(std::move(made.error()).at("store"));
  }
  if (made) {
    made = open_lmdb();
  }
  if (made) {
    return {};
  }
  proxy::GroupModes& groups = config_.topology.groups;
  const bool keeps = groups.partitions == proxy::GroupMode::kProxy ||
                     groups.slices == proxy::GroupMode::kProxy || config_.topology.source != "kcp";
  if (!config_.kcp_command_line || keeps || ::access(config_.data_dir.c_str(), W_OK) == 0) {
    const char* const name = config_.kcp_command_line ? "--root-directory" : "data_dir";
    return fail(std::move(made.error()).at(name));
  }
  // Nothing that anybody writes may end up where a restart loses it.
  groups = {proxy::GroupMode::kShard, proxy::GroupMode::kShard};
  store_ = std::make_unique<store::MemoryStore>();
  keeps_nothing_ = true;
  log_warn("the folder for the proxy's own data cannot be written, none is kept",
           {{"flag", "--root-directory"},
            {"folder", config_.data_dir},
            {"error", made.error().to_string()}});
  return {};
}

Expected<void> ProxyControl::open_audit_log(const auth::AuditPolicy& policy) {
  const proxy::AuditConfig& config = config_.audit;
  if (config.log_file.empty() && config.webhook_kubeconfig.empty()) {
    if (!config.policy_file.empty()) {
      log_warn("an audit policy has no effect without a log");
    }
    return {};
  }
  if (!config.log_file.empty()) {
    auto log = auth::AuditLog::open({.path = config.log_file,
                                     .rotate_bytes = std::uint64_t{config.max_size_mb} << 20,
                                     .backups = config.max_backups,
                                     .days = config.max_age_days});
    if (!log) {
      return fail(std::move(log.error()).at("audit.log_file"));
    }
    audit_ = std::move(*log);
  }
  if (!config.webhook_kubeconfig.empty()) {
    auto server = load_webhook_server(config.webhook_kubeconfig);
    if (!server) {
      return fail(std::move(server.error()).at("audit.webhook_kubeconfig"));
    }
    auth::AuditWebhookParams params;
    params.server = std::move(server->upstream);
    params.authorization = std::move(server->authorization);
    audit_webhook_ = std::make_unique<auth::AuditWebhook>(std::move(params));
  }
  shared_->audit = auth::audit_into(audit_.get(), audit_webhook_.get());
  tell_audit_level(policy);
  return {};
}

Expected<void> ProxyControl::open_access_log() {
  const proxy::AccessLogConfig& config = config_.access_log;
  if (config.file.empty()) {
    return {};
  }
  auto log = auth::AuditLog::open({.path = config.file,
                                   .rotate_bytes = std::uint64_t{config.max_size_mb} << 20,
                                   .backups = config.max_backups,
                                   .days = config.max_age_days,
                                   .counted_in = &auth::access_totals()});
  if (!log) {
    return fail(std::move(log.error()).at("access_log.file"));
  }
  access_log_ = std::move(*log);
  shared_->access_log = [log = access_log_.get()](std::string line) { log->add(std::move(line)); };
  return {};
}

Expected<void> ProxyControl::open_tracing() {
  auto traces = start_tracing(config_.tracing, "kintsugi-proxy", "");
  if (!traces) {
    return fail(std::move(traces.error()));
  }
  traces_ = std::move(*traces);
  return {};
}

void ProxyControl::take_audit_policy(std::shared_ptr<const auth::AuditPolicy> policy) {
  if (audit_ == nullptr && audit_webhook_ == nullptr) {
    return;
  }
  tell_audit_level(*policy);
  for (const auto& one : loops_) {
    one->set_audit_policy(policy);
  }
}

bool ProxyControl::has_kubeconfigs() const {
  const bool needs_files = !config_.has_plain_servers();
  return (!config_.has_fleet() || file_exists(config_.topology.fleet.kubeconfig)) &&
         (!has_root() || file_exists(config_.topology.root_kubeconfig)) &&
         (!needs_files || file_exists(config_.topology.shards_kubeconfig));
}

/// The kubeconfigs may not be there yet when the shards start at the same time.
void ProxyControl::try_feed() {
  if (!has_kubeconfigs()) {
    if (!waiting_logged_) {
      waiting_logged_ = true;
      log_info("waiting for the kubeconfigs", {{"root", config_.topology.root_kubeconfig}});
    }
    feed_timer_.start(kFeedRetry, [this] { try_feed(); });
    return;
  }
  const bool proven = backend_proven_ || config_.backend.kubeconfig.empty();
  if (auto result = proven ? start_feed() : check_backend(); !result) {
    log_error("topology cannot be learned", {{"error", result.error().to_string()}});
    feed_timer_.start(seconds(1), [this] { try_feed(); });
  }
}

Expected<void> ProxyControl::load_topology() {
  if (!topology_files_) {
    auto files = load_topology_files(config_);
    if (!files) {
      return fail(std::move(files.error()));
    }
    topology_files_ = std::move(*files);
  }
  return {};
}

Expected<void> ProxyControl::check_backend() {
  if (auto loaded = load_topology(); !loaded) {
    return loaded;
  }
  auto shard = upstream_to(topology_files_->root_server, backend_tls_.common);
  if (!shard) {
    return fail(std::move(shard.error()));
  }
  std::vector<proxy::BackendTarget> targets;
  targets.push_back({config_.backend.kubeconfig, std::move(*shard)});
  const auto told = [this](const Expected<void>& result) {
    backend_check_.reset();
    if (!result) {
      complain("proxy", result.error());
      exit_status_ = 1;
      loop_.stop();
      return;
    }
    backend_proven_ = true;
    try_feed();
  };
  backend_check_ = std::make_unique<proxy::BackendCheck>(
      loop_, std::move(targets), proxy::BackendCheck::Hooks{told}, kBackendRetry);
  return {};
}

}  // namespace kintsugi::server
