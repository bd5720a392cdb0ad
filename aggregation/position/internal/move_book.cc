#include "aggregation/position/internal/move_book.h"

#include <algorithm>
#include <utility>

#include "krm/other_members.h"

namespace kintsugi::aggregation {
namespace {

using krm::Json;
using Key = MoveBook::Key;

constexpr std::size_t kMostInAll = 16'384;  ///< clusters that are left out, of all shards

std::size_t count_all(const std::map<Key, MoveBook::LeftOut>& left_out) {
  std::size_t sum = 0;
  for (const auto& [key, clusters] : left_out) {
    sum += clusters.size();
  }
  return sum;
}

Key key_of(std::string_view uid, const Scope& scope) {
  return {std::string(uid), scope.route, scope.group, scope.resource};
}

/// Makes room for one more.
template <class Map>
auto& entry_of(Map& map, Key key) {
  if (map.size() >= MoveBook::kMost && !map.contains(key)) {
    map.erase(map.begin());
  }
  return map[std::move(key)];
}

/// Of a cluster that is left out; null: it is not.
const std::uint64_t* last_of(const MoveBook::Record& record, const Key& key,
                             const std::string& cluster) {
  const auto found = record.left_out.find(key);
  if (found == record.left_out.end()) {
    return nullptr;
  }
  const auto last = found->second.find(cluster);
  return last == found->second.end() ? nullptr : &last->second;
}

Json record_of(const Key& key) {
  Json out = Json::array();
  for (const std::string& part : key) {
    out.push_back(part);
  }
  return Json::object({{"of", std::move(out)}});
}

bool read_key(const Json& record, Key& key) {
  const Json* parts = record.find("of");
  if (parts == nullptr || parts->items().size() != key.size()) {
    return false;
  }
  for (std::size_t i = 0; i < key.size(); ++i) {
    key[i] = parts->items()[i].as_string();
  }
  return true;
}

std::uint64_t number(const Json* json) {
  return json == nullptr
             ? 0
             : static_cast<std::uint64_t>(std::max<std::int64_t>(0, json->as_integer()));
}

}  // namespace

void MoveBook::tell(bool first) const {
  if (first && changed_) {
    changed_();
  }
}

void MoveBook::leave_out(std::string_view uid, const Scope& scope, const std::string& cluster,
                         std::uint64_t revision) {
  bool first = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Key key = key_of(uid, scope);
    const auto known = all_.left_out.find(key);
    const bool is_known = known != all_.left_out.end() && known->second.contains(cluster);
    const bool is_full = known != all_.left_out.end() && known->second.size() >= kMostClusters;
    if (!is_known && (is_full || count_all(all_.left_out) >= kMostInAll)) {
      return;
    }
    std::uint64_t& last = entry_of(all_.left_out, std::move(key))[cluster];
    if (last >= revision && last != 0) {
      return;
    }
    last = revision;
    has_left_out_ = true;
    first = !std::exchange(dirty_, true);
  }
  tell(first);
}

MoveBook::LeftOut MoveBook::left_out(std::string_view uid, const Scope& scope) const {
  if (!has_left_out_) {
    return {};
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = all_.left_out.find(key_of(uid, scope));
  return found == all_.left_out.end() ? LeftOut() : found->second;
}

void MoveBook::note_arrival(std::string_view uid, const Scope& scope, const std::string& cluster,
                            Arrival arrival) {
  bool first = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Key key = key_of(uid, scope);
    if (const auto found = all_.left_out.find(key); found != all_.left_out.end()) {
      found->second.erase(cluster);
      if (found->second.empty()) {
        all_.left_out.erase(found);
      }
    }
    has_left_out_ = !all_.left_out.empty();
    Arrival& known = entry_of(all_.arrivals, std::move(key));
    known = {std::max(known.revision, arrival.revision), arrival.generation};
    has_arrivals_ = true;
    first = !std::exchange(dirty_, true);
  }
  tell(first);
}

MoveBook::Arrival MoveBook::arrival(std::string_view uid, const Scope& scope) const {
  if (!has_arrivals_) {
    return {};
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = all_.arrivals.find(key_of(uid, scope));
  return found == all_.arrivals.end() ? Arrival() : found->second;
}

MoveBook::Record MoveBook::record() {
  const std::lock_guard<std::mutex> lock(mutex_);
  dirty_ = false;
  return all_;
}

Json MoveBook::Record::to_json() const {
  Json left = Json::array();
  for (const auto& [key, clusters] : left_out) {
    Json one = record_of(key);
    for (const auto& [cluster, revision] : clusters) {
      one.make({"clusters", cluster}) = Json(static_cast<std::int64_t>(revision));
    }
    left.push_back(std::move(one));
  }
  Json came = Json::array();
  for (const auto& [key, arrival] : arrivals) {
    Json one = record_of(key);
    one.make({"revision"}) = Json(static_cast<std::int64_t>(arrival.revision));
    one.make({"generation"}) = Json(static_cast<std::int64_t>(arrival.generation));
    came.push_back(std::move(one));
  }
  Json record = Json::object({{"leftOut", std::move(left)}, {"arrivals", std::move(came)}});
  krm::add_members(record, others);
  return record;
}

Expected<MoveBook::Record> MoveBook::Record::from_json(const Json& json) {
  const Json* left = json.find("leftOut");
  const Json* came = json.find("arrivals");
  if (left == nullptr || came == nullptr) {
    return fail(Errc::kCorrupt, "the record of moved clusters has no such lists");
  }
  Record record;
  Key key;
  for (const Json& one : left->items()) {
    const Json* clusters = one.find("clusters");
    if (!read_key(one, key) || clusters == nullptr || record.left_out.size() >= kMost) {
      return fail(Errc::kCorrupt, "the record of moved clusters cannot be read");
    }
    LeftOut& known = record.left_out[key];
    for (const auto& [cluster, revision] : clusters->members()) {
      known[std::string(cluster)] = number(&revision);
    }
  }
  for (const Json& one : came->items()) {
    if (!read_key(one, key) || record.arrivals.size() >= kMost) {
      return fail(Errc::kCorrupt, "the record of moved clusters cannot be read");
    }
    record.arrivals[key] = {number(one.find("revision")),
                            static_cast<std::uint32_t>(number(one.find("generation")))};
  }
  record.others = krm::other_members(json, {"leftOut", "arrivals"});
  return record;
}

void MoveBook::take(const Record& known, const Record& theirs) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [key, clusters] : known.left_out) {
    for (const auto& [cluster, revision] : clusters) {
      if (last_of(theirs, key, cluster) == nullptr) {
        erase(key, cluster, revision);
      }
    }
  }
  for (const auto& [key, clusters] : theirs.left_out) {
    for (const auto& [cluster, revision] : clusters) {
      const std::uint64_t* const before = last_of(known, key, cluster);
      const bool is_news = before == nullptr || *before < revision;
      if (is_news && count_all(all_.left_out) < kMostInAll) {
        std::uint64_t& last = entry_of(all_.left_out, key)[cluster];
        last = std::max(last, revision);
      }
    }
  }
  for (const auto& [key, arrival] : theirs.arrivals) {
    Arrival& mine = entry_of(all_.arrivals, key);
    mine = std::max(mine, arrival, [](const Arrival& one, const Arrival& other) {
      return one.revision < other.revision;
    });
  }
  all_.others = theirs.others;
  has_left_out_ = !all_.left_out.empty();
  has_arrivals_ = !all_.arrivals.empty();
}

/// Somebody was told of it: what is not newer than that goes.
void MoveBook::erase(const Key& key, const std::string& cluster, std::uint64_t revision) {
  const auto found = all_.left_out.find(key);
  if (found == all_.left_out.end()) {
    return;
  }
  const auto last = found->second.find(cluster);
  if (last != found->second.end() && last->second <= revision) {
    found->second.erase(last);
  }
  if (found->second.empty()) {
    all_.left_out.erase(found);
  }
}

}  // namespace kintsugi::aggregation
