#include "krm/internal/strategic_list.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "krm/go_value.h"
#include "krm/status.h"

namespace kintsugi::krm::strategic {
namespace {

constexpr std::string_view kMapType = "map[string]interface {}";

constexpr std::size_t kMaxListElements = 100'000;

/// Equal for values that Go's == holds to be equal.
std::string identity(const Json& value) {
  return std::string(go_type_text(value)) + ' ' + value.dump();
}

Error no_merge_key(const Json& item, std::string_view key) {
  return unclassified("map: " + go_value_text(item) +
                      " does not contain declared merge key: " + std::string(key));
}

/// The value of the merge key.
Expected<const Json*> key_of(const Json& item, std::string_view key) {
  if (!item.is_object()) {
    return fail(bad_argument(kMapType, item));
  }
  const Json* value = item.find(key);
  if (value == nullptr) {
    return fail(no_merge_key(item, key));
  }
  return value;
}

/// What tells elements apart: the value of the merge key, or the element itself.
std::string identity_of(const Json& item, std::string_view key) {
  if (key.empty() || !item.is_object()) {
    return identity(item);
  }
  const Json* value = item.find(key);
  return identity(value == nullptr ? Json() : *value);
}

/// Element -> first place in a list.
class Places {
 public:
  Places(const Json::Array& list, std::string_view key) : key_(key) {
    std::size_t place = 0;
    for (const Json& item : list) {
      places_.emplace(identity_of(item, key), place++);
    }
  }
  [[nodiscard]] std::optional<std::size_t> find(const Json& item) const {
    const auto it = places_.find(identity_of(item, key_));
    return it == places_.end() ? std::nullopt : std::optional(it->second);
  }

 private:
  std::string key_;
  std::unordered_map<std::string, std::size_t> places_;
};

struct Parts {
  Json::Array named;  ///< present in the list that gives the order
  Json::Array others;
};

Expected<Parts> split_by(Json::Array list, const Json::Array& by, std::string_view key) {
  Parts parts;
  const Places places(by, key);
  const auto stranger =
      std::find_if(by.begin(), by.end(), [](const Json& item) { return !item.is_object(); });
  const auto first_stranger = static_cast<std::size_t>(stranger - by.begin());
  for (Json& item : list) {
    if (!key.empty()) {
      if (const Expected<const Json*> value = key_of(item, key); !value) {
        return fail(value.error().clone());
      }
    }
    const std::optional<std::size_t> place = places.find(item);
    if (!key.empty() && stranger != by.end() && place.value_or(by.size()) >= first_stranger) {
      return fail(
          unclassified("value for key " + std::to_string(first_stranger) + " is not a map"));
    }
    (place ? parts.named : parts.others).push_back(std::move(item));
  }
  return parts;
}

/// Go's stable sort by place; elements without one are "less" than any other, in both directions,
/// which insertion (Go's way for short lists) makes sense of.
void sort_by_place(Json::Array& list, const Places& places) {
  constexpr std::size_t kInsertionLength = 20;
  std::vector<std::pair<std::optional<std::size_t>, std::size_t>> order;
  bool complete = true;
  for (std::size_t i = 0; i < list.size(); ++i) {
    order.emplace_back(places.find(list[i]), i);
    complete = complete && order.back().first.has_value();
  }
  if (complete || list.size() > kInsertionLength) {
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
  } else {
    for (std::size_t i = 1; i < order.size(); ++i) {
      for (std::size_t j = i; j > 0; --j) {
        const auto& [here, mine] = order[j];
        const auto& [before, theirs] = order[j - 1];
        if (here && before && *here >= *before) {
          break;
        }
        std::swap(order[j], order[j - 1]);
      }
    }
  }
  Json::Array sorted;
  sorted.reserve(list.size());
  for (const auto& [place, index] : order) {
    sorted.push_back(std::move(list[index]));
  }
  list = std::move(sorted);
}

Expected<void> normalize(Json::Array& list, const Json::Array& order, std::string_view key,
                         bool maps) {
  if (!maps) {
    sort_by_place(list, Places(order, {}));
    return {};
  }
  for (const Json::Array* each : {static_cast<const Json::Array*>(&list), &order}) {
    for (const Json& item : *each) {
      if (const Expected<const Json*> value = key_of(item, key); !value) {
        return fail(value.error().clone());
      }
    }
  }
  const auto deleted = std::stable_partition(list.begin(), list.end(), [](const Json& item) {
    return item.text({kDirective}) != "delete";
  });
  Json::Array last(std::make_move_iterator(deleted), std::make_move_iterator(list.end()));
  list.erase(deleted, list.end());
  sort_by_place(list, Places(order, key));
  std::move(last.begin(), last.end(), std::back_inserter(list));
  return {};
}

/// Named elements keep their order and come first, but others of the server that stood before them
/// stay before them.
Expected<Json::Array> arrange(Parts parts, const Json::Array& patch_order,
                              const Json::Array& server_order, std::string_view key, bool maps) {
  if (Expected<void> done = normalize(parts.named, patch_order, key, maps); !done) {
    return fail(std::move(done.error()));
  }
  if (Expected<void> done = normalize(parts.others, server_order, key, maps); !done) {
    return fail(std::move(done.error()));
  }
  const Places places(server_order, maps ? key : std::string_view());
  Json::Array all;
  all.reserve(parts.named.size() + parts.others.size());
  auto left = parts.others.begin();
  auto right = parts.named.begin();
  while (left != parts.others.end() && right != parts.named.end()) {
    const std::optional<std::size_t> other = places.find(*left);
    const std::optional<std::size_t> named = places.find(*right);
    const bool other_first = other && named && *other < *named;
    all.push_back(std::move(other_first ? *left++ : *right++));
  }
  std::move(left, parts.others.end(), std::back_inserter(all));
  std::move(right, parts.named.end(), std::back_inserter(all));
  return all;
}

/// @error kRequestEntityTooLarge for lists that would keep a loop busy.
Expected<void> check_length(std::size_t elements) {
  if (elements > kMaxListElements) {
    return fail(Errc::kRequestEntityTooLarge,
                "Request entity too large: The allowed maximum elements in a merged list is " +
                    std::to_string(kMaxListElements) + ", got " + std::to_string(elements));
  }
  return {};
}

/// True for maps. Elements must be of one type and no lists.
Expected<bool> elements_are_maps(const Json::Array& first, const Json::Array& second) {
  const Json* model = nullptr;
  for (const Json::Array* list : {&first, &second}) {
    for (const Json& item : *list) {
      model = model == nullptr ? &item : model;
      if (model->is_array()) {
        return fail(invalid_patch());
      }
      if (model->is_null() || go_type_text(*model) != go_type_text(item)) {
        return fail(unclassified("list element types are not identical: [" +
                                 go_value_text(Json(first)) + " " + go_value_text(Json(second)) +
                                 "]"));
      }
    }
  }
  if (model == nullptr) {
    return fail(unclassified("no elements in any of the given slices"));
  }
  return model->is_object();
}

/// A list with a merge key on its way: elements go, are merged and are added.
class KeyedMerge {
 public:
  KeyedMerge(const ListRule& rule, Json::Array original)
      : rule_(rule), list_(std::move(original)), count_(list_.size()) {}

  Expected<Json::Array> run(Json::Array& patch, Json::Array* leftover) {
    Expected<void> done = take_directives(patch);
    if (done) {
      base_ = list_;
      done = merge_items(patch);
    }
    if (!done) {
      return fail(std::move(done.error()));
    }
    if (leftover != nullptr) {
      leave(*leftover);
    }
    Json::Array order;
    if (!replaces_) {
      std::copy_if(patch.begin(), patch.end(), std::back_inserter(order),
                   [](const Json& item) { return item.find(kDirective) == nullptr; });
    }
    Expected<Parts> parts = split_by(std::move(list_), order, rule_.merge_key);
    if (!parts) {
      return fail(std::move(parts.error()));
    }
    return arrange(std::move(*parts), order, base_, rule_.merge_key, true);
  }

 private:
  Expected<void> take_directives(const Json::Array& patch) {
    std::unordered_map<std::string, std::vector<std::size_t>> by_key;
    for (std::size_t i = 0; i < list_.size(); ++i) {
      if (const Json* value = list_[i].find(rule_.merge_key)) {
        by_key[identity(*value)].push_back(i);
      }
    }
    std::vector<bool> gone(list_.size(), false);
    std::size_t last = list_.size();
    for (const Json& item : patch) {
      const Json* directive = item.find(kDirective);
      if (directive == nullptr) {
        continue;
      }
      if (*directive == Json("delete")) {
        const Expected<const Json*> value = key_of(item, rule_.merge_key);
        if (!value) {
          return fail(value.error().clone());
        }
        for (const std::size_t index : std::exchange(by_key[identity(**value)], {})) {
          while (last > 0 && gone[last - 1]) {
            --last;
          }
          stale_.push_back(list_[last - 1]);
          gone[index] = true;
        }
      } else if (*directive == Json("replace")) {
        replaces_ = true;
      } else if (*directive == Json("merge")) {
        return fail(unclassified("merging lists cannot yet be specified in the patch"));
      } else {
        return fail(unclassified("unknown patch type: " + go_value_text(*directive, 's') +
                                 " in map: " + go_value_text(item)));
      }
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < list_.size(); ++i) {
      if (!gone[i]) {
        if (kept != i) {
          list_[kept] = std::move(list_[i]);
        }
        ++kept;
      }
    }
    list_.resize(kept);
    if (replaces_) {
      memory_ = std::move(list_);
      list_.clear();
      std::copy_if(patch.begin(), patch.end(), std::back_inserter(list_),
                   [](const Json& item) { return item.find(kDirective) == nullptr; });
    }
    return {};
  }

  Expected<void> merge_items(Json::Array& patch) {
    if (replaces_) {
      return {};
    }
    std::unordered_map<std::string, std::size_t> places;
    for (std::size_t i = 0; i < list_.size(); ++i) {
      if (const Json* value = list_[i].find(rule_.merge_key)) {
        places.emplace(identity(*value), i);
      }
    }
    for (Json& item : patch) {
      if (item.find(kDirective) != nullptr) {
        continue;
      }
      const Expected<const Json*> value = key_of(item, rule_.merge_key);
      if (!value) {
        return fail(value.error().clone());
      }
      const auto [place, added] = places.emplace(identity(**value), list_.size());
      if (added) {
        list_.push_back(item);
      } else if (Expected<void> done = rule_.merge_item(list_[place->second], item); !done) {
        return done;
      }
    }
    return {};
  }

  /// The original list's memory: what was kept, then additions over what the deletions left.
  void leave(Json::Array& leftover) const {
    leftover = replaces_ ? memory_ : list_;
    leftover.resize(std::min(leftover.size(), count_));
    while (leftover.size() < count_) {
      leftover.push_back(stale_[count_ - leftover.size() - 1]);
    }
  }

  const ListRule& rule_;
  Json::Array list_;
  Json::Array base_;    ///< the list before anything was merged or added
  Json::Array memory_;  ///< what deletions kept of a list that is replaced
  Json::Array stale_;   ///< the last element at each deletion
  std::size_t count_;
  bool replaces_ = false;
};

Expected<Json::Array> merge_scalars(const ListRule& rule, Json::Array original,
                                    const Json::Array& patch) {
  Json::Array merged;
  std::unordered_set<std::string> seen;
  if (rule.deletes) {
    for (const Json& item : patch) {
      seen.insert(identity(item));
    }
    std::copy_if(original.begin(), original.end(), std::back_inserter(merged),
                 [&](const Json& item) { return seen.count(identity(item)) == 0; });
    return merged;
  }
  for (const Json::Array* list : {static_cast<const Json::Array*>(&original), &patch}) {
    std::copy_if(list->begin(), list->end(), std::back_inserter(merged),
                 [&](const Json& item) { return seen.insert(identity(item)).second; });
  }
  Expected<Parts> parts = split_by(std::move(merged), patch, rule.merge_key);
  if (!parts) {
    return fail(std::move(parts.error()));
  }
  return arrange(std::move(*parts), patch, original, rule.merge_key, false);
}

}  // namespace

Error bad_argument(std::string_view expected, const Json& received) {
  return unclassified("expected a " + std::string(expected) + ", but received a " +
                      std::string(go_type_text(received)));
}

Expected<Json::Array> merge_list(const ListRule& rule, Json::Array original, Json::Array& patch,
                                 Json::Array* leftover) {
  if (leftover != nullptr) {
    *leftover = original;
  }
  if (original.empty() && patch.empty()) {
    return original;
  }
  if (Expected<void> fits = check_length(original.size() + patch.size()); !fits) {
    return fail(std::move(fits.error()));
  }
  const Expected<bool> maps = elements_are_maps(original, patch);
  if (!maps) {
    return fail(maps.error().clone());
  }
  if (!*maps) {
    return merge_scalars(rule, std::move(original), patch);
  }
  if (rule.merge_key.empty()) {
    return fail(
        unclassified("cannot merge lists without merge key for " + std::string(rule.item_kind)));
  }
  return KeyedMerge(rule, std::move(original)).run(patch, leftover);
}

Expected<Json::Array> order_list(std::string_view merge_key, Json::Array merged,
                                 const Json::Array& order, const Json::Array& original,
                                 const Json::Array& patch) {
  if (Expected<void> fits = check_length(merged.size() + order.size()); !fits) {
    return fail(std::move(fits.error()));
  }
  Expected<Parts> parts = split_by(std::move(merged), order, merge_key);
  if (!parts) {
    return fail(std::move(parts.error()));
  }
  const Expected<bool> maps = elements_are_maps(original, patch);
  if (!maps) {
    return fail(maps.error().clone());
  }
  return arrange(std::move(*parts), order, original, merge_key, *maps);
}

Expected<void> check_order(std::string_view merge_key, const Json::Array& patch,
                           const Json& order) {
  if (order.size() == 0 || patch.empty()) {
    return {};
  }
  std::vector<const Json*> items;
  for (const Json& item : patch) {
    if (!merge_key.empty() && !item.is_object()) {
      return fail(bad_argument(kMapType, item));
    }
    if (merge_key.empty() || item.text({kDirective}) != "delete") {
      items.push_back(&item);
    }
  }
  auto next = items.begin();
  std::size_t place = 0;
  while (next != items.end() && place < order.size()) {
    if ((*next)->find(kDirective) != nullptr) {
      ++next;
      continue;
    }
    const Json& slot = order.items()[place];
    if (!merge_key.empty()) {
      for (const Json* item : {*next, &slot}) {
        if (!item->is_object()) {
          return fail(bad_argument(kMapType, *item));
        }
      }
      for (const Json* item : {*next, &slot}) {
        if (const Expected<const Json*> value = key_of(*item, merge_key); !value) {
          return fail(value.error().clone());
        }
      }
    }
    if (identity_of(**next, merge_key) == identity_of(slot, merge_key)) {
      ++next;
    }
    ++place;
  }
  if (next != items.end() && place >= order.size()) {
    return fail(unclassified("The order in patch list:\n" + go_value_text(Json(patch)) +
                             "\n doesn't match $setElementOrder list:\n" + go_value_text(order) +
                             "\n"));
  }
  return {};
}

}  // namespace kintsugi::krm::strategic
