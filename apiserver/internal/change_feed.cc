#include "apiserver/internal/change_feed.h"

#include <algorithm>
#include <utility>

#include "apiserver/keys.h"

namespace kintsugi::apiserver::internal {
namespace {

ApiServer::Change make_change(const Registry& registry, const KeyParts& parts,
                              const store::Event& event) {
  ApiServer::Change change;
  const StoredResource resource = parse_stored_resource(parts.resource);
  change.cluster = parts.cluster;
  change.resource = resource.plural;
  change.group = resource.group;
  change.identity = resource.identity;
  change.ns = parts.ns;
  change.revision = event.revision;
  const ResourcePtr def = registry.find(
      change.cluster, change.group,
      change.identity.empty() ? change.resource : change.resource + ":" + change.identity);
  const bool deleted = event.type == store::EventType::kDelete;
  if (!deleted) {
    change.object = ChangedObject(def, event.value, event.revision);
  }
  change.previous = ChangedObject(def, event.previous, event.previous_modified);
  if (deleted && change.previous == nullptr) {
    change.previous = ChangedObject(def, event.value, event.revision);
  }
  change.name = parts.name;
  const ChangedObject& known = change.object != nullptr ? change.object : change.previous;
  if (parts.name_is_cut && known != nullptr) {
    change.name = known.meta().text({"metadata", "name"});
  }
  return change;
}

}  // namespace

std::shared_ptr<void> ChangeFeed::add(std::string_view group, std::string_view resource,
                                      store::Revision after,
                                      std::function<void(const ApiServer::Change&)> listener) {
  std::string name = resource.empty() ? std::string() : stored_resource(group, resource);
  auto entry = std::make_shared<Listener>(Listener{std::move(name), after, std::move(listener)});
  std::erase_if(listeners_, [](const auto& known) { return known.expired(); });
  listeners_.push_back(entry);
  return entry;
}

void ChangeFeed::dispatch(const store::Event& event) {
  if (listeners_.empty()) {
    return;
  }
  const std::optional<KeyParts> parts = parse_key(event.key);
  if (!parts) {
    return;
  }
  std::optional<ApiServer::Change> change;
  for (std::size_t i = 0; i < listeners_.size(); ++i) {  // listeners may add others
    const std::shared_ptr<Listener> listener = listeners_[i].lock();
    if (listener == nullptr || event.revision <= listener->after ||
        (!listener->storage_name.empty() && listener->storage_name != parts->resource)) {
      continue;
    }
    if (!change) {
      change = make_change(registry_, *parts, event);
    }
    listener->call(*change);
  }
}

}  // namespace kintsugi::apiserver::internal
