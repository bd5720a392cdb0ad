#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/alive.h"
#include "krm/json.h"
#include "net/loop.h"
#include "workers/eventing/dispatcher/contract_gate.h"
#include "workers/eventing/dispatcher/counters.h"
#include "workers/eventing/dispatcher/egress_runner.h"

namespace kintsugi::workers {

/// The data plane of one pod: does what its contract says. Source: docs/spec/eventing.md, DP-1 to
/// DP-9. Threads: the loop's. Lifetime: its end drops what is under way; stop() lets it end first.
class Dispatcher {
 public:
  Dispatcher(net::Loop& loop, DispatcherSettings settings);
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  /// What the contract's file holds. Egresses that are gone end, others begin; one that cannot be
  /// done is refused by itself, with its text in status().
  void take(std::string_view bytes);
  /// Every egress ends as EgressRunner::stop(). `done` comes in a later turn.
  void stop(std::function<void()> done);

  /// {"pod", "generation", "epoch", "contract": "why the file's is not applied",
  ///  "egresses": {uid: EgressRunner::status() | {"refused": "…"}}}
  [[nodiscard]] krm::Json status() const;
  [[nodiscard]] bool has_contract() const noexcept { return gate_.has_applied(); }
  [[nodiscard]] const DispatcherCounters& counters() const noexcept { return counters_; }
  [[nodiscard]] std::uint64_t generation() const noexcept { return gate_.generation(); }
  /// @{ For gauges.
  [[nodiscard]] std::size_t egresses() const noexcept { return runners_.size(); }
  [[nodiscard]] std::size_t refused() const noexcept { return refused_.size(); }
  /// @}

 private:
  using Wanted = std::map<std::string, std::shared_ptr<const EgressTerms>>;
  void apply(const Contract& contract);
  void reach();
  void end(const std::string& uid);

  net::Loop& loop_;
  DispatcherSettings settings_;
  DispatcherCounters counters_;
  ContractGate gate_;
  std::string complaint_;  // of the file as it is now
  Sinks sinks_;
  KafkaProducers producers_;
  Wanted wanted_;
  std::map<std::string, std::string> refused_;  // by uid: why
  std::map<std::string, std::unique_ptr<EgressRunner>> runners_, ending_;
  std::function<void()> done_;
  bool stopping_ = false;
  Alive alive_;
};

}  // namespace kintsugi::workers
