#include "topology/partition_set.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/digest.h"
#include "topology/conditions.h"

namespace kintsugi::topology {
namespace {

using krm::Json;
using Tuple = std::map<std::string, std::string>;

constexpr std::string_view kAlphabet = "bcdfghjklmnpqrstvwxz2456789";
constexpr std::size_t kBaseLength = 58;
constexpr std::size_t kSuffixLength = 5;
constexpr std::string_view kGroup = "topology.kcp.io";
constexpr std::string_view kApiVersion = "topology.kcp.io/v1alpha1";

std::string readable_part(std::string_view value) {
  std::string out;
  for (const char c : value) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    const bool plain = (lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9');
    out += plain ? lower : '-';
  }
  return out;
}

bool owned_by(const Json& partition, std::string_view set_uid) {
  const Json* owners = partition.at({"metadata", "ownerReferences"});
  if (owners == nullptr || set_uid.empty()) {
    return false;
  }
  return std::any_of(owners->items().begin(), owners->items().end(), [&](const Json& owner) {
    return owner.text({"uid"}) == set_uid && owner.text({"kind"}) == "PartitionSet" &&
           owner.text({"apiVersion"}).substr(0, kGroup.size()) == kGroup;
  });
}

Json owner_reference(const Json& set) {
  return Json::object({{"apiVersion", kApiVersion},
                       {"kind", "PartitionSet"},
                       {"name", set.text({"metadata", "name"})},
                       {"uid", set.text({"metadata", "uid"})},
                       {"controller", true},
                       {"blockOwnerDeletion", true}});
}

/// The selector of a wanted Partition: the tuple as matchLabels, the set's expressions as they are.
Json wanted_selector(const Json& set, const Tuple& tuple) {
  Json selector = Json::object();
  if (!tuple.empty()) {
    Json& labels = selector["matchLabels"];
    labels = Json::object();
    for (const auto& [key, value] : tuple) {
      labels[key] = value;
    }
  }
  const Json* expressions = set.at({"spec", "shardSelector", "matchExpressions"});
  if (expressions != nullptr && expressions->size() > 0) {
    selector["matchExpressions"] = *expressions;
  }
  return selector;
}

bool has_right_owner(const Json& partition, const Json& wanted) {
  const Json* owners = partition.at({"metadata", "ownerReferences"});
  return owners != nullptr && std::any_of(owners->items().begin(), owners->items().end(),
                                          [&](const Json& owner) { return owner == wanted; });
}

/// Replaces the reference of the same uid, keeps foreign ones.
void put_owner(Json& partition, const Json& wanted) {
  Json& owners = partition.make({"metadata", "ownerReferences"});
  Json::Array& list = owners.edit_items();
  std::erase_if(list,
                [&](const Json& owner) { return owner.text({"uid"}) == wanted.text({"uid"}); });
  list.push_back(wanted);
}

bool older(const Json& a, const Json& b) {
  return std::tuple(a.text({"metadata", "creationTimestamp"}), a.text({"metadata", "name"})) <
         std::tuple(b.text({"metadata", "creationTimestamp"}), b.text({"metadata", "name"}));
}

std::set<std::string> dimension_keys(const Json& set) {
  std::set<std::string> keys;
  if (const Json* dimensions = set.at({"spec", "dimensions"})) {
    for (const Json& dimension : dimensions->items()) {
      keys.emplace(dimension.as_string());
    }
  }
  return keys;
}

/// Tuples keyed by the dimension values, as two shards that differ only in other labels share one.
std::map<Tuple, Tuple> wanted_tuples(const Json& set, const krm::Selector& selector,
                                     const std::set<std::string>& dimensions,
                                     const std::vector<ShardFacts>& shards) {
  std::set<std::string> keys = dimensions;
  if (const Json* labels = set.at({"spec", "shardSelector", "matchLabels"})) {
    for (const krm::JsonMember& member : labels->members()) {
      keys.insert(member.key);
    }
  }
  std::map<Tuple, Tuple> tuples;
  if (keys.empty()) {
    return tuples;
  }
  for (const ShardFacts& shard : shards) {
    if (!selector.matches(shard.labels)) {
      continue;
    }
    Tuple all;
    Tuple dims;
    for (const std::string& key : keys) {
      const Json* value = shard.labels.find(key);
      if (value == nullptr) {
        break;
      }
      all.emplace(key, value->as_string());
      if (dimensions.contains(key)) {
        dims.emplace(key, value->as_string());
      }
    }
    if (all.size() == keys.size()) {
      tuples.emplace(std::move(dims), std::move(all));
    }
  }
  return tuples;
}

/// Of the owned Partitions the one to keep for a tuple: by name, else by equal selector and age.
/// Taken out of `owned`.
const Json* take_match(std::vector<const Json*>& owned, std::string_view name,
                       const Json& selector) {
  auto best = std::find_if(owned.begin(), owned.end(), [&](const Json* one) {
    return one->text({"metadata", "name"}) == name;
  });
  if (best == owned.end()) {
    for (auto it = owned.begin(); it != owned.end(); ++it) {
      const Json* stored = (*it)->at({"spec", "selector"});
      if (stored != nullptr && *stored == selector &&
          (best == owned.end() || older(**it, **best))) {
        best = it;
      }
    }
  }
  if (best == owned.end()) {
    return nullptr;
  }
  const Json* found = *best;
  owned.erase(best);
  return found;
}

/// The first name of the tuple that nothing else holds: an object that the set does not own, or
/// another tuple of the set.
std::string free_name(const Json& set, const Tuple& dims,
                      const std::map<std::string, const Json*, std::less<>>& by_name,
                      const std::set<std::string>& taken) {
  const std::vector<std::pair<std::string, std::string>> dimensions(dims.begin(), dims.end());
  const std::string_view uid = set.text({"metadata", "uid"});
  for (int attempt = 0;; ++attempt) {
    std::string name = partition_name(set.text({"metadata", "name"}), dimensions, attempt);
    const auto stored = by_name.find(name);
    const bool foreign = stored != by_name.end() && !owned_by(*stored->second, uid);
    if (!foreign && !taken.contains(name)) {
      return name;
    }
  }
}

}  // namespace

Expected<krm::Selector> selector_of(const Json* label_selector) {
  static const Json kAll = Json::object();
  return krm::Selector::from_json(label_selector != nullptr ? *label_selector : kAll);
}

std::string partition_name(std::string_view set_name,
                           const std::vector<std::pair<std::string, std::string>>& dimensions,
                           int attempt) {
  std::string base(set_name);
  std::string text = "kintsugi-partition/1\n";
  for (const auto& [key, value] : dimensions) {
    base += "-" + readable_part(value);
    text += key + "=" + value + "\n";
  }
  base += "-";
  base.resize(std::min(base.size(), kBaseLength));
  if (attempt > 0) {
    text += "#" + std::to_string(attempt) + "\n";
  }
  const auto digest = sha256(text);
  for (std::size_t i = 0; i < kSuffixLength; ++i) {
    base += kAlphabet[digest[i] % kAlphabet.size()];
  }
  return base;
}

PartitionSetPlan plan_partition_set(const Json& set, const std::vector<ShardFacts>& shards,
                                    const std::vector<Json>& partitions) {
  PartitionSetPlan plan;
  const auto selector = selector_of(set.at({"spec", "shardSelector"}));
  if (!selector) {
    plan.fault = selector.error().message();
    return plan;
  }
  const std::set<std::string> dimensions = dimension_keys(set);
  const std::map<Tuple, Tuple> tuples = wanted_tuples(set, *selector, dimensions, shards);
  plan.count = static_cast<std::int64_t>(tuples.size());

  const std::string_view uid = set.text({"metadata", "uid"});
  std::map<std::string, const Json*, std::less<>> by_name;
  std::vector<const Json*> owned;
  for (const Json& partition : partitions) {
    by_name.emplace(partition.text({"metadata", "name"}), &partition);
    if (owned_by(partition, uid) && partition.at({"metadata", "deletionTimestamp"}) == nullptr) {
      owned.push_back(&partition);
    }
  }
  const Json owner = owner_reference(set);
  std::set<std::string> taken;
  for (const auto& [dims, tuple] : tuples) {
    const Json wanted = wanted_selector(set, tuple);
    const std::string name = free_name(set, dims, by_name, taken);
    const Json* kept = take_match(owned, name, wanted);
    if (kept == nullptr) {
      taken.insert(name);
      plan.create.push_back(Json::object(
          {{"apiVersion", kApiVersion},
           {"kind", "Partition"},
           {"metadata", Json::object({{"name", name}, {"ownerReferences", Json::array({owner})}})},
           {"spec", Json::object({{"selector", wanted}})}}));
      continue;
    }
    taken.emplace(kept->text({"metadata", "name"}));
    const Json* stored = kept->at({"spec", "selector"});
    const bool right = stored != nullptr && *stored == wanted;
    if (!right || !has_right_owner(*kept, owner)) {
      Json changed = *kept;
      changed.make({"spec", "selector"}) = wanted;
      put_owner(changed, owner);
      plan.update.push_back(std::move(changed));
    }
  }
  for (const Json* left : owned) {
    plan.remove.push_back(*left);
  }
  return plan;
}

Json partition_set_status(const Json& set, const PartitionSetPlan& plan, std::string_view failure,
                          std::string_view now) {
  const Json* old = set.find("status");
  Json status = old != nullptr && old->is_object() ? *old : Json::object();
  Condition valid{.type = "PartitionSetValid"};
  Condition ready{.type = "PartitionsReady"};
  if (!plan.fault.empty()) {
    valid = {"PartitionSetValid", "False", "InvalidSelector", "Error", plan.fault};
    ready = {"PartitionsReady", "False", "ErrorGeneratingPartitions", "Error", ""};
    if (status.find("count") == nullptr) {
      status["count"] = 0;
    }
  } else {
    status["count"] = plan.count;
    if (!failure.empty()) {
      ready = {"PartitionsReady", "False", "ErrorGeneratingPartitions", "Error",
               std::string(failure)};
    }
  }
  status["conditions"] =
      render_conditions({valid, ready}, old != nullptr ? old->find("conditions") : nullptr, now);
  return status;
}

}  // namespace kintsugi::topology
