#include <csignal>
#include <cstdio>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "auth/audit_log.h"
#include "auth/certificate_end.h"
#include "auth/x509_identity.h"
#include "base/log.h"
#include "base/memory_limit.h"
#include "base/strings.h"
#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/flags.h"
#include "cmd/kintsugi/limit_options.h"
#include "cmd/kintsugi/tenant_options.h"
#include "controlplane/shard_server.h"
#include "krm/names.h"
#include "net/loop.h"
#include "net/signals.h"
#include "net/tls.h"
#include "server/file_watch.h"
#include "server/files.h"
#include "server/kubeconfig.h"
#include "server/layout.h"
#include "server/pki.h"
#include "server/shard_files.h"
#include "store/lmdb/lmdb_store.h"

namespace kintsugi::cmd {
namespace {

constexpr std::uint32_t kMostLoops = 64;
constexpr Duration kFilePoll = seconds(60);
constexpr apiserver::ConcurrencyLimits kRequests;

struct Options {
  std::string join, name, bind = "127.0.0.1", audit_log, claims_escalation = "refuse";
  std::string client_crl, request_header_crl, backend_crl, crl_stale = "refuse";
  bool crl_required = false;
  std::uint16_t port = 0;
  std::uint32_t loops = 1;
  std::uint32_t reads = kRequests.reads, writes = kRequests.writes,
                watch_starts = kRequests.watch_starts;
  std::uint32_t memory_budget = 0;  // [MiB]
  LimitOptions limits;
  std::vector<std::string> labels;
  TenantOptions tenants;
};

FlagTable flag_table(Options& options) {
  FlagTable table{
      {"Shard",
       {{"join", "DIR", "", "folder of the installation to join, made by `kintsugi up`",
         into(options.join)},
        {"name", "NAME", "", "name of the shard; `root` is the shard that the others join",
         into(options.name)},
        {"labels", "KEY=VALUE,…", "",
         "labels of the Shard object, where it does not have them yet (region=…,cloud=…)",
         into(options.labels)}}},
      {"Addresses",
       {{"bind", "ADDRESS", "127.0.0.1", "address to listen on", into(options.bind)},
        {"port", "PORT", "0", "port to listen on; 0: that of the last run, or any",
         into(options.port)}}},
      {"Certificates",
       {{"client-crl-file", "FILE", "", "revocation lists of the installation's client CA",
         into(options.client_crl)},
        {"requestheader-client-crl-file", "FILE", "", "the same of its request-header CA",
         into(options.request_header_crl)},
        {"backend-crl-file", "FILE", "", "the same of the CA of other shards",
         into(options.backend_crl)},
        {"crl-stale", "refuse|warn", "refuse",
         "what an outdated revocation list means: refuse, or warn and count on",
         into(options.crl_stale)},
        {"crl-required", "", "", "certificates count only if their CA has a list",
         into(options.crl_required)}}},
      {"Limits",
       {{"loops", "N", "1", "threads that serve requests", into(options.loops)},
        {"max-reads", "N", std::to_string(kRequests.reads),
         "reads that a thread runs at once, more get 429; 0: no limit", into(options.reads)},
        {"max-writes", "N", std::to_string(kRequests.writes), "the same for writes",
         into(options.writes)},
        {"max-watch-starts", "N", std::to_string(kRequests.watch_starts),
         "the same for watches that begin", into(options.watch_starts)},
        {"memory-budget", "MIB", "0",
         "what clients may make the shard keep; 0: 75 % of what the process may use",
         into(options.memory_budget)}}},
      {"Rights and log",
       {{"binding-claims-escalation", "refuse|allow", "refuse",
         "whether one may accept permission claims for verbs that one does not hold oneself",
         into(options.claims_escalation)},
        {"audit-log", "FILE", "",
         "appends a line of JSON for every request; SIGHUP opens the file again",
         into(options.audit_log)}}},
      tenant_flags(options.tenants, "")};
  for (FlagGroup& group : table) {
    if (group.title == "Limits") {
      add_limit_flags(options.limits, group.flags);
    }
  }
  return table;
}

Expected<std::map<std::string, std::string>> parse_labels(const std::vector<std::string>& texts) {
  std::map<std::string, std::string> labels;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    const std::string key = text.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
    if (equals == std::string::npos || !krm::check_qualified_name(key).empty() ||
        !krm::check_label_value(value).empty()) {
      return fail(Errc::kConfig, "--labels: \"" + text + "\" is not KEY=VALUE of a valid label");
    }
    labels[key] = value;
  }
  return labels;
}

/// The running shard: what happens between a successful start and the last connection.
class Running {
 public:
  Running(Options options, server::Layout layout)
      : options_(std::move(options)),
        layout_(std::move(layout)),
        pki_(layout_.pki()),
        loop_("shard"),
        signals_(loop_, {SIGINT, SIGTERM, SIGHUP}, [this](int number) { on_signal(number); }) {}

  ~Running() {
    if (loader_.joinable()) {
      loader_.join();
    }
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  Expected<void> start(std::map<std::string, std::string> labels) {
    const std::string& name = options_.name;
    if (auto made = server::make_directories(layout_.shard(name)); !made) {
      return made;
    }
    store::LmdbParams store;
    store.directory = layout_.shard_data(name);
    auto opened = store::LmdbStore::open(std::move(store));
    if (!opened) {
      return fail(std::move(opened.error()));
    }
    store_ = std::move(*opened);
    controlplane::ShardServerParams params;
    params.name = name;
    params.labels = std::move(labels);
    params.address = options_.bind;
    params.loops = options_.loops;
    params.concurrency = {options_.reads, options_.writes, options_.watch_starts};
    auto limits = options_.limits.make(options_.loops);
    if (!limits) {
      return fail(std::move(limits.error()));
    }
    params.limits = std::move(*limits);
    params.claims_escalation = options_.claims_escalation == "allow";
    params.memory = std::make_shared<MemoryBudget>(options_.memory_budget != 0
                                                       ? std::size_t{options_.memory_budget} << 20
                                                       : memory_limit() / 4 * 3);
    params.external_url = server::proxy_url(layout_);
    auto outgoing = net::make_outgoing_policy(*options_.tenants.rules());
    if (!outgoing) {
      return fail(std::move(outgoing.error()));
    }
    params.outgoing = std::make_shared<const net::OutgoingPolicy>(std::move(*outgoing));
    params.hides_existence = options_.tenants.hides_existence();
    if (auto ready = load_credentials(params); !ready) {
      return ready;
    }
    if (!options_.audit_log.empty()) {
      auto log = auth::AuditLog::open({options_.audit_log});
      if (!log) {
        return fail(std::move(log.error()));
      }
      audit_ = std::move(*log);
      params.audit = [this](std::string line) { audit_->add(std::move(line)); };
    }
    params.root = [this] { return root_address(); };
    return serve(std::move(params));
  }

  int run() {
    loop_.run();
    server_.reset();
    return 0;
  }

 private:
  Expected<void> load_credentials(controlplane::ShardServerParams& params) {
    auto issued =
        pki_.ensure_server(server_name(), {options_.bind, "127.0.0.1", "::1", "localhost"});
    if (!issued) {
      return issued;
    }
    auto tls = server_tls();
    if (!tls) {
      return fail(std::move(tls.error()));
    }
    params.server_tls = std::move(*tls);
    auto outgoing = outgoing_tls();
    if (!outgoing) {
      return fail(std::move(outgoing.error()));
    }
    client_tls_ = *outgoing;
    params.client_tls = std::move(*outgoing);
    auto bundles = ca_bundles();
    if (!bundles) {
      return fail(std::move(bundles.error()));
    }
    auto verifier = auth::ReloadableCertificateVerifier::make(*bundles);
    if (!verifier) {
      return fail(std::move(verifier.error()));
    }
    verifier_ = *verifier;
    params.verifier = std::move(*verifier);
    auto keys = server::ensure_account_keys(layout_);
    if (!keys) {
      return fail(std::move(keys.error()));
    }
    params.account_keys = std::move(*keys);
    auto ca = server::read_file(pki_.certificate("serving-ca"));
    if (!ca) {
      return fail(std::move(ca.error()));
    }
    params.root_ca_pem = std::move(*ca);
    params.certificates = certificates_;
    certificates_->set(certificates_now());
    return {};
  }

  /// On the port that was asked for; else that of the last run, else another one.
  Expected<void> serve(controlplane::ShardServerParams params) {
    params.port = options_.port != 0 ? options_.port : server::last_port(layout_, options_.name);
    auto server = controlplane::ShardServer::start(loop_, *store_, params);
    if (!server && options_.port == 0 && params.port != 0) {
      params.port = 0;
      server = controlplane::ShardServer::start(loop_, *store_, std::move(params));
    }
    if (!server) {
      return fail(std::move(server.error()));
    }
    server_ = std::move(*server);
    watch_ = std::make_unique<server::FileWatch>(
        loop_, kFilePoll, [this](const std::vector<std::string>&) { reload(); });
    std::vector<std::string> files = {
        pki_.certificate(server_name()), pki_.key(server_name()), pki_.certificate("client-ca"),
        pki_.certificate("requestheader-ca"), pki_.key("service-account")};
    for (const std::string& crl : {options_.client_crl, options_.request_header_crl}) {
      if (!crl.empty()) {
        files.push_back(crl);
      }
    }
    watch_->set_files(files);
    log_info("shard listens", {{"shard", options_.name}, {"url", server_->base_url()}});
    return server::write_shard_files(layout_, options_.name, server_->base_url(), server_->port());
  }

  Expected<net::UpstreamParams> root_address() const {
    const std::string path = layout_.shard_kubeconfig("root");
    if (!server::file_exists(path)) {
      return fail(Errc::kConfig, path + " is not there yet");
    }
    auto access = server::read_kubeconfig(path, "base");
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
    params.max_connections = 4;
    return params;
  }

  [[nodiscard]] std::string server_name() const { return "shard-" + options_.name; }

  [[nodiscard]] Expected<std::shared_ptr<net::TlsContext>> server_tls() const {
    net::TlsParams tls;
    tls.certificate_file = pki_.certificate(server_name());
    tls.key_file = pki_.key(server_name());
    tls.client_ca_files = {pki_.certificate("client-ca"), pki_.certificate("requestheader-ca")};
    tls.request_client_certificate = true;
    return net::TlsContext::server(tls);
  }

  [[nodiscard]] net::CrlRules crl_rules() const {
    return {options_.crl_stale == "refuse", options_.crl_required};
  }

  [[nodiscard]] Expected<auth::CaBundles> ca_bundles() const {
    return auth::load_ca_bundles(pki_.certificate("client-ca"),
                                 pki_.certificate("requestheader-ca"),
                                 {options_.client_crl, options_.request_header_crl, crl_rules()});
  }

  /// As shard administrator, to other shards.
  [[nodiscard]] Expected<std::shared_ptr<net::TlsContext>> outgoing_tls() const {
    net::TlsParams client;
    client.ca_file = pki_.certificate("serving-ca");
    client.certificate_file = pki_.certificate("shard-admin");
    client.key_file = pki_.key("shard-admin");
    auto authorities = server::read_file(client.ca_file);
    if (!authorities) {
      return fail(std::move(authorities.error()));
    }
    auto revocations = auth::load_revocations(options_.backend_crl, *authorities, crl_rules());
    if (!revocations) {
      return fail(std::move(revocations.error()));
    }
    client.revocations = std::move(*revocations);
    return net::TlsContext::client(client);
  }

  /// By the names of their files.
  [[nodiscard]] std::vector<CertificateEnd> certificates_now() const {
    std::vector<CertificateEnd> out;
    for (const auto& [use, name] : {std::pair<const char*, std::string>("serving", server_name()),
                                    {"client", "shard-admin"},
                                    {"ca", "serving-ca"},
                                    {"ca", "client-ca"},
                                    {"ca", "requestheader-ca"}}) {
      const auto pem = server::read_file(pki_.certificate(name));
      if (const auto end = auth::first_end_of(pem ? *pem : "")) {
        out.push_back({use, name, *end});
      }
    }
    return out;
  }

  void on_signal(int number) {
    if (number == SIGHUP) {
      if (audit_ != nullptr) {
        audit_->reopen();
      }
      (void)watch_->take_changed();
      reload();
      return;
    }
    if (draining_) {
      std::_Exit(1);
    }
    draining_ = true;
    log_info("shard stops", {{"shard", options_.name}});
    server_->drain([this] { loop_.stop(); });
  }

  struct Reloaded {
    std::shared_ptr<net::TlsContext> tls;
    auth::JwtKeys keys;
  };

  /// On a thread of its own: lists of a million serials take seconds. Taken only when everything is
  /// fine.
  [[nodiscard]] Expected<Reloaded> load_again() {
    auto tls = server_tls();
    auto bundles = ca_bundles();
    auto keys = server::ensure_account_keys(layout_);
    if (!tls || !bundles || !keys) {
      return fail(std::move(!tls ? tls.error() : !bundles ? bundles.error() : keys.error()));
    }
    if (auto taken = verifier_->reload(*bundles); !taken) {
      return fail(std::move(taken.error()));
    }
    return Reloaded{std::move(*tls), std::move(*keys)};
  }

  /// Certificates, CAs, revocation lists and token keys from their files; the old ones stay where
  /// that fails.
  void reload() {
    if (std::exchange(loading_, true)) {
      load_once_more_ = true;
      return;
    }
    if (loader_.joinable()) {
      loader_.join();  // it has said its last
    }
    loader_ = std::thread([this] {
      auto loaded = std::make_shared<Expected<Reloaded>>(load_again());
      loop_.post([this, loaded] { take(*loaded); });
    });
  }

  void take(const Expected<Reloaded>& loaded) {
    loading_ = false;
    if (loaded) {
      server_->set_tls(loaded->tls);
      server_->set_account_keys(loaded->keys);
      certificates_->set(certificates_now());
      log_info("certificates and keys reloaded", {{"shard", options_.name}});
    } else {
      log_error("reload failed", {{"error", loaded.error().to_string()}});
    }
    if (std::exchange(load_once_more_, false)) {
      reload();
    }
  }

  Options options_;
  server::Layout layout_;
  server::Pki pki_;
  net::Loop loop_;
  net::Signals signals_;
  std::unique_ptr<auth::AuditLog> audit_;
  std::unique_ptr<store::LmdbStore> store_;
  std::shared_ptr<net::TlsContext> client_tls_;
  std::shared_ptr<auth::ReloadableCertificateVerifier> verifier_;
  const std::shared_ptr<CertificateEnds> certificates_ = std::make_shared<CertificateEnds>();
  std::unique_ptr<controlplane::ShardServer> server_;
  std::unique_ptr<server::FileWatch> watch_;
  bool draining_ = false;
  bool loading_ = false, load_once_more_ = false;
  std::thread loader_;
};

Expected<void> check_options(const Options& options) {
  if (options.join.empty()) {
    return fail(Errc::kConfig, "--join: which installation? Give its folder");
  }
  if (const auto wrong = krm::check_dns1123_label(options.name); !wrong.empty()) {
    return fail(Errc::kConfig, "--name: \"" + options.name + "\" is not a name: " + wrong.front());
  }
  if (options.crl_required && options.client_crl.empty() && options.request_header_crl.empty() &&
      options.backend_crl.empty()) {
    return fail(Errc::kConfig, "--crl-required: needs a file of revocation lists");
  }
  if (options.crl_stale != "refuse" && options.crl_stale != "warn") {
    return fail(Errc::kConfig,
                "--crl-stale: \"" + options.crl_stale + "\" is neither refuse nor warn");
  }
  if (options.loops == 0 || options.loops > kMostLoops) {
    return fail(Errc::kConfig, "--loops: must be 1 to " + std::to_string(kMostLoops));
  }
  if (options.claims_escalation != "refuse" && options.claims_escalation != "allow") {
    return fail(Errc::kConfig, "--binding-claims-escalation: must be refuse or allow, not \"" +
                                   options.claims_escalation + "\"");
  }
  return check_tenant_options(options.tenants);
}

}  // namespace

CommandAbout shard_about() {
  Options options;
  return {
      "kintsugi shard --join DIR --name NAME [options]",
      "Runs an embedded shard in the foreground: a Kubernetes-style API server for logical "
      "clusters.\nIt joins the installation in DIR (see `kintsugi up`), keeps its data in "
      "DIR/shards/NAME and\nregisters itself with the root shard. SIGTERM ends it in order. Its "
      "certificate and CAs are read again when\ntheir files change, and on SIGHUP.",
      {},
      without_setters(flag_table(options))};
}

int run_shard(const std::vector<std::string>& arguments) {
  Options options;
  auto parsed = parse_flags(flag_table(options), arguments);
  if (!parsed) {
    return wrong_usage("shard", std::string(parsed.error().message()));
  }
  if (parsed->help) {
    std::fputs(help_text(shard_about()).c_str(), stdout);
    return 0;
  }
  if (!parsed->positional.empty()) {
    return complain("shard", "unexpected argument \"" + parsed->positional.front() + "\"", 2);
  }
  if (auto valid = check_options(options); !valid) {
    return complain("shard", std::string(valid.error().message()), 2);
  }
  auto labels = parse_labels(options.labels);
  if (!labels) {
    return complain("shard", std::string(labels.error().message()), 2);
  }
  const server::Layout layout{server::absolute_path(options.join)};
  if (auto joined = server::check_join_folder(layout); !joined) {
    return complain("shard", std::string(joined.error().message()));
  }
  Running shard(std::move(options), layout);
  if (auto started = shard.start(std::move(*labels)); !started) {
    return complain("shard", std::string(started.error().message()));
  }
  return shard.run();
}

}  // namespace kintsugi::cmd
