#include "controlplane/shard_server.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <utility>

#include "apiserver/continue_keys.h"
#include "base/host_port.h"
#include "base/log.h"
#include "base/time.h"
#include "controlplane/controllers/shard_controllers.h"
#include "controlplane/internal/abuse_totals.h"
#include "controlplane/internal/names.h"
#include "controlplane/internal/shard_loop.h"
#include "controlplane/internal/token_keys.h"
#include "controlplane/quotas/workspace_quotas.h"
#include "serving/memory_pressure.h"

namespace kintsugi::controlplane {
namespace {

constexpr Duration kDrainLimit = seconds(10);
constexpr Duration kMemoryLook = milliseconds(200);
constexpr Duration kReadyPause = milliseconds(5);
constexpr Duration kMostCold = seconds(60);  // Replicator::Params::most_cold
constexpr const char* kControllers = "controllers";

}  // namespace

ShardServer::ShardServer(net::Loop& loop, store::Store& store, ShardServerParams params)
    : loop_(loop),
      store_(store),
      params_(std::move(params)),
      ready_timer_(loop),
      memory_timer_(loop),
      cold_timer_(loop) {
  if (params_.abuse == nullptr) {
    params_.abuse = std::make_shared<AbuseTotals>();
  }
}

Expected<std::unique_ptr<ShardServer>> ShardServer::start(net::Loop& loop, store::Store& store,
                                                          ShardServerParams params) {
  std::unique_ptr<ShardServer> server(new ShardServer(loop, store, std::move(params)));
  if (Expected<void> opened = server->open(); !opened) {
    return fail(std::move(opened.error()));
  }
  return server;
}

ShardServer::~ShardServer() {
  alive_.end();
  key_changes_.reset();
  controllers_.reset();
  duty_.reset();
  quotas_.reset();
  for (const std::unique_ptr<Extra>& extra : extra_) {
    extra->loop->post([one = extra.get()] {
      one->parts.reset();
      one->loop->stop();
    });
  }
  for (const std::unique_ptr<Extra>& extra : extra_) {
    extra->thread.join();
  }
}

std::string ShardServer::base_url() const {
  if (!params_.advertised.empty()) {
    return params_.advertised;
  }
  std::string host = params_.address;
  if (host == "0.0.0.0") {
    host = "127.0.0.1";
  } else if (host == "::") {
    host = "::1";
  }
  return "https://" + host_port(host, port_);
}

std::string ShardServer::not_ready() {
  if (!is_set_up() || unready_ != 0) {
    return "the root logical cluster is being set up";
  }
  if (draining_) {
    return "process is shutting down";
  }
  const Expected<void> writes = store_.health();
  return writes ? std::string() : std::string(writes.error().message());
}

void ShardServer::set_replicas(std::vector<std::string> urls) {
  replicas_ = std::move(urls);
  if (controllers_ != nullptr) {
    controllers_->set_replicas(replicas_);
  }
}

Expected<void> ShardServer::open() {
  const bool shared_port = params_.loops > 1;
  replication_ = std::make_shared<ReplicationReport>();
  const auto ready = [this]() -> Expected<void> {
    if (!is_set_up() || unready_ != 0) {
      return fail(Errc::kUnavailable, "the root logical cluster is being set up");
    }
    return {};
  };
  if (params_.token_keys.empty()) {
    auto keys = read_token_keys(store_, unix_seconds());
    if (!keys) {
      return fail(std::move(keys.error()));
    }
    params_.token_keys = std::move(*keys);
  }
  first_ = std::make_unique<ShardLoop>(loop_, store_, params_, ready, replication_);
  if (Expected<void> listening = first_->listen(params_.port, shared_port); !listening) {
    return listening;
  }
  port_ = first_->port();
  for (std::size_t i = 1; i < params_.loops; ++i) {
    if (Expected<void> opened = open_extra(); !opened) {
      return opened;
    }
  }
  if (store::Books* books = store_.books()) {
    quotas_ = std::make_unique<WorkspaceQuotas>(*books, params_.quotas);
    quotas_->start(first_->server());
  }
  unready_ = extra_.size();
  if (store_.is_shared()) {
    follow_token_keys();
    cold_timer_.start(kMostCold, [this] {
      if (controllers_ == nullptr) {
        replication_->set_complete(true);  // whoever has the duty has read it by now
      }
    });
    duty_ =
        store_.compete(kControllers, [&loop = loop_, take = alive_.guard([this](const auto& held) {
                         take_duty(held);
                       })](const std::optional<store::Fence>& held) {
          loop.post([take = take, held]() mutable { take(held); });
        });
  } else {
    take_duty(store::Fence{kControllers, 0});
  }
  await_ready();
  if (params_.pressure != nullptr) {
    watch_memory();
  }
  return {};
}

/// Those of before are gone before the next begin: whoever takes a duty twice writes under another
/// fence.
void ShardServer::take_duty(const std::optional<store::Fence>& held) {
  controllers_.reset();
  if (held) {
    controllers_ = std::make_unique<ShardControllers>(*first_, store_, *held, params_, base_url(),
                                                      replication_);
    controllers_->set_replicas(replicas_);
    controllers_->start();
  }
  if (store_.is_shared()) {
    log_info(held ? "shard leads" : "shard does not lead any more", {{"shard", params_.name}});
    if (params_.on_duty) {
      params_.on_duty(held.has_value());
    }
  }
}

/// Where another process has the duty: what it begins with is there.
bool ShardServer::is_set_up() {
  if (controllers_ != nullptr) {
    return controllers_->ready();
  }
  return params_.name == kRootCluster ? first_->index().find(kRootCluster) != nullptr
                                      : first_->root().shards().contains(params_.name);
}

/// A process that starts may make them anew.
void ShardServer::follow_token_keys() {
  auto subscription = store_.subscribe([&loop = loop_, renew = alive_.guard([this] {
    renew_token_keys();
  })](const store::EventBatch& batch) {
    const bool changed = std::any_of(batch->begin(), batch->end(),
                                     [](const auto& event) { return event.key == kTokenKeysRow; });
    if (changed) {
      loop.post(renew);
    }
  });
  key_changes_ = std::move(subscription.token);
}

void ShardServer::renew_token_keys() {
  const auto keys = known_token_keys(store_);
  if (!keys) {
    log_error("keys of continue tokens cannot be read", {{"error", keys.error().to_string()}});
    return;
  }
  apiserver::seal_continue_tokens(first_->server(), *keys);
  for (const std::unique_ptr<Extra>& extra : extra_) {
    extra->loop->post([one = extra.get(), keys = *keys] {
      apiserver::seal_continue_tokens(one->parts->server(), keys);
    });
  }
}

void ShardServer::watch_memory() {
  using serving::ShedStep;
  serving::MemoryPressure& pressure = *params_.pressure;
  const ShedStep before = pressure.step();
  const ShedStep now = pressure.look(loop_.now());
  if (now != before) {
    log_warn("memory", {{"shard", params_.name},
                        {"step", serving::step_name(now)},
                        {"used", static_cast<std::int64_t>(pressure.used())},
                        {"budget", static_cast<std::int64_t>(pressure.budget())}});
  }
  if (params_.memory != nullptr) {
    params_.memory->tighten(now >= ShedStep::kLists);
  }
  if (now >= ShedStep::kWatches) {
    first_->shed();
    for (const std::unique_ptr<Extra>& extra : extra_) {
      extra->loop->post([one = extra.get()] { one->parts->shed(); });
    }
  }
  memory_timer_.start(kMemoryLook, [this] { watch_memory(); });
}

void ShardServer::await_ready() {
  if (!is_set_up()) {
    ready_timer_.start(kReadyPause, [this] { await_ready(); });
    return;
  }
  for (const std::unique_ptr<Extra>& extra : extra_) {
    extra->loop->post([this, one = extra.get()] {
      one->ready = true;
      --unready_;
    });
  }
}

Expected<void> ShardServer::open_extra() {
  auto extra = std::make_unique<Extra>();
  Extra* one = extra.get();
  one->loop = std::make_unique<net::Loop>("shard-" + std::to_string(extra_.size() + 1));
  auto opened = std::make_shared<std::promise<Expected<void>>>();
  std::future<Expected<void>> result = opened->get_future();
  one->loop->post([this, one, opened] {
    one->parts = std::make_unique<ShardLoop>(
        *one->loop, store_, params_,
        [one]() -> Expected<void> {
          if (!one->ready) {
            return fail(Errc::kUnavailable, "the shard is being set up");
          }
          return {};
        },
        replication_);
    opened->set_value(one->parts->listen(port_, true));
  });
  one->thread = std::thread([one] { one->loop->run(); });
  extra_.push_back(std::move(extra));
  return result.get();
}

void ShardServer::set_tls(const std::shared_ptr<net::TlsContext>& tls) {
  first_->set_tls(tls);
  for (const std::unique_ptr<Extra>& extra : extra_) {
    extra->loop->post([one = extra.get(), tls] { one->parts->set_tls(tls); });
  }
}

void ShardServer::set_account_keys(const auth::JwtKeys& keys) {
  params_.account_keys = keys;
  first_->set_account_keys(keys);
  for (const std::unique_ptr<Extra>& extra : extra_) {
    extra->loop->post([one = extra.get(), keys] { one->parts->set_account_keys(keys); });
  }
}

void ShardServer::drain(std::function<void()> done) {
  draining_ = true;
  if (duty_ != nullptr) {  // the others need not wait for the end
    controllers_.reset();
    duty_.reset();
  }
  auto left = std::make_shared<std::atomic<std::size_t>>(extra_.size() + 1);
  const auto ended = [left, &loop = loop_, done = std::move(done)] {
    if (left->fetch_sub(1) == 1) {
      loop.post(done);
    }
  };
  first_->drain(kDrainLimit, ended);
  for (const std::unique_ptr<Extra>& extra : extra_) {
    extra->loop->post([one = extra.get(), ended] { one->parts->drain(kDrainLimit, ended); });
  }
}

}  // namespace kintsugi::controlplane
