#include "serving/held_requests.h"

#include <utility>
#include <vector>

namespace kintsugi::serving {
namespace {

constexpr std::size_t kMostHeld = 1'000;

}  // namespace

bool HeldRequests::has_room() const noexcept {
  return longest_ > Duration::zero() && held_.size() < kMostHeld;
}

HeldRequests::Answer HeldRequests::hold(std::function<bool()> is_early,
                                        std::function<Answer()> then) {
  auto request = std::make_unique<WaitingRequest>();
  held_.push_back(
      std::make_shared<Held>(Held{std::move(is_early), request->weak(), std::move(then)}));
  loop_.after(longest_, [this, alive = alive_.weak(), weak = std::weak_ptr<Held>(held_.back())] {
    const std::shared_ptr<Held> late = weak.lock();
    if (!alive || late == nullptr) {
      return;
    }
    held_.remove(late);
    go_on(*late);
  });
  return request;
}

void HeldRequests::look() {
  std::vector<std::shared_ptr<Held>> due;
  for (auto one = held_.begin(); one != held_.end();) {
    const bool gone = *(*one)->request == nullptr;
    if (!gone && (*one)->is_early()) {
      ++one;
      continue;
    }
    due.push_back(std::move(*one));
    one = held_.erase(one);
  }
  for (const std::shared_ptr<Held>& one : due) {
    go_on(*one);
  }
}

void HeldRequests::go_on(Held& held) {
  WaitingRequest* request = *held.request;
  if (request != nullptr && !request->closed()) {
    request->go_on(held.then());
  }
}

}  // namespace kintsugi::serving
