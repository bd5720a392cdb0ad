#include "aggregation/position/internal/move_book.h"

#include <algorithm>
#include <utility>

namespace kintsugi::aggregation {
namespace {

using krm::Json;
using Key = std::array<std::string, 4>;

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
    const auto known = left_out_.find(key);
    const bool is_known = known != left_out_.end() && known->second.contains(cluster);
    const bool is_full = known != left_out_.end() && known->second.size() >= kMostClusters;
    if (!is_known && (is_full || count_all(left_out_) >= kMostInAll)) {
      return;
    }
    std::uint64_t& last = entry_of(left_out_, std::move(key))[cluster];
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
  const auto found = left_out_.find(key_of(uid, scope));
  return found == left_out_.end() ? LeftOut() : found->second;
}

void MoveBook::note_arrival(std::string_view uid, const Scope& scope, const std::string& cluster,
                            Arrival arrival) {
  bool first = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Key key = key_of(uid, scope);
    if (const auto found = left_out_.find(key); found != left_out_.end()) {
      found->second.erase(cluster);
      if (found->second.empty()) {
        left_out_.erase(found);
      }
    }
    has_left_out_ = !left_out_.empty();
    Arrival& known = entry_of(arrivals_, std::move(key));
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
  const auto found = arrivals_.find(key_of(uid, scope));
  return found == arrivals_.end() ? Arrival() : found->second;
}

Json MoveBook::to_json() {
  const std::lock_guard<std::mutex> lock(mutex_);
  dirty_ = false;
  Json left = Json::array();
  for (const auto& [key, clusters] : left_out_) {
    Json one = record_of(key);
    for (const auto& [cluster, revision] : clusters) {
      one.make({"clusters", cluster}) = Json(static_cast<std::int64_t>(revision));
    }
    left.push_back(std::move(one));
  }
  Json arrivals = Json::array();
  for (const auto& [key, arrival] : arrivals_) {
    Json one = record_of(key);
    one.make({"revision"}) = Json(static_cast<std::int64_t>(arrival.revision));
    one.make({"generation"}) = Json(static_cast<std::int64_t>(arrival.generation));
    arrivals.push_back(std::move(one));
  }
  return Json::object({{"leftOut", std::move(left)}, {"arrivals", std::move(arrivals)}});
}

Expected<void> MoveBook::restore(const Json& record) {
  const Json* left = record.find("leftOut");
  const Json* arrivals = record.find("arrivals");
  if (left == nullptr || arrivals == nullptr) {
    return fail(Errc::kCorrupt, "the record of moved clusters has no such lists");
  }
  std::map<Key, LeftOut> read_left;
  std::map<Key, Arrival> read_arrivals;
  Key key;
  for (const Json& one : left->items()) {
    const Json* clusters = one.find("clusters");
    if (!read_key(one, key) || clusters == nullptr || read_left.size() >= kMost) {
      return fail(Errc::kCorrupt, "the record of moved clusters cannot be read");
    }
    LeftOut& known = read_left[key];
    for (const auto& [cluster, revision] : clusters->members()) {
      known[std::string(cluster)] = number(&revision);
    }
  }
  for (const Json& one : arrivals->items()) {
    if (!read_key(one, key) || read_arrivals.size() >= kMost) {
      return fail(Errc::kCorrupt, "the record of moved clusters cannot be read");
    }
    read_arrivals[key] = {number(one.find("revision")),
                          static_cast<std::uint32_t>(number(one.find("generation")))};
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  left_out_ = std::move(read_left);
  arrivals_ = std::move(read_arrivals);
  has_left_out_ = !left_out_.empty();
  has_arrivals_ = !arrivals_.empty();
  return {};
}

}  // namespace kintsugi::aggregation
