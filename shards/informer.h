#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "http/headers.h"
#include "net/loop.h"
#include "net/upstream.h"
#include "shards/internal/informer_fsm.h"

namespace kintsugi::shards {

/// Drives an InformerFsm over one upstream: list and watch of one collection for as long as it
/// lives. Threads: the loop's. Lifetime: the upstream must outlive it or be replaced before it
/// dies.
class Informer {
 public:
  /// @param headers sent with every request, after `Accept: application/json`
  ///                (User-Agent, Authorization).
  Informer(net::Loop& loop, InformerParams params, http::HeaderList headers, InformerSink& sink);
  ~Informer();
  Informer(const Informer&) = delete;
  Informer& operator=(const Informer&) = delete;

  void start(net::Upstream& upstream);
  /// Another server for the same objects: lists again there, then drops what is gone.
  void set_upstream(net::Upstream& upstream);
  /// The same with another path for them there.
  void move(net::Upstream& upstream, const std::string& target);
  /// Another collection for the same objects (a new identity hash, R-10).
  void set_target(const std::string& target);
  /// Tries at once if it rests.
  void kick();
  /// Cancels everything; start() may follow and goes on where it was.
  void stop();

  /// How its questions are answered, by their targets with the query; of what is refused (a status
  /// of 400 and more after which it rests) with the body. `heard` must not destroy the informer or
  /// call it.
  using Heard = std::function<void(std::string_view target, int status, std::string_view body)>;
  void tell_answers(Heard heard) { heard_ = std::move(heard); }

  [[nodiscard]] const InformerFsm& machine() const noexcept { return fsm_; }

 private:
  void perform(InformerFsm::Action action);
  void cancel();
  void open_watch(std::string target);
  void take_refusal();
  void watch_over();
  [[nodiscard]] Errc cause_of(Errc end) const noexcept;
  void tell(const InformerFsm::Action& next, int status, std::string_view body);
  void fetch_page(std::string target);
  [[nodiscard]] net::FetchRequest request(std::string target, net::UpstreamClass kind) const;

  net::Loop& loop_;
  InformerFsm fsm_;
  http::HeaderList headers_;
  net::Upstream* upstream_ = nullptr;
  std::unique_ptr<net::Call> call_;
  net::Timer timer_;
  /// The answer to a watch that was refused, while its body comes.
  struct Refusal {
    int status, retry_after;
    std::string body;
  };
  std::optional<Refusal> refusal_;
  Heard heard_;
  std::string asked_;            ///< target of the running request
  std::size_t connections_ = 0;  ///< for watches, when the head of the running one came
  // Number of the running request; answers to older ones are dropped. Shared with the callbacks,
  // which may outlive the informer by the rest of a turn.
  std::shared_ptr<std::uint64_t> turn_ = std::make_shared<std::uint64_t>(0);
};

}  // namespace kintsugi::shards
