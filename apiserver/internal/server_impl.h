#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apiserver/internal/concurrency.h"
#include "apiserver/internal/continue_token.h"
#include "apiserver/internal/conversions.h"
#include "apiserver/internal/discovery.h"
#include "apiserver/internal/key_queue.h"
#include "apiserver/internal/openapi.h"
#include "apiserver/internal/reader.h"
#include "apiserver/internal/request.h"
#include "apiserver/internal/rule_checks.h"
#include "apiserver/internal/watch_hub.h"
#include "apiserver/internal/watch_review.h"
#include "apiserver/open_watches.h"
#include "apiserver/served_kind.h"
#include "apiserver/server.h"
#include "apiserver/tenant_rules.h"
#include "auth/impersonation.h"
#include "serving/fair_seats.h"
#include "serving/memory_pressure.h"
#include "serving/process_limits.h"
#include "serving/request_limits.h"
#include "serving/watch_list.h"

namespace kintsugi::apiserver::internal {

/// The server behind ApiServer::make. Steps of a request live in files of their own (pipeline,
/// routing, read, list, watch_request, write_…) and reach the shared parts through this class.
class Server final : public ApiServer {
 public:
  explicit Server(ServerParams params);
  ~Server() override;

  // http::Handler and ApiServer
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      http::RequestHead head, http::ResponseStream& stream) noexcept override;
  [[nodiscard]] const StoreReader& reader() const override { return reader_; }
  void write(WriteRequest request, std::function<void(Expected<krm::Json>)> done) override;
  [[nodiscard]] std::shared_ptr<void> on_change(
      std::string_view group, std::string_view resource,
      std::function<void(const Change&)> listener) override;
  [[nodiscard]] Expected<Counted> count(std::string_view cluster, std::string_view resource,
                                        std::string_view ns) const override;
  void start_drain() override;
  void end_watches(std::string_view cluster, std::string_view group,
                   std::string_view resource) override;
  void end_watches(const View& view, std::string_view group, std::string_view resource) override;
  void review_watches(std::string_view cluster) override { watch_review_->schedule(cluster); }
  void review_all_watches() override { watch_review_->schedule_all(); }
  void end_unproven() override;
  [[nodiscard]] Stats stats() const override;

  [[nodiscard]] const ServerParams& params() const noexcept { return params_; }
  [[nodiscard]] net::Loop& loop() noexcept { return params_.loop; }
  [[nodiscard]] store::Store& store() noexcept { return params_.store; }
  /// Of the logical clusters themselves; requests have their own (Request::registry).
  [[nodiscard]] const Registry& registry() const noexcept { return params_.registry; }
  [[nodiscard]] WatchHub& hub() noexcept { return *hub_; }
  [[nodiscard]] KeyQueue& key_queue() noexcept { return key_queue_; }
  [[nodiscard]] Discovery& discovery(const Request& request);
  [[nodiscard]] OpenApi& openapi(const Request& request);
  [[nodiscard]] Conversions& conversions() noexcept { return *conversions_; }
  [[nodiscard]] RuleChecks& rule_checks() noexcept { return rule_checks_; }
  [[nodiscard]] const TenantRules& tenants() const noexcept { return tenants_; }
  void set_tenants(TenantRules rules);
  [[nodiscard]] WatchReview& watch_review() noexcept { return *watch_review_; }
  [[nodiscard]] const std::vector<Watcher*>& watchers() const noexcept { return watchers_; }
  [[nodiscard]] bool is_draining() const noexcept { return draining_; }

  /// Store::commit whose callback runs on the loop, and not at all when the server is gone.
  /// @param fence  of the duty in which it is written (store/duty.h)
  void commit(std::vector<store::Op> ops, const std::optional<store::Fence>& fence,
              std::function<void(Expected<store::CommitResult>)> done);
  /// Store::synchronize in the same way; in a later turn also for watches, which have heard by then
  /// of all that reads show.
  void synchronize(std::function<void(Expected<void>)> done);

  void watch_started(Watcher& watcher);
  void watch_ended(Watcher& watcher) noexcept;
  void request_started() noexcept { ++stats_.requests_running; }
  void request_ended() noexcept { --stats_.requests_running; }
  void request_refused() noexcept { ++stats_.requests_refused; }
  [[nodiscard]] Concurrency& concurrency() noexcept { return concurrency_; }
  [[nodiscard]] serving::FairSeats& seats() noexcept { return *seats_; }
  [[nodiscard]] const serving::FairSeats& seats() const noexcept { return *seats_; }
  /// Null: there are none.
  [[nodiscard]] serving::RequestLimiter* limits() const noexcept {
    return limits_ == nullptr ? nullptr : &limits_->requests();
  }
  [[nodiscard]] serving::ProcessLimits* process_limits() const noexcept { return limits_.get(); }
  void set_bounds(std::shared_ptr<serving::ProcessLimits> limits) {
    limits_ = std::move(limits);
    seats_ = std::make_unique<serving::FairSeats>(params_.loop, limits_->seats(), limits_);
  }
  /// How memory stands; null: nobody looks.
  [[nodiscard]] serving::MemoryPressure* pressure() const noexcept { return pressure_.get(); }
  void set_pressure(std::shared_ptr<serving::MemoryPressure> pressure) {
    pressure_ = std::move(pressure);
  }
  [[nodiscard]] std::size_t shed_watches(std::size_t most, bool all);
  void list_watches(serving::WatchList& into) const;
  void set_watch_counts(std::shared_ptr<WatchCounts> counts) { watch_counts_ = std::move(counts); }
  [[nodiscard]] net::BodyGate& bodies() const noexcept { return *bodies_; }
  void set_bodies(std::unique_ptr<net::BodyGate> bodies) { bodies_ = std::move(bodies); }
  [[nodiscard]] auth::Impersonator& impersonator() noexcept { return impersonator_; }
  /// What continue tokens are sealed with, see continue_keys.h.
  [[nodiscard]] const auth::TokenKeys& token_keys() const noexcept { return token_keys_; }
  void set_token_keys(auth::TokenKeys keys) { token_keys_ = std::move(keys); }

 private:
  ServerParams params_;
  std::unique_ptr<WatchHub> hub_;
  StoreReader reader_;
  KeyQueue key_queue_;
  /// What describes the kinds of a registry.
  struct Documents {
    explicit Documents(const Registry& registry) : discovery(registry), openapi(registry) {}
    std::weak_ptr<View> view;
    Discovery discovery;
    OpenApi openapi;
  };
  [[nodiscard]] Documents& documents(const Request& request);

  Documents documents_{params_.registry};
  std::map<const View*, std::unique_ptr<Documents>> view_documents_;
  TenantRules tenants_;
  RuleChecks rule_checks_{params_.loop};
  std::unique_ptr<Conversions> conversions_ = std::make_unique<Conversions>(params_.loop, nullptr);
  Concurrency concurrency_{params_.concurrency};
  std::unique_ptr<serving::FairSeats> seats_ =
      std::make_unique<serving::FairSeats>(params_.loop, serving::FairLimits());
  std::shared_ptr<serving::ProcessLimits> limits_;
  std::shared_ptr<serving::MemoryPressure> pressure_;
  std::unique_ptr<net::BodyGate> bodies_ =
      std::make_unique<net::BodyGate>(params_.loop, std::make_shared<MemoryBudget>(0));
  auth::Impersonator impersonator_{params_.authorizer};
  auth::TokenKeys token_keys_ = keys_of_process();
  Stats stats_;
  std::vector<Watcher*> watchers_;
  std::shared_ptr<WatchCounts> watch_counts_;  // null: nobody counts
  std::unique_ptr<WatchReview> watch_review_;
  bool draining_ = false;
  net::Timer unproven_timer_{params_.loop};
  std::shared_ptr<Server*> alive_;  ///< weak references tell whether the server is still there
};

}  // namespace kintsugi::apiserver::internal
