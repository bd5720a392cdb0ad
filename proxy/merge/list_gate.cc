#include "proxy/merge/list_gate.h"

#include <utility>

namespace kintsugi::proxy {

std::unique_ptr<ListGate::Ticket> ListGate::enter(net::Loop& loop, std::size_t streams,
                                                  std::function<void()> granted) {
  auto waiter = std::make_shared<Waiter>();
  waiter->loop = &loop;
  waiter->streams = streams;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (waiting_.empty() && fits(streams)) {
    used_ += streams;
    waiter->running = true;
  } else if (waiting_.size() >= kMaxWaiting) {
    return nullptr;
  } else {
    waiter->granted = std::move(granted);
    waiting_.push_back(waiter);
  }
  return std::unique_ptr<Ticket>(new Ticket(*this, waiter, waiter->running));
}

void ListGate::leave(const std::shared_ptr<Waiter>& waiter) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (waiter->running) {
    used_ -= waiter->streams;
  } else {
    waiting_.remove(waiter);
  }
  while (!waiting_.empty() && fits(waiting_.front()->streams)) {
    const std::shared_ptr<Waiter> next = waiting_.front();
    waiting_.pop_front();
    used_ += next->streams;
    next->running = true;
    next->loop->post([next] {
      if (next->granted) {
        std::exchange(next->granted, nullptr)();
      }
    });
  }
}

ListGate::Ticket::~Ticket() {
  waiter_->granted = nullptr;
  gate_.leave(waiter_);
}

}  // namespace kintsugi::proxy
