#include "proxy/late_routes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "topology/resolver.h"

namespace kintsugi::proxy {
namespace {

constexpr std::size_t kMostHeld = 1'000;

bool is_unknown(const topology::Snapshot& snapshot, std::string_view segment) {
  const topology::Resolution found = topology::resolve(snapshot, segment);
  return found.kind == topology::Resolution::Kind::kNotFound &&
         found.reason == topology::NotFoundReason::kUnknown;
}

}  // namespace

LateRoutes::LateRoutes(net::Loop& loop, const std::shared_ptr<topology::SnapshotView>& view,
                       Duration longest)
    : loop_(loop), longest_(longest) {
  if (longest_ > Duration::zero()) {
    view->on_change([this, alive = std::weak_ptr<bool>(alive_)](const topology::Snapshot&,
                                                                const topology::Snapshot& now) {
      if (!alive.expired()) {
        look(now);
      }
    });
  }
}

bool LateRoutes::has_room() const noexcept {
  return longest_ > Duration::zero() && held_.size() < kMostHeld;
}

LateRoutes::Answer LateRoutes::hold(http::RequestHead head, std::string segment,
                                    std::function<Answer(http::RequestHead)> then) {
  auto request = std::make_unique<WaitingRequest>();
  held_.push_back(std::make_shared<Held>(
      Held{std::move(head), std::move(segment), request->weak(), std::move(then)}));
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

void LateRoutes::look(const topology::Snapshot& now) {
  std::vector<std::shared_ptr<Held>> known;
  for (auto one = held_.begin(); one != held_.end();) {
    const bool gone = *(*one)->request == nullptr;
    if (!gone && is_unknown(now, (*one)->segment)) {
      ++one;
      continue;
    }
    known.push_back(std::move(*one));
    one = held_.erase(one);
  }
  for (const std::shared_ptr<Held>& one : known) {
    go_on(*one);
  }
}

void LateRoutes::go_on(Held& held) {
  WaitingRequest* request = *held.request;
  if (request != nullptr && !request->closed()) {
    request->go_on(held.then(std::move(held.head)));
  }
}

}  // namespace kintsugi::proxy
