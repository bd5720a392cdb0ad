#include "kinds/quota/quota_admission.h"

#include <utility>

#include "apiserver/keys.h"
#include "apiserver/stored_object.h"
#include "kinds/quota/quota.h"

namespace kintsugi::kinds {

QuotaIndex::QuotaIndex(store::Store& store) {
  const std::string prefix = apiserver::resource_prefix(kResourceQuotas);
  const std::lock_guard lock(mutex_);  // news wait until what is there has been read
  store::Store::Subscription subscription =
      store.subscribe([this, prefix](const store::EventBatch& batch) {
        for (const store::Event& event : *batch) {
          if (event.key.starts_with(prefix)) {
            const std::lock_guard guard(mutex_);
            apply(event.key, event.type == store::EventType::kPut);
          }
        }
      });
  subscription_ = std::move(subscription.token);
  // What cannot be read is not guarded; the store says so in its own health.
  (void)store.range({prefix, "", 0}, [this](const store::EntryView& entry) {
    apply(entry.key, true);
    return true;
  });
}

void QuotaIndex::apply(std::string_view key, bool present) {
  const std::optional<apiserver::KeyParts> parts = apiserver::parse_key(key);
  if (!parts) {
    return;
  }
  const std::string space =
      apiserver::collection_prefix(kResourceQuotas, parts->cluster, parts->ns);
  if (present) {
    spaces_[space].emplace(key);
  } else if (const auto found = spaces_.find(space); found != spaces_.end()) {
    if (const auto known = found->second.find(key); known != found->second.end()) {
      found->second.erase(known);
    }
    if (found->second.empty()) {
      spaces_.erase(found);
    }
  }
  size_.store(spaces_.size(), std::memory_order_release);
}

bool QuotaIndex::has(std::string_view cluster, std::string_view ns) const {
  if (size_.load(std::memory_order_acquire) == 0 || ns.empty()) {
    return false;
  }
  const std::string space = apiserver::collection_prefix(kResourceQuotas, cluster, ns);
  const std::lock_guard lock(mutex_);
  return spaces_.contains(space);
}

Expected<std::vector<store::Op>> QuotaAdmission::charge(
    const apiserver::PendingWrite& write) const {
  if (!quotas_.has(write.cluster, write.ns)) {
    return std::vector<store::Op>();
  }
  struct Stored {
    std::string key;
    store::Revision modified = 0;
    krm::Json quota;
  };
  std::vector<Stored> found;
  Expected<void> readable;
  const Expected<store::Revision> read =
      store_.range({apiserver::collection_prefix(kResourceQuotas, write.cluster, write.ns), "", 0},
                   [&](const store::EntryView& entry) {
                     Expected<krm::Json> quota = apiserver::decode_stored(
                         entry.value, "v1", "ResourceQuota", entry.modified);
                     if (!quota) {
                       readable = fail(std::move(quota.error()));
                       return false;
                     }
                     found.push_back({std::string(entry.key), entry.modified, std::move(*quota)});
                     return true;
                   });
  if (!read) {
    return fail(read.error().clone());
  }
  if (!readable) {
    return fail(std::move(readable.error()));
  }
  const CountObjects count = [this, &write](std::string_view resource) -> Expected<std::int64_t> {
    const Expected<std::uint64_t> objects =
        store_.count({apiserver::collection_prefix(resource, write.cluster, write.ns), "", 0});
    if (!objects) {
      return fail(objects.error().clone());
    }
    return static_cast<std::int64_t>(*objects);
  };
  std::vector<store::Op> ops;
  for (Stored& each : found) {
    const Expected<bool> charged =
        charge_quota(each.quota, *write.kind->def, write.kind->storage_name, write.name, count);
    if (!charged) {
      return fail(charged.error().clone());
    }
    if (*charged) {
      ops.push_back({store::EventType::kPut, std::move(each.key),
                     apiserver::encode_stored(each.quota), each.modified});
    }
  }
  return ops;
}

}  // namespace kintsugi::kinds
