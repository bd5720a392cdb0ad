#include "krm/internal/apply_merge.h"

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "krm/internal/typed_walk.h"

namespace kintsugi::krm {

namespace {

using Path = std::vector<std::string>;
using Merged = Expected<std::optional<Json>>;

/// The items of a list by their elements.
struct Items {
  std::vector<std::string> elements;          ///< in order
  std::map<std::string, const Json*> by_key;  ///< null for items that are there twice
};

Expected<Items> index_items(const Schema& list, const Json* value) {
  Items out;
  if (value == nullptr) {
    return out;
  }
  static const Json& kNull = *new Json();
  std::size_t index = 0;
  for (const Json& item : value->items()) {
    std::string element = list_item_element(list, item);
    if (element.empty()) {
      return fail(Errc::kBadRequest,
                  "element " + std::to_string(index) + ": associative list item without keys");
    }
    const auto [known, first] = out.by_key.emplace(element, &item);
    if (!first) {
      known->second = &kNull;
    }
    out.elements.push_back(std::move(element));
    ++index;
  }
  return out;
}

Merged merge(const Schema* schema, const Json* live, const Json* config);

/// Merges the items of a list map or set.
class ListMerge {
 public:
  ListMerge(const Schema& list, const Json* live, Items left, Items right)
      : list_(list), live_(live), left_(std::move(left)), right_(std::move(right)) {
    for (const std::string& element : right_.elements) {
      if (left_.by_key.contains(element)) {
        shared_.push_back(&element);
      }
    }
  }

  Merged run() {
    std::size_t l = 0;
    std::size_t r = 0;
    const std::size_t left_size = left_.elements.size();
    const std::size_t right_size = right_.elements.size();
    while (l < left_size || r < right_size) {
      if (l < left_size && r < right_size) {
        const std::string& element = left_.elements[l];
        if (element == right_.elements[r]) {
          take(element);
          ++next_shared_;
          ++l;
          ++r;
          continue;
        }
        if (right_.by_key.contains(element) && awaited() != nullptr && *awaited() != element) {
          ++l;  // shared, but not the one of this round
          continue;
        }
      }
      if (l < left_size) {
        const std::string& element = left_.elements[l];
        if (!right_.by_key.contains(element)) {
          out_.push_back(live_->items()[l++]);
          continue;
        }
        if (taken_.contains(element)) {
          ++l;
        }
      }
      if (r < right_size) {
        const std::string& element = right_.elements[r];
        take(element);
        ++r;
        if (awaited() != nullptr && *awaited() == element) {
          ++next_shared_;
        }
      }
    }
    if (fault_) {
      return fail(std::move(*fault_));
    }
    if (out_.empty()) {
      return std::optional<Json>();
    }
    return std::optional<Json>(Json(std::move(out_)));
  }

 private:
  [[nodiscard]] const std::string* awaited() const {
    return next_shared_ < shared_.size() ? shared_[next_shared_] : nullptr;
  }

  /// Adds the item of the configuration, merged with the live one.
  void take(const std::string& element) {
    taken_.insert(element);
    const auto in_live = left_.by_key.find(element);
    Merged item =
        merge(list_.items.get(), in_live == left_.by_key.end() ? nullptr : in_live->second,
              right_.by_key.find(element)->second);
    if (!item) {
      fault_ = std::move(item.error());
    } else if (*item) {
      out_.push_back(std::move(**item));
    }
  }

  const Schema& list_;
  const Json* live_;
  Items left_, right_;
  std::vector<const std::string*> shared_;  ///< in the configuration's order
  std::size_t next_shared_ = 0;
  std::set<std::string> taken_;
  Json::Array out_;
  std::optional<Error> fault_;
};

Merged merge_list(const Schema& schema, const Json* live, const Json& config) {
  Expected<Items> right = index_items(schema, &config);
  if (!right) {
    return fail(std::move(right.error()));
  }
  Expected<Items> left = index_items(schema, live);
  if (!left) {
    return fail(std::move(left.error()));
  }
  return ListMerge(schema, live, std::move(*left), std::move(*right)).run();
}

Merged merge_map(const Schema* schema, const Json* live, const Json& config) {
  Json out = live != nullptr && live->is_object() ? *live : Json::object();
  for (const JsonMember& member : config.members()) {
    const Json* before = live == nullptr ? nullptr : live->find(member.key);
    Merged merged = merge(member_schema(schema, member.key), before, &member.value);
    if (!merged) {
      return merged;
    }
    if (*merged) {
      out[member.key] = std::move(**merged);
    } else {
      out.erase(member.key);
    }
  }
  if (out.size() == 0) {
    return std::optional<Json>();
  }
  return std::optional<Json>(std::move(out));
}

/// At least one of the two is there; what only `live` has stays as it is.
Merged merge(const Schema* schema, const Json* live, const Json* config) {
  if (config == nullptr) {
    return std::optional<Json>(*live);
  }
  const Atom atom = atom_of(schema, *config);
  const bool list = atom.shape == Shape::kList;
  const auto is_empty = [&](const Json* value) {
    return value == nullptr || (list ? value->items().empty() : value->members().empty());
  };
  if (atom.shape == Shape::kLeaf || atom.atomic || (is_empty(live) && is_empty(config))) {
    return std::optional<Json>(*config);
  }
  return list ? merge_list(*schema, live, *config) : merge_map(schema, live, *config);
}

FieldSet named(const Schema* schema, const FieldSet& fields) {
  FieldSet out;
  fields.for_each([&](const std::string& element, bool member, const FieldSet& below) {
    if (below.empty()) {
      out.add(element, member, {});
      return;
    }
    const std::string_view key = std::string_view(element).substr(2);
    const bool is_field = element.front() == 'f';
    const Schema* next = nullptr;
    if (is_field) {
      next = member_schema(schema, key);
    } else if (element.front() == 'k' && schema != nullptr && schema->type == SchemaType::kArray) {
      next = schema->items.get();
    }
    out.add(element, member || (is_field && declares(schema, key)), named(next, below));
  });
  return out;
}

/// A map of free-form values without fields of its own: the reference leaves it alone.
bool is_free_map(const Schema& schema) {
  if (schema.type != SchemaType::kObject && schema.type != SchemaType::kAny) {
    return schema.type == SchemaType::kIntOrString;
  }
  return schema.properties.empty() &&
         (schema.additional == nullptr || is_untyped(*schema.additional));
}

struct Reconciliation {
  FieldSet to_remove, to_add;
  Path path;

  void atomic() {
    to_remove.insert(path);
    to_add.insert(path);
  }

  /// @param whole the set owns the value as a whole and nothing below.
  void visit(const Schema* schema, const FieldSet& fields, bool whole) {
    if (schema == nullptr) {
      return;
    }
    const bool list = schema->type == SchemaType::kArray;
    const bool map = schema->type == SchemaType::kObject || schema->type == SchemaType::kAny;
    if ((!list && !map) || (map && is_free_map(*schema))) {
      return;
    }
    const bool is_atomic =
        list ? schema->list_type == ListType::kAtomic : schema->map_type == MapType::kAtomic;
    if (!whole && is_atomic) {
      if (list || !fields.empty()) {
        atomic();
      }
      return;
    }
    fields.for_each([&](const std::string& element, bool member, const FieldSet& below) {
      const Schema* next = schema->items.get();
      if (map) {
        next = element.front() == 'f' ? member_schema(schema, std::string_view(element).substr(2))
                                      : schema->additional.get();
      }
      path.push_back(element);
      visit(next, below, member && below.empty());
      path.pop_back();
    });
  }
};

}  // namespace

Expected<Json> merge_configuration(const Schema* schema, const Json& live, const Json& config) {
  Merged merged = merge(schema, &live, &config);
  if (!merged) {
    return fail(std::move(merged.error()));
  }
  return *merged ? std::move(**merged) : Json();
}

Json without_fields(const Schema* schema, const Json& value, const FieldSet& fields) {
  const Atom atom = atom_of(schema, value);
  if (atom.shape == Shape::kLeaf) {
    return value;
  }
  if (atom.atomic) {
    return Json();
  }
  if (atom.shape == Shape::kList) {
    Json::Array kept;
    for (const Json& item : value.items()) {
      const std::string element = list_item_element(*schema, item);
      if (fields.has_element(element)) {
        continue;
      }
      const FieldSet* below = fields.below(element);
      kept.push_back(below == nullptr ? item : without_fields(schema->items.get(), item, *below));
    }
    return kept.empty() ? Json() : Json(std::move(kept));
  }
  Json out = Json::object();
  for (const JsonMember& member : value.members()) {
    const std::string element = "f:" + member.key;
    if (fields.has_element(element)) {
      continue;
    }
    const FieldSet* below = fields.below(element);
    out.edit_members().push_back(
        {member.key, below == nullptr ? member.value
                                      : without_fields(member_schema(schema, member.key),
                                                       member.value, *below)});
  }
  return out.size() == 0 ? Json() : out;
}

FieldSet with_named_fields(const Schema* schema, const FieldSet& fields) {
  return named(schema, fields);
}

FieldSet reconciled(const Schema* schema, const FieldSet& fields) {
  Reconciliation change;
  change.visit(schema, fields, false);
  if (change.to_remove.empty() && change.to_add.empty()) {
    return fields;
  }
  return fields.difference_below(change.to_remove).union_with(change.to_add);
}

}  // namespace kintsugi::krm
