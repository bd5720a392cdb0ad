#include "proxy/merge/generation_wait.h"

#include <utility>
#include <vector>

namespace kintsugi::proxy {
namespace {

constexpr std::size_t kMostHeld = 1'000;

}  // namespace

bool GenerationWait::has_room() const noexcept {
  return longest_ > Duration::zero() && held_.size() < kMostHeld;
}

GenerationWait::Answer GenerationWait::hold(std::uint32_t generation,
                                            std::function<Answer()> then) {
  auto request = std::make_unique<WaitingRequest>();
  held_.push_back(std::make_shared<Held>(Held{generation, request->weak(), std::move(then)}));
  loop_.after(longest_, [this, alive = std::weak_ptr<bool>(alive_),
                         weak = std::weak_ptr<Held>(held_.back())] {
    const std::shared_ptr<Held> late = weak.lock();
    if (alive.expired() || late == nullptr) {
      return;
    }
    held_.remove(late);
    go_on(*late);
  });
  return request;
}

void GenerationWait::known(std::uint32_t generation) {
  std::vector<std::shared_ptr<Held>> ready;
  for (auto one = held_.begin(); one != held_.end();) {
    const bool gone = *(*one)->request == nullptr;
    if (!gone && (*one)->generation > generation) {
      ++one;
      continue;
    }
    ready.push_back(std::move(*one));
    one = held_.erase(one);
  }
  for (const std::shared_ptr<Held>& one : ready) {
    go_on(*one);
  }
}

void GenerationWait::go_on(Held& held) {
  WaitingRequest* request = *held.request;
  if (request != nullptr && !request->closed()) {
    request->go_on(held.then());
  }
}

}  // namespace kintsugi::proxy
