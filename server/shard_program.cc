// A shard process, from its options to its last connection.
#include "server/shard_program.h"

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "auth/audit_log.h"
#include "auth/audit_webhook.h"
#include "base/data_folder.h"
#include "base/last_resort.h"
#include "base/log.h"
#include "base/log_output.h"
#include "base/memory_limit.h"
#include "base/random.h"
#include "base/secret_file.h"
#include "base/strings.h"
#include "base/version.h"
#include "controlplane/shard_server.h"
#include "net/loop.h"
#include "net/outgoing.h"
#include "net/service_notices.h"
#include "net/signals.h"
#include "net/upstream.h"
#include "net/watchdog.h"
#include "server/encryption.h"
#include "server/files.h"
#include "server/internal/file_watch.h"
#include "server/internal/process_socket.h"
#include "server/internal/replica_keeper.h"
#include "server/internal/shard_credentials.h"
#include "server/internal/shard_store.h"
#include "server/internal/tracing.h"
#include "server/internal/webhook_server.h"
#include "server/kubeconfig.h"
#include "server/program.h"
#include "server/shard_files.h"
#include "serving/memory_pressure.h"

namespace kintsugi::server {
namespace {

constexpr Duration kFilePoll = seconds(60);
constexpr Duration kStoreOpens = seconds(600);  // of the largest store on a slow disk
constexpr Duration kRenewal = seconds(60);
constexpr std::size_t kRootConnections = 4;

class ShardProgram {
 public:
  explicit ShardProgram(ShardOptions options)
      : options_(std::move(options)),
        credentials_(options_.layout, options_.name, options_.revocations),
        loop_("shard"),
        signals_(loop_, {SIGINT, SIGTERM, SIGHUP}, [this](int number) { on_signal(number); }) {}

  ~ShardProgram() {
    if (loader_.joinable()) {
      loader_.join();
    }
  }
  ShardProgram(const ShardProgram&) = delete;
  ShardProgram& operator=(const ShardProgram&) = delete;

  /// Serves when it returns. Each step adds to what the server is made of.
  Expected<void> start() {
    controlplane::ShardServerParams params = described();
    for (const auto step :
         {&ShardProgram::open_store, &ShardProgram::open_audit_log, &ShardProgram::bound_outgoing,
          &ShardProgram::load_credentials, &ShardProgram::serve, &ShardProgram::announce}) {
      if (auto done = (this->*step)(params); !done) {
        return done;
      }
    }
    if (auto traces = start_tracing(options_.tracing, "kintsugi-shard", options_.name); traces) {
      traces_ = std::move(*traces);
    } else {
      return fail(std::move(traces.error()));
    }
    admin_.emplace(
        loop_, options_.layout.shard_admin_socket(options_.name, options_.replica),
        ProcessSocket::Pages{{"/readyz", readiness_page([this] { return server_->not_ready(); })}});
    follow_files();
    renew();
    return {};
  }

  int run() {
    const net::Watchdog watchdog(net::watchdog_of_service());
    net::service_notices().ready("shard " + options_.name + " at " + server_->base_url());
    loop_.run();
    server_.reset();
    return status_;
  }

 private:
  using Params = controlplane::ShardServerParams;

  /// What the options say without anything being opened.
  Params described() {
    Params params;
    params.name = options_.name;
    params.labels = options_.labels;
    params.address = options_.address;
    params.advertised = options_.advertised;
    params.loops = options_.loops;
    params.concurrency = options_.concurrency;
    params.limits = options_.limits;
    params.quotas = options_.quotas;
    params.claims_escalation = options_.claims_escalation;
    params.refuses_overlaps = options_.refuses_overlaps;
    params.hides_existence = options_.tenants.hides_existence() && !options_.as_kcp;
    params.as_kcp = options_.as_kcp;
    if (!options_.tracing.endpoint.empty()) {
      params.tracing = options_.tracing.rules;
      params.tracing->takes_asserted = true;
    }
    params.memory = std::make_shared<MemoryBudget>(
        options_.memory_budget != 0 ? options_.memory_budget : memory_limit() / 4 * 3);
    params.pressure = std::make_shared<serving::MemoryPressure>(options_.memory_budget);
    params.external_url = proxy_url(options_.layout);
    params.root = [this] { return root_address(); };
    params.on_duty = [this](bool leads) { on_duty(leads); };
    return params;
  }

  Expected<void> open_store(Params& /*params*/) {
    if (auto made = make_directories(folder()); !made) {
      return made;
    }
    net::service_notices().status("opens its store");
    net::service_notices().extend(kStoreOpens);
    auto opened = open_shard_store(options_, [this] { loop_.post([this] { on_store_ended(); }); });
    if (!opened) {
      return fail(std::move(opened.error()));
    }
    store_ = std::move(opened->store);
    etcd_ = opened->etcd;
    set_data_folder(opened->folder);
    auto encryption = ShardEncryption::open(*store_, options_.layout, options_.encryption);
    if (!encryption) {
      return fail(std::move(encryption.error()));
    }
    encryption_ = std::move(*encryption);
    return {};
  }

  /// Names of its own that its certificate has.
  [[nodiscard]] std::vector<std::string> hosts() const {
    std::vector<std::string> names{options_.address};
    if (const auto url = net::Url::parse(options_.advertised); url) {
      names.push_back(url->host);
    }
    return names;
  }

  [[nodiscard]] std::string folder() const {
    return options_.layout.shard_replica(options_.name, options_.replica);
  }

  /// The data has moved, or somebody has restored etcd: the next process has another history, and
  /// watches begin anew.
  void on_store_ended() {
    log_error("shard ends: its store has to be opened anew", {{"shard", options_.name}});
    status_ = 1;
    loop_.stop();
  }

  Expected<void> open_audit_log(Params& params) {
    if (!options_.audit_log.empty()) {
      auto log = auth::AuditLog::open({options_.audit_log});
      if (!log) {
        return fail(std::move(log.error()));
      }
      audit_ = std::move(*log);
    }
    if (!options_.audit_webhook.empty()) {
      auto server = load_webhook_server(options_.audit_webhook);
      if (!server) {
        return fail(std::move(server.error()));
      }
      auth::AuditWebhookParams webhook;
      webhook.server = std::move(server->upstream);
      webhook.authorization = std::move(server->authorization);
      audit_webhook_ = std::make_unique<auth::AuditWebhook>(std::move(webhook));
    }
    if (audit_ != nullptr || audit_webhook_ != nullptr) {
      params.audit = auth::audit_into(audit_.get(), audit_webhook_.get());
    }
    return {};
  }

  /// Where webhooks and token issuers of tenants may be.
  Expected<void> bound_outgoing(Params& params) {
    auto rules = options_.tenants.rules();
    if (!rules) {
      return fail(std::move(rules.error()));
    }
    auto policy = net::make_outgoing_policy(*rules);
    if (!policy) {
      return fail(std::move(policy.error()));
    }
    params.outgoing = std::make_shared<const net::OutgoingPolicy>(std::move(*policy));
    return {};
  }

  Expected<void> load_credentials(Params& params) {
    if (auto made = credentials_.ensure(hosts()); !made) {
      return made;
    }
    auto serving = credentials_.load_serving();
    if (!serving) {
      return fail(std::move(serving.error()));
    }
    auto verifier = auth::ReloadableCertificateVerifier::make(serving->callers);
    if (!verifier) {
      return fail(std::move(verifier.error()));
    }
    auto outgoing = credentials_.load_outgoing();
    if (!outgoing) {
      return fail(std::move(outgoing.error()));
    }
    auto ca = credentials_.root_ca();
    if (!ca) {
      return fail(std::move(ca.error()));
    }
    verifier_ = std::move(*verifier);
    client_tls_ = std::move(*outgoing);
    certificates_->set(credentials_.ends());
    params.server_tls = std::move(serving->tls);
    params.client_tls = client_tls_;
    params.verifier = verifier_;
    params.account_keys = std::move(serving->account_keys);
    if (options_.as_kcp) {
      auto tokens = ensure_kcp_tokens(options_.layout, options_.name);
      if (!tokens) {
        return fail(std::move(tokens.error()));
      }
      params.tokens = std::move(*tokens);
    }
    params.root_ca_pem = std::move(*ca);
    params.certificates = certificates_;
    return {};
  }

  /// On the port that was asked for; else that of the last run, else another one.
  Expected<void> serve(Params& params) {
    params.port = options_.port != 0 ? options_.port
                                     : last_port(options_.layout, options_.name, options_.replica);
    auto server = controlplane::ShardServer::start(loop_, encryption_->store(), params);
    if (!server && options_.port == 0 && params.port != 0) {
      params.port = 0;
      server = controlplane::ShardServer::start(loop_, encryption_->store(), std::move(params));
    }
    if (!server) {
      return fail(std::move(server.error()));
    }
    server_ = std::move(*server);
    return {};
  }

  /// By files, to the proxy and to other shards.
  Expected<void> announce(Params& /*params*/) {
    log_info("shard listens", {{"shard", options_.name}, {"url", server_->base_url()}});
    tell_descriptor_limit();
    if (options_.as_kcp) {
      if (auto written = write_kcp_files(options_.layout, options_.name, server_->base_url());
          !written) {
        return written;
      }
    }
    if (auto written = write_access(); !written) {
      return written;
    }
    if (etcd_ != nullptr) {
      Replica own{.id = hex_encode(random_bytes(4)), .version = product_version()};
      own.address = server_->base_url();
      own.started = std::time(nullptr);
      own.ready = true;
      ReplicaKeeper::Times times;
      times.write_beside = seconds(kShardReplicaWriteSeconds);
      times.fresh = seconds(kShardReplicaFreshSeconds);
      replicas_ = std::make_unique<ReplicaKeeper>(
          loop_, *store_, std::move(own), [etcd = etcd_] { etcd->finish_upgrade(); }, times);
      replicas_->on_answering(
          [this](const std::vector<std::string>& urls) { server_->set_replicas(urls); });
    }
    return write_shard_port(options_.layout, options_.name, options_.replica, server_->port());
  }

  /// By which others come here, and to the shard where this process leads it or is alone.
  [[nodiscard]] Expected<void> write_access() const {
    const auto write = [this](const std::string& replica) {
      return write_shard_access(options_.layout, options_.name, replica, server_->base_url());
    };
    if (etcd_ == nullptr || leads_ ||
        !file_exists(options_.layout.shard_kubeconfig(options_.name))) {
      if (auto written = write({}); !written) {
        return written;
      }
    }
    return options_.replica.empty() ? Expected<void>() : write(options_.replica);
  }

  /// The files by which others come to the shard lead to who writes for it.
  void on_duty(bool leads) {
    leads_ = leads;
    tell_pair_of_administrator();
  }

  void follow_files() {
    watch_ = std::make_unique<FileWatch>(loop_, kFilePoll,
                                         [this](const std::vector<std::string>&) { reload(); });
    std::vector<std::string> files = credentials_.followed();
    files.push_back(encryption_->file());
    if (!options_.limits_file.empty()) {
      files.push_back(options_.limits_file);
    }
    watch_->set_files(files);
  }

  /// The own pair, when a third of its life is over, now and every minute; `up` does so for those
  /// of the installation.
  void renew() {
    if (auto renewed = credentials_.ensure(hosts()); !renewed) {
      log_error("the certificate cannot be renewed", {{"error", renewed.error().to_string()}});
    }
    renewal_.start(kRenewal, [this] { renew(); });
  }

  /// Of the root shard, as its own files say at that moment.
  [[nodiscard]] Expected<net::UpstreamParams> root_address() const {
    const std::string path = options_.layout.shard_kubeconfig("root");
    if (!file_exists(path)) {
      return fail(Errc::kConfig, path + " is not there yet");
    }
    auto access = read_kubeconfig(path, "base");
    if (!access) {
      return fail(std::move(access.error()));
    }
    auto url = net::Url::parse(access->server);
    if (!url) {
      return fail(std::move(url.error()));
    }
    net::UpstreamParams params;
    params.url = std::move(*url);
    params.tls = client_tls_;
    params.max_connections = kRootConnections;
    return params;
  }

  void on_signal(int number) {
    if (number == SIGHUP) {
      reopen_log_file();
      if (audit_ != nullptr) {
        audit_->reopen();
      }
      renew();
      (void)watch_->take_changed();
      reload();
      return;
    }
    if (draining_) {
      std::_Exit(1);
    }
    draining_ = true;
    replicas_.reset();
    net::service_notices().stopping();
    log_info("shard stops", {{"shard", options_.name}});
    server_->drain([this] { loop_.stop(); });
  }

  /// The set of load_serving() on a thread of its own; the old one stays where that fails. Asked
  /// for again meanwhile, it is read once more.
  void reload() {
    reload_limits();
    if (std::exchange(loading_, true)) {
      load_once_more_ = true;
      return;
    }
    if (loader_.joinable()) {
      loader_.join();  // it has said its last
    }
    loader_ = std::thread([this] {
      auto loaded = std::make_shared<Expected<ShardCredentials::Serving>>(load_again());
      loop_.post([this, loaded] { take(*loaded); });
    });
  }

  void reload_limits() const {
    if (!options_.reload_limits) {
      return;
    }
    if (auto taken = options_.reload_limits(*options_.limits); !taken) {
      log_error("limits cannot be read again", {{"error", taken.error().to_string()}});
    }
  }

  /// The loader's. The verifier takes the lists here: it works through all of them.
  [[nodiscard]] Expected<ShardCredentials::Serving> load_again() {
    auto outgoing = credentials_.load_outgoing();
    if (!outgoing) {
      return fail(std::move(outgoing.error()));
    }
    auto loaded = credentials_.load_serving();
    if (loaded) {
      if (auto taken = verifier_->reload(loaded->callers); !taken) {
        return fail(std::move(taken.error()));
      }
      if (auto taken = encryption_->reload(); !taken) {
        return fail(std::move(taken.error()));
      }
      if (auto taken = etcd_ != nullptr ? etcd_->reload_tls() : Expected<void>(); !taken) {
        return fail(std::move(taken.error()));
      }
      client_tls_->renew(std::move(*outgoing));
    }
    return loaded;
  }

  void take(const Expected<ShardCredentials::Serving>& loaded) {
    loading_ = false;
    if (loaded) {
      server_->set_tls(loaded->tls);
      server_->set_account_keys(loaded->account_keys);
      certificates_->set(credentials_.ends());
      tell_pair_of_administrator();
      log_info("certificates and keys reloaded", {{"shard", options_.name}});
    } else {
      log_error("reload failed", {{"error", loaded.error().to_string()}});
    }
    if (std::exchange(load_once_more_, false)) {
      reload();
    }
  }

  /// To the proxy, by the file with which it comes here.
  void tell_pair_of_administrator() const {
    if (const auto written = write_access(); !written) {
      log_error("files of the shard cannot be written", {{"error", written.error().to_string()}});
    }
  }

  const ShardOptions options_;
  const ShardCredentials credentials_;
  net::Loop loop_;
  net::Signals signals_;
  std::unique_ptr<auth::AuditLog> audit_;
  std::unique_ptr<auth::AuditWebhook> audit_webhook_;
  std::unique_ptr<store::Store> store_;
  store::EtcdStore* etcd_ = nullptr;         ///< store_, where it is on etcd
  std::unique_ptr<ReplicaKeeper> replicas_;  ///< null: the store is this process's alone
  std::unique_ptr<ShardEncryption> encryption_;
  std::shared_ptr<net::TlsContext> client_tls_;
  std::shared_ptr<auth::ReloadableCertificateVerifier> verifier_;
  const std::shared_ptr<CertificateEnds> certificates_ = std::make_shared<CertificateEnds>();
  std::unique_ptr<controlplane::ShardServer> server_;
  std::optional<ProcessSocket> admin_;
  std::unique_ptr<serving::TraceExporter> traces_;  ///< null: no spans are collected
  std::unique_ptr<FileWatch> watch_;
  net::Timer renewal_{loop_};
  int status_ = 0;
  bool draining_ = false;
  bool leads_ = false;  ///< ... in a store that others have, too
  bool loading_ = false, load_once_more_ = false;
  std::thread loader_;
};

}  // namespace

int run_shard_program(ShardOptions options) {
  prepare_for_no_memory();
  const Confinement confinement = options.confinement;
  if (auto confined = confine(confinement); !confined) {
    return complain("shard", confined.error());
  }
  if (options.insecure_file_modes) {
    set_secret_file_rule(SecretFileRule::kWarn);
  }
  ShardProgram shard(std::move(options));
  if (auto started = shard.start(); !started) {
    return complain("shard", started.error());
  }
  if (auto inside = enter_sandbox(confinement); !inside) {
    return complain("shard", inside.error());
  }
  return shard.run();
}

}  // namespace kintsugi::server
