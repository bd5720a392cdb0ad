#include "workers/eventing/dispatcher/delivery.h"

#include <utility>

namespace kintsugi::workers {
namespace {

constexpr std::size_t kKeptBody = 1'024;
enum Answer : std::size_t { kYes, kNo, kNone };

}  // namespace

Delivery::Delivery(net::Loop& loop, std::shared_ptr<const EgressTerms> terms, std::string topic,
                   CloudEvent event, DispatcherCounters& counters,
                   std::function<void(const End&)> done)
    : loop_(loop),
      terms_(std::move(terms)),
      topic_(std::move(topic)),
      event_(std::move(event)),
      counters_(counters),
      done_(std::move(done)),
      fsm_(terms_->plan),
      timer_(loop) {}

Delivery::~Delivery() {
  if (produced_ != 0) {
    terms_->producer->forget(produced_);
  }
}

void Delivery::act(const DeliveryAction& action) {
  switch (action.kind) {
    case DeliveryAction::Kind::kSend:
      return send(action.target);
    case DeliveryAction::Kind::kWait:
      return timer_.start(action.wait, [this] { act(fsm_.on_waited()); });
    case DeliveryAction::Kind::kDone:
      end_.outcome = action.outcome;
      const auto done = std::exchange(done_, nullptr);
      const End end = end_;
      return done(end);
  }
}

void Delivery::send(DeliveryTarget target) {
  if (target == DeliveryTarget::kDestination) {
    return post(*terms_->destination, event_);
  }
  if (target == DeliveryTarget::kDeadLetter) {
    CloudEvent dead = event_;
    add_failure(dead, terms_->destination->url(), end_.status, body_);
    return post(*terms_->dead_letter, dead);
  }
  if (terms_->reply != nullptr) {
    return post(*terms_->reply, *reply_);
  }
  produced_ = terms_->producer->produce(topic_, *reply_, [this](const std::string& why) {
    produced_ = 0;
    if (!why.empty()) {
      end_.why = why;
    }
    ++counters_.tries[static_cast<std::size_t>(DeliveryTarget::kReply)][why.empty() ? kYes : kNone];
    on_ended(why.empty(), false);
  });
}

void Delivery::post(Sink& sink, const CloudEvent& event) {
  call_ = sink.post(request_headers(event), event.data, terms_->plan.timeout,
                    [this](Expected<net::FetchResponse> answer) { on_answer(std::move(answer)); });
}

void Delivery::on_answer(Expected<net::FetchResponse> answer) {
  const bool success = answer && answer->status >= 200 && answer->status < 300;
  ++counters_.tries[static_cast<std::size_t>(fsm_.target())][success ? kYes : answer ? kNo : kNone];
  if (!success) {
    end_.status = answer ? answer->status : 0;
    end_.why = answer ? "status " + std::to_string(answer->status) : answer.error().to_string();
    body_ = answer ? answer->body.substr(0, kKeptBody) : "";
  } else if (fsm_.target() == DeliveryTarget::kDestination &&
             (terms_->reply != nullptr || terms_->producer != nullptr)) {
    reply_ = event_of_answer(answer->headers, std::move(answer->body));
  }
  on_ended(success, reply_.has_value());
}

void Delivery::on_ended(bool success, bool reply) {
  call_.reset();
  act(fsm_.on_sent(success, reply));
}

}  // namespace kintsugi::workers
