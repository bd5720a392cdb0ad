#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "net/loop.h"
#include "net/upstream.h"
#include "workers/eventing/delivering/record_delivery.h"
#include "workers/eventing/dispatcher/counters.h"
#include "workers/eventing/dispatcher/egress_config.h"
#include "workers/eventing/events/cloud_event.h"

namespace kintsugi::workers {

/// One event on its way, by RecordDelivery. Threads: the loop's. Lifetime: its end cancels what is
/// under way; `done` may destroy it.
class Delivery {
 public:
  struct End {
    DeliveryOutcome outcome;
    int status;       ///< of the last answer that was none of 2xx; 0: there was none
    std::string why;  ///< of the last failure
  };
  Delivery(net::Loop& loop, std::shared_ptr<const EgressTerms> terms, std::string topic,
           CloudEvent event, DispatcherCounters& counters, std::function<void(const End&)> done);
  ~Delivery();
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;
  /// `done` comes in a later turn.
  void begin() { act(fsm_.begin(true)); }

 private:
  void act(const DeliveryAction& action);
  void send(DeliveryTarget target);
  void post(Sink& sink, const CloudEvent& event);
  void on_answer(Expected<net::FetchResponse> answer);
  void on_ended(bool success, bool reply);

  net::Loop& loop_;
  std::shared_ptr<const EgressTerms> terms_;
  std::string topic_;
  CloudEvent event_;
  DispatcherCounters& counters_;
  std::function<void(const End&)> done_;
  RecordDelivery fsm_;
  std::optional<CloudEvent> reply_;
  std::string body_;  // of the last answer that was none of 2xx, its begin
  End end_{DeliveryOutcome::kSkipped, 0, ""};
  std::unique_ptr<net::Call> call_;
  std::uint64_t produced_ = 0;  // number of what the producer has
  net::Timer timer_;
};

}  // namespace kintsugi::workers
