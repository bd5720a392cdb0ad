#include "controlplane/replication/internal/replica_rows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "apiserver/stored_object.h"
#include "base/log.h"
#include "controlplane/internal/names.h"
#include "krm/annotations.h"
#include "store/batches.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr Duration kFirstRetry = milliseconds(50);
constexpr Duration kLastRetry = seconds(5);

std::string shard_of(std::string_view value) {
  const Expected<apiserver::StoredView> view = apiserver::StoredView::parse(value);
  if (!view) {
    return {};
  }
  const Expected<Json> annotations = Json::parse(apiserver::metadata_member(*view, "annotations"));
  return annotations ? std::string(annotations->text({krm::kReplicatedFromAnnotation}))
                     : std::string();
}

}  // namespace

ReplicaRows::ReplicaRows(net::Loop& loop, store::Store& store)
    : loop_(loop), store_(store), retry_(loop) {}

ReplicaRows::Row ReplicaRows::present(const std::string& key) const {
  if (const auto row = waiting_.find(key); row != waiting_.end()) {
    return row->second;
  }
  if (const auto row = running_.find(key); row != running_.end()) {
    return row->second;
  }
  const Expected<store::Entry> entry = store_.get(key);
  if (!entry) {
    return {};
  }
  return {shard_of(entry->value.view()), std::string(entry->value.view())};
}

void ReplicaRows::put(const std::string& key, std::string_view shard, Json object) {
  Json& metadata = object["metadata"];
  metadata.erase("managedFields");
  metadata.erase("ownerReferences");
  if (!shard.empty()) {
    metadata.make({"annotations", krm::kReplicatedFromAnnotation}) = shard;
  }
  std::string value = apiserver::encode_stored(object);
  if (present(key).value != value) {
    enqueue(key, {std::string(shard), std::move(value)});
  }
}

void ReplicaRows::remove(const std::string& key, std::string_view shard) {
  const Row row = present(key);
  if (row.value && row.shard == shard) {
    enqueue(key, {std::string(shard), std::nullopt});
  }
}

void ReplicaRows::remove_all(std::string_view prefix, std::string_view shard) {
  std::vector<std::string> keys;
  for (const StringMap<Row>* rows : {&waiting_, &running_}) {
    for (const auto& [key, row] : *rows) {
      if (row.shard == shard && key.starts_with(prefix)) {
        keys.push_back(key);
      }
    }
  }
  each(prefix, [&](std::string_view key, std::string_view from) {
    if (from == shard) {
      keys.emplace_back(key);
    }
  });
  for (const std::string& key : keys) {
    remove(key, shard);
  }
}

void ReplicaRows::each(
    std::string_view prefix,
    const std::function<void(std::string_view key, std::string_view shard)>& visit) const {
  store::RangeQuery query;
  query.prefix = prefix;
  const Expected<store::Revision> read = store_.range(query, [&](const store::EntryView& entry) {
    visit(entry.key, shard_of(entry.value));
    return true;
  });
  if (!read) {
    log_error("cannot read copies of other shards", {{"errc", errc_name(read.error().code())}});
  }
}

ReplicaRows::Stats ReplicaRows::stats() const {
  Stats out = stats_;
  out.waiting = waiting_.size() + running_.size();
  return out;
}

void ReplicaRows::enqueue(const std::string& key, Row row) {
  if (waiting_.insert_or_assign(key, std::move(row)).second) {
    order_.push_back(key);
  }
  schedule();
}

/// In a later turn, so that what comes in one turn is one batch.
void ReplicaRows::schedule() {
  if (posted_ || !running_.empty() || failures_ > 0 || waiting_.empty()) {
    return;
  }
  posted_ = true;
  loop_.post([this, alive = alive_.weak()] {
    if (alive) {
      posted_ = false;
      flush();
    }
  });
}

void ReplicaRows::flush() {
  if (!running_.empty()) {
    return;
  }
  const store::Limits limits = store_.limits();
  std::vector<store::Op> ops;
  std::size_t bytes = 0;
  while (!order_.empty() && ops.size() + store::kRoomForGuards < limits.ops) {
    const auto found = waiting_.find(order_.front());
    const Row& row = found->second;
    bytes += row.value ? row.value->size() : 0;
    if (!ops.empty() && bytes > limits.value_bytes) {
      break;
    }
    ops.push_back({row.value ? store::EventType::kPut : store::EventType::kDelete, found->first,
                   row.value.value_or(std::string()), std::nullopt});
    running_.insert(waiting_.extract(found));
    order_.pop_front();
  }
  if (ops.empty()) {
    return;
  }
  ++stats_.batches;
  store_.commit(std::move(ops),
                [this, &loop = loop_, alive = alive_.weak()](Expected<store::CommitResult> result) {
                  auto shared = std::make_shared<Expected<store::CommitResult>>(std::move(result));
                  loop.post([this, alive, shared] {
                    if (alive) {
                      committed(*shared);
                    }
                  });
                });
}

void ReplicaRows::committed(const Expected<store::CommitResult>& result) {
  if (result) {
    failures_ = 0;
    for (const auto& [key, row] : running_) {
      ++(row.value ? stats_.written : stats_.removed);
    }
    running_.clear();
    schedule();
    return;
  }
  ++stats_.failures;
  if (failures_ == 0) {
    log_warn("copies of other shards cannot be stored", {{"error", result.error().to_string()}});
  }
  while (!running_.empty()) {
    auto row = running_.extract(running_.begin());
    const std::string key = row.key();
    if (waiting_.insert(std::move(row)).inserted) {
      order_.push_front(key);
    }
  }
  retry_.start(std::min<Duration>(kLastRetry, kFirstRetry * (1LL << std::min(failures_, 7U))),
               [this] { flush(); });
  ++failures_;
}

}  // namespace kintsugi::controlplane
