#include <algorithm>
#include <utility>
#include <vector>

#include "apiserver/body_bounds.h"
#include "apiserver/internal/server_impl.h"
#include "apiserver/internal/watcher.h"
#include "apiserver/keys.h"
#include "apiserver/memory_bounds.h"
#include "apiserver/open_watches.h"
#include "apiserver/request_bounds.h"
#include "http/guarded_answer.h"
#include "serving/payer_bounds.h"
#include "serving/shed_order.h"
#include "store/duty.h"

namespace kintsugi::apiserver {

std::unique_ptr<ApiServer> ApiServer::make(ServerParams params) {
  return std::make_unique<internal::Server>(std::move(params));
}

void bound_bodies(ApiServer& server, std::shared_ptr<MemoryBudget> memory,
                  const net::BodyLimits& limits) {
  auto& made = static_cast<internal::Server&>(server);
  made.set_bodies(std::make_unique<net::BodyGate>(made.loop(), std::move(memory), limits));
}

void bound_requests(ApiServer& server, std::shared_ptr<serving::ProcessLimits> limits) {
  static_cast<internal::Server&>(server).set_bounds(std::move(limits));
}

void bound_memory(ApiServer& server, std::shared_ptr<serving::MemoryPressure> pressure) {
  static_cast<internal::Server&>(server).set_pressure(std::move(pressure));
}

std::size_t shed_watches(ApiServer& server, std::size_t most, bool all) {
  return static_cast<internal::Server&>(server).shed_watches(most, all);
}

void list_watches(const ApiServer& server, serving::WatchList& into) {
  static_cast<const internal::Server&>(server).list_watches(into);
}

const serving::FairQueues& request_queues(const ApiServer& server) noexcept {
  return static_cast<const internal::Server&>(server).seats().queues();
}

krm::Json fairness_report(const ApiServer& server) {
  constexpr std::size_t kShown = 100;
  const serving::FairSeats& seats = static_cast<const internal::Server&>(server).seats();
  const auto number = [](std::uint64_t value) {
    return krm::Json(static_cast<std::int64_t>(value));
  };
  krm::Json levels = krm::Json::object();
  for (std::size_t i = 0; i < serving::kLevels; ++i) {
    const auto level = static_cast<serving::Level>(i);
    const serving::FairQueues::LevelTotals totals = seats.queues().totals(level);
    levels[serving::level_name(level)] = krm::Json::object({{"seats", number(totals.seats)},
                                                            {"waiting", number(totals.waiting)},
                                                            {"served", number(totals.served)},
                                                            {"full", number(totals.full)},
                                                            {"late", number(totals.late)}});
  }
  krm::Json payers = krm::Json::array();
  for (const serving::FairSeats::PayerUse& use : seats.payers(kShown)) {
    payers.push_back(krm::Json::object({{"level", serving::level_name(use.level)},
                                        {"payer", use.name},
                                        {"running", number(use.running)},
                                        {"waiting", number(use.waiting)}}));
  }
  return krm::Json::object({{"seats", number(seats.queues().limits().seats)},
                            {"levels", std::move(levels)},
                            {"payers", std::move(payers)}});
}

BodyCounts body_counts(const ApiServer& server) noexcept {
  const net::BodyGate& bodies = static_cast<const internal::Server&>(server).bodies();
  return {bodies.late(), bodies.crowded()};
}

namespace internal {
namespace {

constexpr std::size_t kUnprovenPerTick = 10;
constexpr Duration kUnprovenTick = milliseconds(50);

}  // namespace

Server::Server(ServerParams params)
    : params_(std::move(params)),
      hub_(std::make_unique<WatchHub>(params_.loop, params_.store, params_.registry)),
      reader_(params_.store, params_.registry),
      watch_review_(std::make_unique<WatchReview>(*this)),
      alive_(std::make_shared<Server*>(this)) {
  for (const auto& step : params_.admission) {
    step->start(*this);
  }
}

Server::~Server() {
  params_.admission.clear();  // follows changes of what goes before it
}

std::unique_ptr<http::RequestHandler> Server::on_request(http::RequestHead head,
                                                         http::ResponseStream& stream) noexcept {
  ++stats_.requests;
  const bool head_only = head.method == "HEAD";
  return http::guarded_answer(
      "server", stream, head_only, [&]() -> std::unique_ptr<http::RequestHandler> {
        auto exchange = std::make_unique<Exchange>(*this, stream);
        exchange->start(std::make_shared<Request>(*this, std::move(head), params_.loop));
        return exchange;
      });
}

std::shared_ptr<void> Server::on_change(std::string_view group, std::string_view resource,
                                        std::function<void(const Change&)> listener) {
  return hub_->changes().add(group, resource, params_.store.current(), std::move(listener));
}

Expected<ApiServer::Counted> Server::count(std::string_view cluster, std::string_view resource,
                                           std::string_view ns) const {
  const std::string prefix = collection_prefix(resource, cluster, ns);
  const store::Revision now = params_.store.current();
  const Expected<std::uint64_t> objects = params_.store.count({prefix, "", now});
  if (!objects) {
    return fail(objects.error().clone());
  }
  return Counted{static_cast<std::int64_t>(*objects), now};
}

void Server::start_drain() {
  if (std::exchange(draining_, true)) {
    return;
  }
  const std::vector<Watcher*> all = watchers_;
  for (Watcher* watcher : all) {
    watcher->end_in_order();
  }
}

void Server::end_watches(std::string_view cluster, std::string_view group,
                         std::string_view resource) {
  std::vector<Watcher*> ending;
  for (Watcher* watcher : watchers_) {
    if (watcher->cluster() == cluster && watcher->def().group == group &&
        watcher->def().plural == resource) {
      ending.push_back(watcher);
    }
  }
  for (Watcher* watcher : ending) {
    watcher->end_in_order();
  }
}

void Server::end_watches(const View& view, std::string_view group, std::string_view resource) {
  std::vector<Watcher*> ending;
  for (Watcher* watcher : watchers_) {
    if (watcher->rights()->view.get() == &view &&
        (resource.empty() ||
         (watcher->def().group == group && watcher->def().plural == resource))) {
      ending.push_back(watcher);
    }
  }
  for (Watcher* watcher : ending) {
    watcher->end_in_order();
  }
}

void Server::end_unproven() {
  std::size_t left = kUnprovenPerTick;
  for (std::size_t i = watchers_.size(); i-- > 0 && left > 0;) {
    // Whoever leaves the list is replaced by its last one, which has been looked at.
    if (i < watchers_.size() && watchers_[i]->is_unproven()) {
      watchers_[i]->end_in_order();
      --left;
    }
  }
  if (left == 0) {
    unproven_timer_.start(kUnprovenTick, [this] { end_unproven(); });
  }
}

std::size_t Server::shed_watches(std::size_t most, bool all) {
  std::vector<serving::Behind<Watcher>> behind;
  for (Watcher* watcher : watchers_) {
    const std::size_t bytes = watcher->unsent_bytes();
    if (bytes > 0 && !watcher->has_ended() &&
        (all || serving::is_bounded(serving::level_of(*watcher->rights()->user)))) {
      behind.push_back({bytes, watcher->payer(), watcher});
    }
  }
  serving::put_in_shed_order(behind);
  behind.resize(std::min(most, behind.size()));
  for (const serving::Behind<Watcher>& one : behind) {
    one.watch->end_at_once();
  }
  return behind.size();
}

void Server::list_watches(serving::WatchList& into) const {
  for (const Watcher* watcher : watchers_) {
    if (!watcher->has_ended()) {
      into.offer(watcher->unsent_bytes(), watcher->begun(),
                 [watcher](serving::WatchRow& row) { watcher->describe(row); });
    }
  }
}

Discovery& Server::discovery(const Request& request) { return documents(request).discovery; }

OpenApi& Server::openapi(const Request& request) { return documents(request).openapi; }

Server::Documents& Server::documents(const Request& request) {
  if (request.view == nullptr) {
    return documents_;
  }
  std::erase_if(view_documents_, [](const auto& entry) { return entry.second->view.expired(); });
  std::unique_ptr<Documents>& known = view_documents_[request.view.get()];
  if (known == nullptr) {
    known = std::make_unique<Documents>(request.view->registry());
    known->view = request.view;
  }
  return *known;
}

ApiServer::Stats Server::stats() const {
  Stats stats = stats_;
  stats.watches = watchers_.size();
  stats.watch_events = hub_->events();
  for (const Watcher* watcher : watchers_) {
    stats.watch_queue_bytes += watcher->unsent_bytes();
  }
  return stats;
}

void Server::commit(std::vector<store::Op> ops, const std::optional<store::Fence>& fence,
                    std::function<void(Expected<store::CommitResult>)> done) {
  const std::weak_ptr<Server*> alive = alive_;
  store::commit_fenced(params_.store, std::move(ops), fence,
                       [&loop = params_.loop, alive,
                        done = std::move(done)](Expected<store::CommitResult> result) mutable {
                         auto kept =
                             std::make_shared<Expected<store::CommitResult>>(std::move(result));
                         loop.post([alive, kept, done = std::move(done)] {
                           if (!alive.expired()) {
                             done(std::move(*kept));
                           }
                         });
                       });
}

void Server::synchronize(std::function<void(Expected<void>)> done) {
  const std::weak_ptr<Server*> alive = alive_;
  params_.store.synchronize(
      [&loop = params_.loop, alive, done = std::move(done)](Expected<store::Revision> at) mutable {
        const Errc fault = at ? Errc::kOk : at.error().code();
        loop.post([alive, fault, done = std::move(done)] {
          if (alive.expired()) {
            return;
          }
          if (fault == Errc::kOk) {
            done({});
          } else {
            done(fail(fault));
          }
        });
      });
}

void Server::set_tenants(TenantRules rules) {
  tenants_ = std::move(rules);
  conversions_ = std::make_unique<Conversions>(loop(), tenants_.outgoing);
}

void Server::watch_started(Watcher& watcher) {
  watcher.set_server_slot(watchers_.size());
  watchers_.push_back(&watcher);
  if (watch_counts_ != nullptr) {
    watch_counts_->begun(watcher.cluster());
  }
  if (watcher.is_unproven() && !draining_) {  // since it was let in
    params_.loop.post([this, alive = std::weak_ptr<Server*>(alive_)] {
      if (!alive.expired()) {
        end_unproven();
      }
    });
  }
}

void Server::watch_ended(Watcher& watcher) noexcept {
  const std::size_t slot = watcher.server_slot();
  watchers_[slot] = watchers_.back();
  watchers_[slot]->set_server_slot(slot);
  watchers_.pop_back();
  if (watch_counts_ != nullptr) {
    watch_counts_->ended(watcher.cluster());
  }
}

}  // namespace internal

void set_tenant_rules(ApiServer& server, TenantRules rules) {
  static_cast<internal::Server&>(server).set_tenants(std::move(rules));  // there is no other
}

}  // namespace kintsugi::apiserver
