#include "apiserver/internal/quota_guard.h"

#include <utility>

#include "apiserver/internal/server_impl.h"
#include "apiserver/keys.h"
#include "apiserver/quota.h"
#include "apiserver/stored_object.h"

namespace kintsugi::apiserver::internal {

QuotaIndex::QuotaIndex(store::Store& store) {
  const std::string prefix = resource_prefix(kResourceQuotas);
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
  const std::optional<KeyParts> parts = parse_key(key);
  if (!parts) {
    return;
  }
  const std::string space = collection_prefix(kResourceQuotas, parts->cluster, parts->ns);
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
  const std::string space = collection_prefix(kResourceQuotas, cluster, ns);
  const std::lock_guard lock(mutex_);
  return spaces_.contains(space);
}

std::string quota_queue_key(const WriteOp& op) {
  return collection_prefix(kResourceQuotas, op.cluster, op.ns);
}

Expected<std::vector<store::Op>> charge_quotas(const WriteOp& op) {
  struct Stored {
    std::string key;
    store::Revision modified = 0;
    krm::Json quota;
  };
  std::vector<Stored> found;
  Expected<void> readable;
  const Expected<store::Revision> read =
      op.server.store().range({quota_queue_key(op), "", 0}, [&](const store::EntryView& entry) {
        Expected<krm::Json> quota =
            decode_stored(entry.value, "v1", "ResourceQuota", entry.modified);
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
  const CountObjects count = [&op](std::string_view resource) -> Expected<std::int64_t> {
    const Expected<std::uint64_t> objects =
        op.server.store().count({collection_prefix(resource, op.cluster, op.ns), "", 0});
    if (!objects) {
      return fail(objects.error().clone());
    }
    return static_cast<std::int64_t>(*objects);
  };
  std::vector<store::Op> ops;
  for (Stored& each : found) {
    const Expected<bool> charged =
        charge_quota(each.quota, *op.kind->def, op.kind->storage_name, op.name, count);
    if (!charged) {
      return fail(charged.error().clone());
    }
    if (*charged) {
      ops.push_back(
          {store::EventType::kPut, std::move(each.key), encode_stored(each.quota), each.modified});
    }
  }
  return ops;
}

}  // namespace kintsugi::apiserver::internal
