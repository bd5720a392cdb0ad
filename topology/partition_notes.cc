#include "topology/partition_notes.h"

#include <utility>

#include "base/log.h"
#include "shards/own_requests.h"

namespace kintsugi::topology {
namespace {

using krm::Json;

constexpr std::string_view kGroup = "topology.kcp.io";
constexpr std::string_view kPartitions = "partitions";
constexpr Duration kTimeout = seconds(10);
constexpr Duration kOwnerPause = milliseconds(50);  // many logical clusters may come at once
constexpr std::size_t kLongestName = 253;

std::string key_of(ShardId shard, std::string_view cluster, std::string_view partition) {
  return std::to_string(shard) + "|" + std::string(cluster) + "|" + std::string(partition);
}

struct Key {
  ShardId shard = 0;
  std::string_view cluster, partition;
};
/// The last part is a tenant's text and may hold bars.
Key parse(std::string_view text) {
  const std::size_t first = text.find('|');
  const std::size_t second = text.find('|', first + 1);
  return {parse_decimal<ShardId>(text.substr(0, first)).value_or(0),
          text.substr(first + 1, second - first - 1), text.substr(second + 1)};
}

}  // namespace

PartitionNotes::PartitionNotes(net::Loop& loop, Objects& objects, PartitionNotesParams params)
    : loop_(loop),
      objects_(objects),
      params_(std::move(params)),
      queue_(loop, [this](const std::string& key, net::WorkQueue::Finished finished) {
        run(key, std::move(finished));
      }) {
  subscription_ = objects_.on_change(kGroup, kPartitions, [this](const Objects::Change& change) {
    for (const auto& [id, shard] : shards_) {
      const std::string key = key_of(id, change.cluster, change.name);
      if (shard.users.contains(key)) {
        queue_.add(key);
      }
    }
  });
}

PartitionNotes::~PartitionNotes() = default;

void PartitionNotes::set_active(bool active) {
  if (std::exchange(active_, active) || !active) {
    return;
  }
  for (auto& [id, shard] : shards_) {
    shard.told.clear();  // who knows what the other one has told
    add_all(shard);
  }
}

void PartitionNotes::on_change(const ShardChanged& change) {
  const auto found = shards_.find(change.shard.id);
  if (found == shards_.end()) {
    return;
  }
  if (!change.removed) {
    if (change.shard.up) {
      add_all(found->second);  // what it did not hear while it was away
    }
    return;
  }
  auto gone = std::make_shared<Shard>(std::move(found->second));
  shards_.erase(found);
  for (auto& [key, running] : gone->running) {
    running.call.reset();
    running.finished(true);
  }
}

void PartitionNotes::on_change(const WorkspaceChanged&) { look_for_owners(); }
void PartitionNotes::on_change(const LogicalClusterChanged&) { look_for_owners(); }

void PartitionNotes::on_change(const CachedSliceChanged& change) {
  const std::string slice = std::string(change.cluster) + "|" + std::string(change.name);
  const std::string_view partition =
      change.object == nullptr ? std::string_view() : change.object->text({"spec", "partition"});
  if (partition.empty() || partition.size() > kLongestName) {
    if (const auto shard = shards_.find(change.shard); shard != shards_.end()) {
      if (const auto known = shard->second.slices.find(slice);
          known != shard->second.slices.end()) {
        release(shard->second, known->second);
        shard->second.slices.erase(known);
      }
    }
    return;
  }
  Shard& shard = shards_[change.shard];
  std::string key = key_of(change.shard, change.cluster, partition);
  std::string& note = shard.slices[slice];
  if (note == key) {
    return;
  }
  if (!note.empty()) {
    release(shard, note);
  }
  note = std::move(key);
  ++shard.users[note];
  queue_.add(note);
}

/// One slice less needs it.
void PartitionNotes::release(Shard& shard, const std::string& key) {
  const auto users = shard.users.find(key);
  if (users != shard.users.end() && --users->second == 0) {
    shard.users.erase(users);
    shard.told.erase(key);  // the shard forgets what no slice names
  }
}

void PartitionNotes::on_change(const CachedSlicesSynced& change) {
  if (const auto shard = shards_.find(change.shard); shard != shards_.end()) {
    shard->second.told.clear();  // its store may be an older one
    add_all(shard->second);
  }
}

void PartitionNotes::add_all(const Shard& shard) {
  for (const auto& [key, slices] : shard.users) {
    if (!shard.told.contains(key)) {
      queue_.add(key);
    }
  }
}

void PartitionNotes::look_for_owners() {
  for (const std::string& key : std::exchange(lost_, {})) {
    queue_.add_once_after(key, kOwnerPause);
  }
}

std::string PartitionNotes::body_of(std::string_view cluster, std::string_view partition) const {
  Json body = Json::object({{"apiVersion", "topology.kcp.io/v1alpha1"}, {"kind", "PartitionNote"}});
  Json& spec = body["spec"];
  spec = Json::object({{"partition", partition}, {"source", params_.source}});
  const auto stored = objects_.get(cluster, kGroup, kPartitions, partition);
  if (!stored || stored->at({"metadata", "deletionTimestamp"}) != nullptr) {
    spec["gone"] = true;
  } else if (const Json* selector = stored->at({"spec", "selector"})) {
    spec["selector"] = *selector;
  }
  return body.dump();
}

void PartitionNotes::run(const std::string& text, net::WorkQueue::Finished finished) {
  const Key key = parse(text);
  const auto found = shards_.find(key.shard);
  if (!active_ || found == shards_.end() || !found->second.users.contains(text)) {
    finished(true);
    return;
  }
  Shard& shard = found->second;
  const std::optional<ShardId> owner = params_.owner(key.cluster);
  if (owner != key.shard) {
    lost_.insert(text);  // a shard learns nothing of what is elsewhere, whatever it says it has
    finished(true);
    return;
  }
  std::string body = body_of(key.cluster, key.partition);
  if (const auto told = shard.told.find(text); told != shard.told.end() && told->second == body) {
    finished(true);
    return;
  }
  net::FetchRequest request;
  request.method = "POST";
  request.target = shards::partition_note_target(key.cluster);
  request.headers.set("accept", "application/json");
  request.headers.set("content-type", "application/json");
  request.body = body;
  request.kind = net::UpstreamClass::kWrite;
  request.timeout = kTimeout;
  Running& running = shard.running[text];
  running.finished = std::move(finished);
  running.call = params_.send(
      key.shard, std::move(request),
      [this, id = key.shard, text, body = std::move(body)](
          const Expected<net::FetchResponse>& answer) { answered(id, text, body, answer); });
  if (running.call == nullptr) {
    const auto end = std::move(running.finished);
    shard.running.erase(text);
    ++stats_.failed;
    end(false);
  }
}

void PartitionNotes::answered(ShardId id, const std::string& key, const std::string& body,
                              const Expected<net::FetchResponse>& answer) {
  const auto found = shards_.find(id);
  if (found == shards_.end()) {
    return;
  }
  auto& all = found->second.running;
  const auto at = all.find(key);
  if (at == all.end()) {
    return;
  }
  const auto ended = std::make_shared<Running>(std::move(at->second));
  all.erase(at);
  loop_.defer([ended] {});  // the call is running this very function
  const int status = answer ? answer->status : 0;
  const bool is_refused = status >= 400 && status < 500 && status != 429;
  if (status >= 200 && status < 300) {
    ++stats_.told;
    found->second.told.insert_or_assign(key, body);
  } else if (is_refused) {
    ++stats_.refused;
    log_debug("a shard wants no note of a Partition", {{"key", key}, {"status", status}});
  } else {
    ++stats_.failed;
  }
  ended->finished(status != 0 && (status < 300 || is_refused));
}

}  // namespace kintsugi::topology
