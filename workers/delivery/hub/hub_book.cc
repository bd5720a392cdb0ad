#include "workers/delivery/hub/hub_book.h"

#include <algorithm>
#include <utility>

#include "base/digest.h"
#include "workers/delivery/protocol/resource_message.h"
#include "workers/delivery/protocol/topics.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

constexpr std::size_t kUidDigits = 32;
constexpr std::size_t kDashes[] = {8, 13, 18, 23};
constexpr std::string_view kOfHub[] = {"uid", "generation", "deletionTimestamp"};

/// What names an object, and nothing more.
Json reference(const Json& manifest) {
  Json meta = Json::object({{"name", manifest.text({"metadata", "name"})}});
  if (const std::string_view ns = manifest.text({"metadata", "namespace"}); !ns.empty()) {
    meta["namespace"] = ns;
  }
  return Json::object({{"apiVersion", manifest.text({"apiVersion"})},
                       {"kind", manifest.text({"kind"})},
                       {"metadata", std::move(meta)}});
}

std::int64_t number(const Json& json, std::string_view name) {
  const Json* const value = json.find(name);
  return value == nullptr ? 0 : value->as_integer();
}

std::int64_t wished_generation(const Json& manifest) {
  const Json* const value = manifest.at({"metadata", "generation"});
  return value == nullptr ? 0 : value->as_integer();
}

std::string made_uid(std::string_view client, const Json& manifest) {
  std::string text(client);
  for (const std::string_view part :
       {manifest.text({"apiVersion"}), manifest.text({"kind"}),
        manifest.text({"metadata", "namespace"}), manifest.text({"metadata", "name"})}) {
    text.append("\n").append(part);
  }
  std::string out = sha256_hex(text).substr(0, kUidDigits);
  for (const std::size_t at : kDashes) {
    out.insert(at, "-");
  }
  return out;
}

}  // namespace

std::optional<std::string> hub_uid(std::string_view client, const Json& manifest) {
  std::string uid(manifest.text({"metadata", "uid"}));
  if (uid.empty()) {
    uid = made_uid(client, manifest);
  }
  const bool fits = is_topic_level(uid) && !is_reserved_uid(uid) && uid.size() <= kMaxDeliveryUid;
  return fits ? std::optional(std::move(uid)) : std::nullopt;
}

std::string hub_order(Json manifest, const std::string& uid, std::int64_t generation,
                      const std::string& deletion, std::int64_t unix) {
  Json& meta = manifest.make({"metadata"});
  meta["uid"] = uid;
  meta["generation"] = generation;
  if (!deletion.empty()) {
    meta["deletionTimestamp"] = deletion;
  }
  return encode_resource_message(unix, "\"" + std::to_string(generation) + "\"", manifest);
}

std::string HubBook::topic(const std::string& uid, std::string_view leaf) const {
  return delivery_topic(params_.prefix, params_.client, uid, leaf);
}

void HubBook::queue(const std::string& uid, Entry& entry) {
  if (!std::exchange(entry.queued, true)) {
    queue_.push_back(uid);
  }
}

std::vector<std::string> HubBook::wish(const std::vector<Wish>& wishes,
                                       const std::set<std::string>& unreadable) {
  std::vector<std::string> wrong;
  std::set<std::string> seen;
  for (const Wish& one : wishes) {
    const auto uid = hub_uid(params_.client, one.manifest);
    if (!uid) {
      wrong.push_back(one.file + ": metadata.uid is none that a topic can have");
    } else if (!seen.insert(*uid).second) {
      wrong.push_back(one.file + ": another object has the uid " + *uid);
    } else {
      want(*uid, one);
    }
  }
  for (auto& [uid, entry] : entries_) {
    if (!entry.deleting() && seen.count(uid) == 0 && unreadable.count(entry.file) == 0) {
      drop(uid, entry);
    }
  }
  return wrong;
}

void HubBook::want(const std::string& uid, const Wish& wish) {
  Json manifest = wish.manifest;
  const std::int64_t wished = wished_generation(manifest);
  Json& meta = manifest.make({"metadata"});
  for (const std::string_view name : kOfHub) {
    meta.erase(name);
  }
  std::string hash = sha256_hex(manifest.dump());
  const auto [at, is_new] = entries_.try_emplace(uid);
  Entry& entry = at->second;
  const bool same = !is_new && !entry.deleting() && entry.hash == hash;
  ordered_ = ordered_ || !same || entry.file != wish.file;
  entry.file = wish.file;
  if (same && entry.has_manifest) {
    return;
  }
  entry.manifest = std::move(manifest);
  entry.has_manifest = true;
  if (same) {
    if (entry.answered < entry.generation) {
      queue(uid, entry);
    }
    return;
  }
  entry.young = is_new;
  const std::int64_t next = is_new ? floor_ + 1 : entry.generation + 1;
  entry.generation = std::max(next, wished);
  entry.hash = std::move(hash);
  entry.deletion.clear();
  entry.sent.reset();
  queue(uid, entry);
}

void HubBook::drop(const std::string& uid, Entry& entry) {
  entry.manifest = reference(entry.manifest);
  entry.deletion = rfc3339(unix_seconds());
  ++entry.generation;
  entry.hash.clear();
  entry.file.clear();
  entry.sent.reset();
  ordered_ = true;
  queue(uid, entry);
}

/// A deletion is over: nothing of it stays retained, first the status, then the content.
void HubBook::clear(const std::string& uid) {
  for (const std::string_view leaf : {"status", "content"}) {
    clears_.push_back({topic(uid, leaf), ""});
  }
  if (const auto at = entries_.find(uid); at != entries_.end()) {
    floor_ = std::max(floor_, at->second.generation);
    entries_.erase(at);
    ordered_ = true;
  }
}

bool HubBook::take_status(const std::string& uid, const ReceivedStatus& status) {
  const auto at = entries_.find(uid);
  if (at == entries_.end()) {
    if (status.is_deleted()) {
      clear(uid);
    }
    return true;
  }
  Entry& entry = at->second;
  if (status.sequence != 0 && status.sequence <= entry.sequence) {
    return false;
  }
  dirty_ = true;
  entry.sequence = std::max(entry.sequence, status.sequence);
  entry.status_hash = status.hash;
  const std::string current = "\"" + std::to_string(entry.generation) + "\"";
  const std::int64_t answers = status.generation == 0 && status.resource_generation_id == current
                                   ? entry.generation
                                   : status.generation;
  if (answers > entry.generation) {
    raise(uid, entry, answers);
    return true;
  }
  entry.answered = std::max(entry.answered, answers);
  if (entry.answered == entry.generation) {
    entry.young = false;
    on_way_.erase(uid);
    if (entry.deleting() && status.is_deleted()) {
      clear(uid);
    }
  }
  return true;
}

/// The client knows a later order than this book, which was lost: ours has to be above. Once, so
/// that two hubs do not outbid each other.
void HubBook::raise(const std::string& uid, Entry& entry, std::int64_t above) {
  if (std::exchange(entry.young, false)) {
    entry.generation = above + 1;
    ordered_ = true;
    queue(uid, entry);
  }
}

void HubBook::take_versions(const std::vector<ResyncItem>& items) {
  std::map<std::string_view, const ResyncItem*> has;
  for (const ResyncItem& item : items) {
    has[item.uid] = &item;
  }
  for (auto& [uid, entry] : entries_) {
    const auto found = has.find(uid);
    if (found != has.end() && found->second->generation > entry.generation) {
      raise(uid, entry, found->second->generation);
    }
    const bool current = found != has.end() && found->second->generation >= entry.generation &&
                         (found->second->deleted || !entry.deleting());
    if (!current) {
      queue(uid, entry);
    }
  }
  if (!params_.authoritative) {
    return;
  }
  for (const ResyncItem& item : items) {
    if (item.deleted || entries_.find(item.uid) != entries_.end()) {
      continue;
    }
    Entry& entry = entries_[item.uid];
    entry.manifest = Json::object({{"metadata", Json::object()}});
    entry.generation = item.generation;
    drop(item.uid, entry);
    entry.has_manifest = true;
  }
}

std::vector<ResyncItem> HubBook::status_hashes() const {
  std::vector<ResyncItem> out;
  for (const auto& [uid, entry] : entries_) {
    out.push_back({uid, 0, false, entry.status_hash});
  }
  return out;
}

std::size_t HubBook::unanswered() const {
  return static_cast<std::size_t>(
      std::count_if(entries_.begin(), entries_.end(), [](const auto& one) {
        return one.second.answered < one.second.generation || one.second.deleting();
      }));
}

void HubBook::look_for_late(TimePoint now) {
  std::erase_if(on_way_, [&](const auto& one) { return now - one.second >= params_.answer; });
  for (auto& [uid, entry] : entries_) {
    if (!entry.sent) {
      continue;
    }
    const bool is_late =
        entry.deleting() ? now - *entry.sent >= params_.resend_delete
                         : entry.answered < entry.generation && now - *entry.sent >= params_.resend;
    if (is_late) {
      queue(uid, entry);
    }
  }
}

std::vector<HubBook::Publication> HubBook::due(TimePoint now, std::int64_t unix) {
  look_for_late(now);
  std::vector<Publication> out = std::exchange(clears_, {});
  while (!queue_.empty() && on_way_.size() < params_.on_way) {
    const std::string uid = std::move(queue_.front());
    queue_.pop_front();
    const auto at = entries_.find(uid);
    if (at == entries_.end()) {
      continue;
    }
    Entry& entry = at->second;
    entry.queued = false;
    if (!entry.has_manifest && !entry.deleting()) {
      continue;  // it comes with its file
    }
    out.push_back({topic(uid, "content"),
                   hub_order(entry.manifest, uid, entry.generation, entry.deletion, unix)});
    entry.sent = now;
    on_way_[uid] = now;
  }
  return out;
}

Json HubBook::encode() {
  Json objects = Json::array();
  for (const auto& [uid, entry] : entries_) {
    Json one = Json::object({{"uid", uid},
                             {"file", entry.file},
                             {"hash", entry.hash},
                             {"generation", entry.generation},
                             {"answered", entry.answered},
                             {"sequence", entry.sequence},
                             {"statusHash", entry.status_hash},
                             {"object", reference(entry.manifest)}});
    if (entry.deleting()) {
      one["deletion"] = entry.deletion;
    }
    objects.push_back(std::move(one));
  }
  dirty_ = ordered_ = false;
  return Json::object({{"floor", floor_}, {"objects", std::move(objects)}});
}

bool HubBook::decode(const Json& json) {
  const Json* const objects = json.find("objects");
  if (objects == nullptr || !objects->is_array()) {
    return false;
  }
  floor_ = number(json, "floor");
  for (const Json& one : objects->items()) {
    Entry entry;
    entry.file = one.text({"file"});
    entry.hash = one.text({"hash"});
    entry.deletion = one.text({"deletion"});
    entry.generation = number(one, "generation");
    entry.answered = number(one, "answered");
    entry.sequence = static_cast<std::uint64_t>(number(one, "sequence"));
    entry.status_hash = one.text({"statusHash"});
    if (const Json* const object = one.find("object"); object != nullptr) {
      entry.manifest = *object;
    }
    const std::string uid(one.text({"uid"}));
    Entry& kept = entries_[uid] = std::move(entry);
    if (kept.deleting()) {  // others wait for their files
      queue(uid, kept);
    }
  }
  return true;
}

}  // namespace kintsugi::workers
