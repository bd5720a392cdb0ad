#include "server/proxy_control.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>

#include "aggregation/position/sequence_journal.h"
#include "base/cpu_limit.h"
#include "base/log.h"
#include "base/log_output.h"
#include "base/random.h"
#include "base/strings.h"
#include "krm/status.h"
#include "net/congestion.h"
#include "net/inherited_sockets.h"
#include "net/service_notices.h"
#include "net/watchdog.h"
#include "proxy/admin/why_not_ready.h"
#include "server/files.h"
#include "server/internal/certificate_files.h"
#include "server/program.h"

namespace kintsugi::server {
namespace {

constexpr Duration kMemoryLook = milliseconds(200);
constexpr Duration kStatusLook = seconds(5);
constexpr Duration kAcceptLook = milliseconds(10);
constexpr int kMostAcceptLooks = 1'000;

/// As Kubernetes writes CPUs: "1500m".
std::string quota_text(double cpus) {
  return std::to_string(static_cast<std::int64_t>(cpus * 1'000)) + "m";
}

/// The control loop's API server has no listener: nothing asks these two.
class NobodyAuthenticates final : public auth::Authenticator {
 public:
  void authenticate(const http::RequestHead& /*head*/, const auth::BearerPtr& /*token*/,
                    const http::PeerInfo& /*peer*/, std::string_view /*cluster*/,
                    Done done) override {
    done(fail(krm::unauthorized()));
  }
};
class NobodyAuthorizes final : public auth::Authorizer {
 public:
  void authorize(const auth::Attributes& /*attributes*/, Done done) override {
    done(auth::Decision{});
  }
};

std::vector<Secret> secrets_of(const aggregation::TokenKeys& keys) {
  std::vector<Secret> secrets;
  for (const aggregation::TokenKey& key : keys) {
    secrets.push_back(key.secret);
  }
  return secrets;
}

}  // namespace

Expected<std::unique_ptr<ProxyControl>> ProxyControl::make(LoadProxyConfig reload,
                                                           LoadedProxyConfig loaded,
                                                           const std::vector<int>& sockets) {
  std::unique_ptr<ProxyControl> control(new ProxyControl(std::move(reload), std::move(loaded)));
  if (auto result = control->open(sockets); !result) {
    return fail(std::move(result.error()));
  }
  return control;
}

ProxyControl::ProxyControl(LoadProxyConfig reload, LoadedProxyConfig loaded)
    : reload_(std::move(reload)),
      config_(std::move(loaded.config)),
      config_path_(std::move(loaded.path)),
      config_text_(std::move(loaded.text)),
      loop_("control"),
      signals_(loop_, {SIGINT, SIGTERM, SIGHUP}, [this](int number) { on_signal(number); }),
      fleet_timer_(loop_),
      feed_timer_(loop_),
      stop_timer_(loop_),
      hold_timer_(loop_),
      accept_timer_(loop_),
      memory_timer_(loop_),
      status_timer_(loop_) {}

ProxyControl::~ProxyControl() {
  opening_.reset();
  for (const auto& one : loops_) {
    one->stop();
  }
  for (const auto& one : loops_) {
    one->join();
  }
  plugins_.reset();
  watch_.reset();
  admin_listeners_.clear();
  admin_.reset();
  give_up_duty();
  replicas_.reset();
  if (notes_ != nullptr) {
    feed_->remove_listener(*notes_);
  }
  notes_.reset();
  backend_check_.reset();
  judge_.reset();
  own_shards_.reset();
  fleet_.reset();
  world_.reset();
  issuers_.reset();
  feed_.reset();
  slots_.reset();
  loops_.clear();
  objects_.reset();
  objects_server_.reset();
}

Expected<void> ProxyControl::open(const std::vector<int>& sockets) {
  if (auto used = net::use_congestion(config_.congestion); !used) {
    return fail(std::move(used.error()).at("net.congestion"));
  }
  if (auto opened = open_store(); !opened) {
    return opened;
  }
  watch_ = std::make_unique<FileWatch>(
      loop_, config_.reload.poll,
      [this](const std::vector<std::string>& changed) { reload(changed); });
  follow_files();  // before they are read: what changes meanwhile is read again
  auto files = load_proxy_files(config_);
  if (!files) {
    return fail(std::move(files.error()));
  }
  if (has_kubeconfigs()) {  // what is wrong with them is told now, once (FP-156)
    if (auto loaded = load_topology(); !loaded) {
      return loaded;
    }
  }
  auto verifier = auth::ReloadableCertificateVerifier::make(files->client_ca);
  if (!verifier) {
    return fail(std::move(verifier.error()));
  }
  verifier_ = std::move(*verifier);
  net::use_ticket_keys(*files->serving, ticket_keys_);
  const std::uint32_t count = config_.loops != 0 ? config_.loops : cpu_limit().cores();
  backend_tls_ = files->backend;
  routes_ = files->routes;
  certificates_ = certificate_ends(config_, routes_.get());
  auto outgoing = net::make_outgoing_policy(config_.outgoing);
  if (!outgoing) {
    return fail(std::move(outgoing.error()).at("outgoing"));
  }
  shared_ = std::make_unique<ProxyShared>(ProxyShared{
      .config = config_,
      .store = *store_,
      .publisher = publisher_,
      .serving_tls = std::move(files->serving),
      .backend_tls = std::move(files->backend),
      .tokens = tokens_of(files->shards),
      .routes = std::move(files->routes),
      .token_files = std::move(files->tokens),
      .audit_policy = files->audit_policy,
      .verifier = verifier_,
      .group = count > 1 ? std::make_shared<net::ListenerGroup>() : nullptr,
      .outgoing = std::make_shared<const net::OutgoingPolicy>(std::move(*outgoing)),
      .ready =
          [this] {
            return ready_.load(std::memory_order_relaxed) && trust_->is_open() && has_store_;
          },
      .instance = hex_encode(random_bytes(4)),
      .loop_count = count,
      .trust = trust_});
  if (sockets.size() > count) {
    return fail(Errc::kConfig, "LISTEN_FDS: " + std::to_string(sockets.size()) +
                                   " sockets, and loops: " + std::to_string(count));
  }
  shared_->limits->distribute_by_effective_user(config_.distributed_users);

  tell_loops();
  if (auto result = open_access_log(); !result) {
    return result;
  }
  if (auto result = open_tracing(); !result) {
    return result;
  }
  if (auto result = open_audit_log(*files->audit_policy); !result) {
    return result;
  }
  no_authenticator_ = std::make_unique<NobodyAuthenticates>();
  no_authorizer_ = std::make_unique<NobodyAuthorizes>();
  registry_ = proxy_registry(nullptr, config_.topology.source == "objects");
  objects_server_ = apiserver::ApiServer::make({.loop = loop_,
                                                .store = *store_,
                                                .registry = *registry_,
                                                .authenticator = *no_authenticator_,
                                                .authorizer = *no_authorizer_,
                                                .resolve = {},
                                                .checks = {}});
  objects_ = std::make_unique<ApiObjects>(*objects_server_);

  for (const int socket : sockets) {
    log_info("listens at a socket that was open", {{"address", net::bound_address(socket)}});
  }
  std::uint16_t port = config_.listener.port;
  for (std::uint32_t i = 0; i < count; ++i) {
    loops_.push_back(std::make_unique<ProxyLoop>(static_cast<int>(i), *shared_));
    auto bound = loops_.back()->listen(port, sockets.empty() ? -1 : sockets[i % sockets.size()]);
    if (!bound) {
      return fail(std::move(bound.error()));
    }
    port_ = port = *bound;
  }
  static_shards_ = std::move(files->shards);
  for (const auto& one : loops_) {
    shared_->loops.push_back(one.get());
  }
  shared_->rolled_back = [this](const std::string& uid) {
    loop_.post([this, uid] { slots_->mark_rolled_back(uid); });
  };
  watch_memory();
  return late_ != nullptr ? Expected<void>() : begin_records(*files);
}

Expected<void> ProxyControl::begin_records(ProxyFiles& files) {
  slots_ = std::make_unique<aggregation::SlotKeeper>(
      loop_, *store_, publisher_,
      [this](const aggregation::SlotHistoryPtr& slots, const aggregation::TokenKeys& keys) {
        ticket_keys_->set(secrets_of(keys));
        for (const auto& one : loops_) {
          one->set_slots(slots, keys);
        }
      },
      config_.shared_file);
  slots_->seal_with(std::move(files.seal_keys));
  slots_->set_keys(std::move(files.token_keys));
  slots_->keep_generations(config_.merge.generations_kept);
  slots_->fix(config_.topology.generation, static_uids());
  moves_ = std::make_unique<aggregation::MoveKeeper>(loop_, *store_, shared_->moves);
  if (auto result = moves_->start(); !result) {
    return result;
  }
  if (auto result = begin_sequences(); !result) {
    return result;
  }
  if (auto started = slots_->start(); !started) {
    return started;
  }
  if (!store_->is_shared()) {  // else nobody asks, and loops may run already
    shared_->first_start = slots_->is_new();
  } else {
    begin_replicas();
  }
  return tells_partitions() ? read_note_source() : Expected<void>();
}

/// Loops give up what the step says, again and again until it is over (SE-091).
void ProxyControl::watch_memory() {
  const serving::ShedStep before = shared_->pressure->step();
  const serving::ShedStep now = shared_->pressure->look(loop_.now());
  if (now != before) {
    log_warn("memory", {{"step", serving::step_name(now)},
                        {"used", static_cast<std::int64_t>(shared_->pressure->used())},
                        {"budget", static_cast<std::int64_t>(shared_->pressure->budget())}});
  }
  const bool is_short = now >= serving::ShedStep::kLists;
  shared_->memory->tighten(is_short);
  shared_->list_gate->tighten(is_short);
  if (now >= serving::ShedStep::kWatches) {
    for (const auto& one : loops_) {
      one->shed();
    }
  }
  memory_timer_.start(kMemoryLook, [this] { watch_memory(); });
}

Expected<void> ProxyControl::begin_sequences() {
  const auto epoch = slots_->take_epoch();
  if (!epoch) {
    return fail(epoch.error().clone());
  }
  // Stores of replicas may have equal epochs.
  const std::uint64_t counter = random_number() % (aggregation::kFirstSequence / 2);
  shared_->sequences->begin(*epoch, counter);
  if (config_.sequence_journal.empty()) {
    return {};
  }
  auto journal = aggregation::SequenceJournal::open(
      config_.sequence_journal, config_.sequence_journal_bytes, *shared_->sequences);
  if (!journal) {
    return fail(std::move(journal.error()).at("aggregation.cursor.journal"));
  }
  shared_->sequences->keep_in(std::move(*journal));
  return {};
}

/// Who waits at a socket that was open before this process gets an answer rather than that there is
/// none yet; after 10 s that.
void ProxyControl::accept_when_ready(int looks) {
  if (looks > 0 && !shared_->ready()) {
    accept_timer_.start(kAcceptLook, [this, looks] { accept_when_ready(looks - 1); });
    return;
  }
  for (const auto& one : loops_) {
    one->accept();
  }
}

/// To the service manager, again and again; what a reload hides comes back.
void ProxyControl::tell_why_not_ready() {
  if (!stopping_ && !(ready_.load(std::memory_order_relaxed) && has_store_)) {
    net::service_notices().status("waits: " + why_not_ready());
  }
  if (!stopping_ && !has_store_) {
    net::service_notices().extend(kStatusLook * 3);
  }
  status_timer_.start(kStatusLook, [this] { tell_why_not_ready(); });
}

std::string ProxyControl::why_not_ready() const {
  std::string why =
      feed_ != nullptr ? proxy::why_not_ready(*feed_) : "the kubeconfigs are not there yet";
  if (!has_store_) {
    why += why.empty() ? "etcd has not answered yet" : "; etcd has not answered yet";
  }
  return why;
}

void ProxyControl::on_signal(int number) {
  if (number == SIGHUP) {
    reopen_log_file();
    for (auth::AuditLog* log : {audit_.get(), access_log_.get()}) {
      if (log != nullptr) {
        log->reopen();
      }
    }
    if (ready_.load(std::memory_order_relaxed)) {
      net::service_notices().reloading(
          std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch()));
    }
    reload(watch_->take_changed());
    return;
  }
  if (stopping_) {
    log_warn("second signal: leaving at once");
    ::_exit(1);
  }
  drain();
}

void ProxyControl::drain() {
  stopping_ = true;
  give_up_duty();  // another proxy goes on while connections end here
  replicas_.reset();
  net::service_notices().stopping();
  log_info("draining", {{"delay_ms", config_.shutdown.delay / milliseconds(1)},
                        {"grace_ms", config_.shutdown.grace / milliseconds(1)}});
  // Watches end early enough for what they wake to fit into the grace as well.
  const Duration spread = std::min(config_.shutdown.spread, config_.shutdown.grace / 2);
  draining_ = loops_.size();
  for (const auto& one : loops_) {
    one->drain(config_.shutdown.delay, spread, [this] {
      loop_.post([this] {
        if (--draining_ == 0) {
          loop_.stop();
        }
      });
    });
  }
  stop_timer_.start(config_.shutdown.delay + config_.shutdown.grace, [this] {
    log_warn("some streams did not end in time");
    loop_.stop();
  });
}

int ProxyControl::run() {
  for (const auto& one : loops_) {
    one->start();
  }
  const CpuLimit cpus = cpu_limit();
  log_info("listening",
           {{"address", config_.listener.address},
            {"port", static_cast<int>(port_)},
            {"loops", static_cast<int>(loops_.size())},
            {"loops_by", config_.loops != 0 ? "the configuration" : cpus.bound()},
            {"cpus", static_cast<int>(cpus.allowed)},
            {"cpu_quota", cpus.quota == 0 ? std::string("none") : quota_text(cpus.quota)}});
  tell_descriptor_limit();
  loop_.post([this] { try_feed(); });
  if (late_ != nullptr) {
    opening_->then([this](StoreOpening::Result opened) {
      auto handed = std::make_shared<StoreOpening::Result>(std::move(opened));
      loop_.post([this, handed] { on_late_store(std::move(*handed)); });
    });
  }
  accept_when_ready(kMostAcceptLooks);
  status_timer_.start(kStatusLook, [this] { tell_why_not_ready(); });
  if (name_exec_plugins(kubeconfigs_of(config_))) {
    plugins_ = std::make_unique<ExecRenewal>(
        loop_, [this] { return is_unknown_somewhere(); }, [this] { reload_now({}); });
  }
  const net::Watchdog watchdog(net::watchdog_of_service());
  loop_.run();
  return exit_status_;
}

}  // namespace kintsugi::server
