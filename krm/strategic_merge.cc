#include "krm/strategic_merge.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "krm/go_text.h"
#include "krm/go_value.h"
#include "krm/internal/strategic_list.h"
#include "krm/merge_patch.h"
#include "krm/status.h"

namespace kintsugi::krm {
namespace {

using strategic::kDirective;

constexpr std::string_view kRetainKeys = "$retainKeys";
constexpr std::string_view kDeleteFrom = "$deleteFromPrimitiveList";
constexpr std::string_view kSetOrder = "$setElementOrder";
constexpr std::string_view kListType = "[]interface {}";

/// The kind of the Go type behind a schema.
std::string_view go_kind(const Schema* schema) {
  if (schema == nullptr) {
    return "interface";
  }
  switch (schema->type) {
    case SchemaType::kObject:
      return schema->additional != nullptr ? "map" : "struct";
    case SchemaType::kArray:
      return "slice";
    case SchemaType::kString:
      return schema->form == ScalarForm::kPlain   ? "string"
             : schema->form == ScalarForm::kBytes ? "slice"
                                                  : "struct";
    case SchemaType::kInteger:
      return schema->format.empty() ? "int64" : std::string_view(schema->format);
    case SchemaType::kNumber:
      return "float64";
    case SchemaType::kBoolean:
      return "bool";
    default:
      return "struct";
  }
}

/// The field of a struct, looked for as Go does. @error what is no struct or has no such field.
Expected<const SchemaProperty*> field_of(const Schema* schema, std::string_view name) {
  const std::string_view kind = go_kind(schema);
  if (kind != "struct") {
    return fail(unclassified("merging an object in json but data type is not struct, instead is: " +
                             std::string(kind)));
  }
  if (const SchemaProperty* found = schema->property(name)) {
    return found;
  }
  const std::string folded = to_lower(name);
  for (const SchemaProperty& property : schema->properties) {
    if (to_lower(property.name) == folded) {
      return &property;
    }
  }
  return fail(unclassified("unable to find api field in struct " + schema->type_name +
                           " for the json field " + go_quote(name)));
}

/// How a field that holds a list is merged.
struct ListField {
  const Schema* items = nullptr;
  std::string merge_key;
  bool merges = false;
};

Expected<ListField> list_field_of(const Schema* schema, std::string_view name) {
  const Expected<const SchemaProperty*> property = field_of(schema, name);
  if (!property) {
    return fail(property.error().clone());
  }
  const Schema* list = (*property)->schema.get();
  if (go_kind(list) != "slice" && !(*property)->keep_zero) {
    return fail(
        unclassified("expected slice or array type, but got: " + std::string(go_kind(schema))));
  }
  ListField field;
  field.items = list->items == nullptr ? list : list->items.get();
  field.merge_key = list->patch_merge_key;
  field.merges = list->patch_merge_primitive || !list->patch_merge_key.empty();
  return field;
}

/// Drops every map with a `$patch`. False: that is the value itself.
bool remove_directives(Json& value) {
  if (value.is_object()) {
    if (value.find(kDirective) != nullptr) {
      return false;
    }
    Json::Object& members = value.edit_members();
    members.erase(std::remove_if(members.begin(), members.end(),
                                 [](JsonMember& each) { return !remove_directives(each.value); }),
                  members.end());
  } else if (value.is_array()) {
    Json::Array& items = value.edit_items();
    items.erase(std::remove_if(items.begin(), items.end(),
                               [](Json& item) { return !remove_directives(item); }),
                items.end());
  }
  return true;
}

/// "$setElementOrder/finalizers" -> "finalizers".
Expected<std::string> name_behind(std::string_view key, std::string_view directive,
                                  std::string_view otherwise) {
  const std::size_t slash = key.find('/');
  if (slash == std::string_view::npos || key.substr(0, slash) != directive) {
    return fail(bad_request(std::string(otherwise)));
  }
  return std::string(key.substr(slash + 1));
}

std::vector<std::string> keys_with(const Json& map, std::string_view prefix) {
  std::vector<std::string> keys;
  for (const JsonMember& member : map.members()) {
    if (std::string_view(member.key).starts_with(prefix)) {
      keys.push_back(member.key);
    }
  }
  return keys;
}

class MapMerge {
 public:
  MapMerge(const Schema* schema, Json& target, Json& patch)
      : schema_(schema), target_(target), patch_(patch) {}

  Expected<void> run() {
    if (const Json* directive = patch_.find(kDirective)) {
      return follow(*directive);
    }
    for (Expected<void> (MapMerge::*step)() :
         {&MapMerge::retain_keys, &MapMerge::order_lists, &MapMerge::delete_from_lists,
          &MapMerge::merge_members}) {
      if (Expected<void> done = (this->*step)(); !done) {
        return done;
      }
    }
    return {};
  }

 private:
  Expected<void> follow(const Json& directive) {
    if (directive == Json("replace")) {
      patch_.erase(kDirective);
      target_ = patch_;
      return {};
    }
    if (directive == Json("delete")) {
      target_ = Json::object();
      return {};
    }
    return fail(unclassified("unknown patch type: " + go_value_text(directive, 's') +
                             " in map: " + go_value_text(patch_)));
  }

  Expected<void> retain_keys() {
    const Json* directive = patch_.find(kRetainKeys);
    if (directive == nullptr) {
      return {};
    }
    const Json list = *directive;
    patch_.erase(kRetainKeys);
    std::unordered_set<std::string_view> kept;
    for (const Json& item : list.items()) {
      if (item.is_string()) {
        kept.insert(item.as_string());
      }
    }
    const bool fits = std::all_of(patch_.members().begin(), patch_.members().end(),
                                  [&](const JsonMember& member) {
                                    const std::string_view key = member.key;
                                    return member.value.is_null() || key.starts_with(kDeleteFrom) ||
                                           key.starts_with(kSetOrder) || kept.count(key) > 0;
                                  });
    if (!list.is_array() || !fits) {
      return fail(bad_request("invalid patch format of retainKeys"));
    }
    Json::Object& members = target_.edit_members();
    members.erase(
        std::remove_if(members.begin(), members.end(),
                       [&](const JsonMember& member) { return kept.count(member.key) == 0; }),
        members.end());
    return {};
  }

  /// $setElementOrder and the lists of that name.
  Expected<void> order_lists() {
    for (const std::string& key : keys_with(patch_, kSetOrder)) {
      const Json order = std::move(*patch_.find(key));
      patch_.erase(key);
      if (Expected<void> done = order_list(key, order); !done) {
        return done;
      }
    }
    return {};
  }

  Expected<void> order_list(std::string_view directive, const Json& order) {
    if (!order.is_array()) {
      return fail(strategic::bad_argument(kListType, order));
    }
    const Expected<std::string> name =
        name_behind(directive, kSetOrder, "invalid patch format of setElementOrder list");
    if (!name) {
      return fail(name.error().clone());
    }
    Json* const list = target_.find(*name);
    Json* const change = patch_.find(*name);
    for (const Json* each : {list, change}) {
      if (each != nullptr && !each->is_array()) {
        return fail(strategic::bad_argument(kListType, *each));
      }
    }
    const Expected<ListField> field = list_field_of(schema_, *name);
    if (!field) {
      return fail(field.error().clone());
    }
    Json::Array original = list == nullptr ? Json::Array() : list->items();
    Json::Array patch = change == nullptr ? Json::Array() : change->items();
    if (Expected<void> fits = strategic::check_order(field->merge_key, patch, order); !fits) {
      return fits;
    }
    if (list == nullptr && change == nullptr) {
      return {};
    }
    Expected<Json::Array> merged = original;
    if (list == nullptr) {
      Json added(patch);
      remove_directives(added);
      merged = added.items();
    } else if (change != nullptr) {
      merged = merge_list(*field, original, patch, false, &original);
    }
    if (merged) {
      merged = strategic::order_list(field->merge_key, std::move(*merged), order.items(), original,
                                     patch);
    }
    if (!merged) {
      return fail(std::move(merged.error()));
    }
    target_[*name] = Json(std::move(*merged));
    patch_.erase(*name);
    return {};
  }

  Expected<void> delete_from_lists() {
    std::unordered_set<std::string> gone;
    for (const std::string& key : keys_with(patch_, kDeleteFrom)) {
      Expected<std::string> name =
          name_behind(key, kDeleteFrom, "invalid patch format of primitive list");
      if (!name) {
        return fail(std::move(name.error()));
      }
      Json& change = *patch_.find(key);
      Json* const value = target_.find(name->empty() ? key : *name);
      if (change.is_null()) {
        gone.insert(std::move(*name));
      } else if (value != nullptr && go_type_text(*value) == go_type_text(change)) {
        if (Expected<void> done = merge_value(*name, *value, change, true); !done) {
          return done;
        }
      }
    }
    if (!gone.empty()) {
      Json::Object& members = target_.edit_members();
      members.erase(
          std::remove_if(members.begin(), members.end(),
                         [&](const JsonMember& member) { return gone.count(member.key) > 0; }),
          members.end());
    }
    return {};
  }

  /// Both member lists are sorted, so one pass over both keeps large maps linear.
  Expected<void> merge_members() {
    Json::Object old = std::move(target_.edit_members());
    Json::Object& merged = target_.edit_members();
    merged.clear();
    merged.reserve(old.size() + patch_.size());
    auto at = old.begin();
    for (JsonMember& member : patch_.edit_members()) {
      if (std::string_view(member.key).starts_with(kDeleteFrom)) {
        continue;
      }
      for (; at != old.end() && at->key < member.key; ++at) {
        merged.push_back(std::move(*at));
      }
      const bool exists = at != old.end() && at->key == member.key;
      if (!member.value.is_null()) {
        if (exists && go_type_text(at->value) == go_type_text(member.value)) {
          if (Expected<void> done = merge_value(member.key, at->value, member.value, false);
              !done) {
            return done;
          }
          merged.push_back(std::move(*at));
        } else {
          take_value(merged, member);
        }
      }
      at += exists ? 1 : 0;
    }
    merged.insert(merged.end(), std::make_move_iterator(at), std::make_move_iterator(old.end()));
    return {};
  }

  /// A value that meets none of its type. Directives are removed from it, but the patch that is
  /// shown keeps those that were elements of this list.
  static void take_value(Json::Object& merged, JsonMember& member) {
    discard_nulls(member.value);
    if (member.value.is_array()) {
      merged.push_back(member);
      remove_directives(merged.back().value);
      for (Json& item : member.value.edit_items()) {
        remove_directives(item);
      }
    } else if (remove_directives(member.value)) {
      merged.push_back(member);
    }
  }

  /// Of the same type.
  Expected<void> merge_value(std::string_view name, Json& value, Json& change, bool deletes) {
    if (value.is_object()) {
      const Expected<const SchemaProperty*> property = field_of(schema_, name);
      if (!property) {
        return fail(property.error().clone());
      }
      return MapMerge((*property)->schema.get(), value, change).run();
    }
    if (!value.is_array()) {
      value = change;
      return {};
    }
    const Expected<ListField> field = list_field_of(schema_, name);
    if (!field) {
      return fail(field.error().clone());
    }
    Expected<Json::Array> merged =
        merge_list(*field, std::move(value.edit_items()), change.edit_items(), deletes, nullptr);
    if (!merged) {
      return fail(std::move(merged.error()));
    }
    value = Json(std::move(*merged));
    return {};
  }

  static Expected<Json::Array> merge_list(const ListField& field, Json::Array original,
                                          Json::Array& patch, bool deletes, Json::Array* leftover) {
    if (!field.merges && !deletes) {
      return patch;
    }
    const strategic::ListRule rule{field.merge_key, go_kind(field.items), deletes,
                                   [items = field.items](Json& into, Json& change) {
                                     return MapMerge(items, into, change).run();
                                   }};
    return strategic::merge_list(rule, std::move(original), patch, leftover);
  }

  const Schema* schema_;
  Json& target_;
  Json& patch_;
};

}  // namespace

Expected<Json> parse_strategic_merge(std::string_view body, Json::ParseReport* report) {
  Expected<Json> patch =
      Json::parse(body, {.max_depth = 10'000, .collect_duplicates = report != nullptr}, report);
  if (patch && !patch->is_object() && !patch->is_null()) {
    const std::string type = patch->is_bool()     ? "bool"
                             : patch->is_number() ? "number"
                                                  : std::string(patch->type_name());
    return fail(bad_request("json: cannot unmarshal " + type +
                            " into Go value of type map[string]interface {}"));
  }
  return patch;
}

Expected<Json> apply_strategic_merge(const Schema& schema, Json target, Json& patch) {
  if (patch.is_null()) {
    return target;
  }
  if (Expected<void> done = MapMerge(&schema, target, patch).run(); !done) {
    return fail(std::move(done.error()));
  }
  return target;
}

}  // namespace kintsugi::krm
