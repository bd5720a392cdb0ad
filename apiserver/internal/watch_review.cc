#include "apiserver/internal/watch_review.h"

#include <algorithm>
#include <utility>

#include "apiserver/internal/server_impl.h"
#include "apiserver/internal/watcher.h"
#include "auth/authorizer.h"

namespace kintsugi::apiserver::internal {
namespace {

constexpr std::size_t kPerTurn = 128;
constexpr std::size_t kMostAsked = 128;

}  // namespace

WatchReview::WatchReview(Server& server) : server_(server), delay_(server.loop()) {}

WatchReview::~WatchReview() = default;

std::shared_ptr<const auth::UserInfo> WatchReview::share(const auth::UserInfo& user) {
  for (const auto& known : users_) {
    if (known != nullptr && *known == user) {
      return known;
    }
  }
  auto shared = std::make_shared<const auth::UserInfo>(user);
  users_[next_user_++ % users_.size()] = shared;
  return shared;
}

void WatchReview::schedule(std::string_view cluster) {
  wait();
  waiting_.named.emplace(cluster);
}

void WatchReview::schedule_all() {
  wait();
  waiting_.all = true;
}

void WatchReview::wait() {
  if (waiting_.empty() && running_.empty()) {
    delay_.start(server_.params().review_delay, [this] { start(); });
  }
}

void WatchReview::start() {
  running_ = std::exchange(waiting_, {});
  left_ = server_.watchers().size();
  step();
}

void WatchReview::step() {
  stepping_ = true;
  // Backwards: a watch that ends is replaced by the last one, which the pass has seen already.
  for (std::size_t budget = kPerTurn; budget > 0 && left_ > 0 && asked_ < kMostAsked; --budget) {
    left_ = std::min(left_, server_.watchers().size());
    if (left_ > 0) {
      check(--left_);
    }
  }
  stepping_ = false;
  if (left_ > 0) {
    go_on();
    return;
  }
  running_ = {};
  if (!waiting_.empty()) {
    delay_.start(server_.params().review_delay, [this] { start(); });
  }
}

/// In a later turn, unless answers have to come first.
void WatchReview::go_on() {
  if (left_ == 0 || asked_ >= kMostAsked || std::exchange(stepping_, true)) {
    return;
  }
  server_.loop().post([this, alive = alive_.weak()] {
    if (alive) {
      step();
    }
  });
}

void WatchReview::check(std::size_t index) {
  const Watcher& watcher = *server_.watchers()[index];
  const std::shared_ptr<const WatchRights>& rights = watcher.rights();
  const std::string_view decides = rights->view == nullptr ? "" : rights->view->rights_cluster();
  if (!running_.contains(decides.empty() ? std::string_view(watcher.cluster()) : decides)) {
    return;
  }
  auth::Attributes attributes;
  attributes.user = *rights->user;
  attributes.cluster = watcher.cluster();
  attributes.verb = "watch";
  attributes.group = watcher.def().group;
  attributes.version = watcher.version();
  attributes.resource = watcher.def().plural;
  attributes.ns = rights->ns;
  attributes.name = rights->name;
  attributes.field_selector_name = rights->name;
  ++asked_;
  // The watch may be gone when the answer comes; nothing else shares its rights.
  auth::Authorizer& authorizer =
      rights->view == nullptr ? server_.params().authorizer : rights->view->authorizer();
  authorizer.authorize(attributes, [this, index, attributes, alive = alive_.weak(),
                                    weak = std::weak_ptr<const WatchRights>(rights)](
                                       const Expected<auth::Decision>& decision) {
    if (!alive) {
      return;
    }
    --asked_;
    go_on();
    const std::shared_ptr<const WatchRights> asked = weak.lock();
    // Views refuse some requests with an error in words of their own.
    const bool refused =
        decision ? !decision->allowed : decision.error().code() == Errc::kForbidden;
    if (asked == nullptr || !refused) {
      return;
    }
    const std::vector<Watcher*>& all = server_.watchers();
    const auto is_asked = [&](const Watcher* one) { return one->rights() == asked; };
    const auto found = index < all.size() && is_asked(all[index])
                           ? all.begin() + static_cast<std::ptrdiff_t>(index)
                           : std::find_if(all.begin(), all.end(), is_asked);
    if (found != all.end()) {
      (*found)->fail_with(decision ? auth::denied(attributes, *decision)
                                   : decision.error().clone());  // SE-047
    }
  });
}

}  // namespace kintsugi::apiserver::internal
