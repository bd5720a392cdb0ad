#include "apiserver/internal/watch_hub.h"

#include <algorithm>

#include "apiserver/internal/watcher.h"
#include "apiserver/keys.h"

namespace kintsugi::apiserver::internal {

WatchHub::WatchHub(net::Loop& loop, store::Store& store, const Registry& registry)
    : store_(store), feed_(registry), alive_(std::make_shared<WatchHub*>(this)) {
  const std::weak_ptr<WatchHub*> weak = alive_;
  store::Store::Subscription subscription =
      store_.subscribe([&loop, weak](const store::EventBatch& batch) {
        loop.post([weak, batch] {
          if (const std::shared_ptr<WatchHub*> self = weak.lock()) {
            (*self)->dispatch(*batch);
          }
        });
      });
  applied_ = subscription.from;
  subscription_ = std::move(subscription.token);
}

WatchHub::~WatchHub() { subscription_.reset(); }

WatchHub::Group& WatchHub::add(const std::string& range, Watcher& watcher) {
  std::unique_ptr<Group>& group = groups_[range];
  if (group == nullptr) {
    group = std::make_unique<Group>();
    group->range = range;
  }
  group->watchers.push_back(&watcher);
  return *group;
}

void WatchHub::remove(Group& group, Watcher& watcher) noexcept {
  const auto found = std::find(group.watchers.begin(), group.watchers.end(), &watcher);
  if (found == group.watchers.end()) {
    return;
  }
  *found = group.watchers.back();
  group.watchers.pop_back();
  if (!group.watchers.empty()) {
    return;
  }
  if (dispatching_) {
    has_empty_groups_ = true;
  } else {
    groups_.erase(groups_.find(group.range));
  }
}

WatchEncodingPtr WatchHub::encoding(const ServedKindPtr& kind, const Form& form,
                                    IncludeObject include) {
  // The definition's address tells versions of a changed definition apart; it lives in the
  // encoding.
  std::string key = std::to_string(reinterpret_cast<std::uintptr_t>(kind->def.get()));
  for (const int part : {static_cast<int>(form.format), static_cast<int>(form.shape),
                         static_cast<int>(form.beta), static_cast<int>(include)}) {
    key += static_cast<char>('0' + part);
  }
  key += kind->api_version;
  std::weak_ptr<const WatchEncoding>& slot = encodings_[key];
  WatchEncodingPtr known = slot.lock();
  if (known == nullptr) {
    known = std::make_shared<const WatchEncoding>(kind, form, include);
    slot = known;
    std::erase_if(encodings_, [](const auto& item) { return item.second.expired(); });
  }
  return known;
}

void WatchHub::dispatch(const std::vector<store::Event>& batch) {
  dispatching_ = true;
  for (const store::Event& event : batch) {
    applied_ = event.revision;
    feed_.dispatch(event);
    if (groups_.empty() && sizes_.is_empty()) {
      continue;
    }
    const std::optional<KeyParts> parts = parse_key(event.key);
    if (!parts) {
      continue;
    }
    LiveEvent live(event);
    const std::string_view key = event.key;
    const std::size_t resource = parts->resource.size() + 1;
    const std::size_t cluster = resource + parts->cluster.size() + 1;
    const auto tell = [&](std::string_view collection) {
      sizes_.note(collection, event);
      dispatch_to(collection, live);
    };
    if (const std::size_t colon = parts->resource.find(':'); colon != std::string_view::npos) {
      tell(key.substr(0, colon + 1));  // under any identity
    }
    tell(key.substr(0, resource));
    tell(key.substr(0, cluster));
    if (!parts->ns.empty()) {
      tell(key.substr(0, cluster + parts->ns.size() + 1));
    }
    dispatch_to(key, live);
  }
  dispatching_ = false;
  drop_empty_groups();
}

void WatchHub::dispatch_to(std::string_view range, LiveEvent& event) {
  const auto found = groups_.find(range);
  if (found == groups_.end()) {
    return;
  }
  std::vector<Watcher*>& watchers = found->second->watchers;
  for (std::size_t i = watchers.size(); i-- > 0;) {  // backwards: one may remove itself
    watchers[i]->deliver(event);
  }
}

void WatchHub::drop_empty_groups() {
  if (has_empty_groups_) {
    has_empty_groups_ = false;
    std::erase_if(groups_, [](const auto& item) { return item.second->watchers.empty(); });
  }
}

}  // namespace kintsugi::apiserver::internal
