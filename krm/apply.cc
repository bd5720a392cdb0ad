#include "krm/apply.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "krm/annotations.h"
#include "krm/internal/apply_check.h"
#include "krm/internal/apply_conflicts.h"
#include "krm/internal/apply_merge.h"
#include "krm/internal/ownership.h"
#include "krm/internal/typed_walk.h"
#include "krm/status.h"

namespace kintsugi::krm {

namespace {

constexpr std::string_view kApply = "Apply";
constexpr std::size_t kMaxAnnotations = 256 * 1024;

/// "<ns>/<name>; <group>/<version>, Kind=<kind>"
std::string object_text(const Json& object) {
  return std::string(object.text({"metadata", "namespace"})) + "/" +
         std::string(object.text({"metadata", "name"})) + "; " + kind_text(object);
}

/// The fields of a merged object at the version of a schema, as pruning compares them.
FieldSet named_fields_of(const Schema* schema, const Json& object) {
  return with_named_fields(schema, fields_of(schema, object));
}

/// One apply. Entries change on the way; `conflicts` are of the attempt.
class Apply {
 public:
  Apply(const OwnershipContext& context, const Json& live, ManagedFields entries)
      : context_(context), live_(live), entries_(std::move(entries)) {}

  /// Merges and prunes; false: there are conflicts (conflicts()).
  Expected<bool> run(const Json& config, bool force) {
    ManagedFieldsEntry mine = own_entry();
    entries_ = reconciled_entries(context_, std::move(entries_));
    Expected<Json> merged = merge_configuration(context_.schema, live_, config);
    if (!merged) {
      return fail(unclassified("failed to merge config: " + std::string(merged.error().message())));
    }
    mine.fields = owned_part(fields_of(context_.schema, config), context_.part);
    state(std::move(mine));
    object_ = last_.empty() ? std::move(*merged) : prune(*merged);
    find_changes();
    if (!force && !conflicts_.empty()) {
      return false;
    }
    for (const FieldConflict& each : conflicts_) {
      entries_[index_of(each)].fields = each.entry->fields.difference(each.fields);
    }
    conflicts_.clear();
    finish();
    return true;
  }

  [[nodiscard]] const std::vector<FieldConflict>& conflicts() const { return conflicts_; }
  [[nodiscard]] ManagedFields take_entries() { return std::move(entries_); }
  [[nodiscard]] Json take_object() { return std::move(object_); }

 private:
  /// The manager's entry without fields, with the time it had.
  [[nodiscard]] ManagedFieldsEntry own_entry() const {
    ManagedFieldsEntry mine;
    mine.manager = context_.manager;
    mine.operation = kApply;
    mine.api_version = context_.api_version;
    mine.subresource = context_.subresource;
    for (const ManagedFieldsEntry& each : entries_) {
      if (each.same_owner(mine)) {
        mine.time = each.time;
      }
    }
    return mine;
  }

  /// Puts the manager's entry into its place.
  void state(ManagedFieldsEntry mine) {
    const auto previous =
        std::find_if(entries_.begin(), entries_.end(),
                     [&](const ManagedFieldsEntry& each) { return each.same_owner(mine); });
    mine_ = static_cast<std::size_t>(previous - entries_.begin());
    if (previous == entries_.end()) {
      entries_.push_back(std::move(mine));
      return;
    }
    last_ = std::move(previous->fields);
    last_version_ = previous->api_version;
    *previous = std::move(mine);
  }

  /// Removes what the manager applied last time, adds back what it or anybody else owns, and what
  /// was not its own.
  Json prune(const Json& merged) const {
    const auto schema = schema_of_entry(context_, last_version_);
    if (!schema) {
      return merged;
    }
    Json pruned = without_fields(*schema, merged, with_named_fields(*schema, last_));
    std::map<std::string, FieldSet> owned;  // by version
    for (const ManagedFieldsEntry& entry : entries_) {
      FieldSet& fields = owned[entry.api_version];
      fields = fields.union_with(entry.fields);
    }
    add_back(merged, owned[last_version_], last_version_, pruned);
    owned.erase(last_version_);
    for (const auto& [version, fields] : owned) {
      add_back(merged, fields, version, pruned);
    }
    const FieldSet gone =
        named_fields_of(*schema, merged).difference(named_fields_of(*schema, pruned));
    return without_fields(*schema, merged, gone.intersection(with_named_fields(*schema, last_)));
  }

  void add_back(const Json& merged, const FieldSet& owned, const std::string& version,
                Json& pruned) const {
    const auto schema = schema_of_entry(context_, version);
    if (!schema) {
      return;
    }
    const FieldSet keep =
        named_fields_of(*schema, pruned).union_with(with_named_fields(*schema, owned));
    pruned = without_fields(*schema, merged, named_fields_of(*schema, merged).difference(keep));
  }

  /// What changes, as every entry sees it: conflicts and removed fields.
  void find_changes() {
    std::map<std::string, FieldChanges> of_version;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      ManagedFieldsEntry& entry = entries_[i];
      if (i == mine_) {
        continue;
      }
      auto known = of_version.find(entry.api_version);
      if (known == of_version.end()) {
        const auto schema = schema_of_entry(context_, entry.api_version);
        known = of_version
                    .emplace(entry.api_version,
                             compare_fields(schema.value_or(context_.schema), live_, object_))
                    .first;
      }
      const FieldChanges& seen = known->second;
      FieldSet touched = entry.fields.intersection(
          owned_part(seen.modified.union_with(seen.added), context_.part));
      if (!touched.empty()) {
        conflicts_.push_back({&entry, std::move(touched)});
      }
      removed_.push_back({&entry, owned_part(seen.removed, context_.part)});
    }
  }

  void finish() {
    for (const FieldConflict& each : removed_) {
      ManagedFieldsEntry& entry = entries_[index_of(each)];
      entry.fields = entry.fields.difference(each.fields);
    }
    ManagedFieldsEntry& mine = entries_[mine_];
    mine.fields = mine.fields.difference(never_owned());
    if (live_ == object_) {
      object_ = live_;
    } else {
      mine.time = context_.now;
    }
    std::erase_if(entries_, [](const ManagedFieldsEntry& each) { return each.fields.empty(); });
  }

  [[nodiscard]] std::size_t index_of(const FieldConflict& each) const {
    return static_cast<std::size_t>(each.entry - entries_.data());
  }

  const OwnershipContext& context_;
  const Json& live_;
  ManagedFields entries_;
  std::size_t mine_ = 0;
  FieldSet last_;
  std::string last_version_;
  Json object_;
  std::vector<FieldConflict> conflicts_, removed_;
};

/// Whoever wrote what is there, before anybody applied, owns it.
ManagedFields entries_before_first_apply(const OwnershipContext& context, const Json& live) {
  OwnershipContext before = context;
  before.manager = "before-first-apply";
  Json copy = live;
  track_update(before, nullptr, copy);
  return stored_entries(&copy);
}

const Json* annotation_of(const Json& object) {
  const Json* value = object.at({"metadata", "annotations", kLastAppliedAnnotation});
  return value != nullptr && !value->as_string().empty() ? value : nullptr;
}

/// Fields that client-side apply stated and that still have that value.
FieldSet fields_of_last_applied(const OwnershipContext& context, const Json& live) {
  const Json* text = annotation_of(live);
  if (text == nullptr) {
    return {};
  }
  const auto last = Json::parse(text->as_string());
  if (!last || last->text({"apiVersion"}) != context.api_version ||
      !check_configuration(context.schema, *last)) {
    return {};
  }
  const FieldChanges changes = compare_fields(context.schema, *last, live);
  return fields_of(context.schema, *last)
      .difference(changes.modified)
      .difference(changes.added)
      .difference(changes.removed);
}

/// Keeps client-side apply's annotation in step, where there is one.
void update_last_applied(const Json& config, Json& object) {
  if (annotation_of(object) == nullptr) {
    return;
  }
  Json copy = config;
  if (Json* annotations = copy.at({"metadata", "annotations"}); annotations != nullptr) {
    annotations->erase(kLastAppliedAnnotation);
  }
  std::string text;
  for (const char c : copy.dump()) {
    switch (c) {
      case '<':
        text += "\\u003c";
        break;
      case '>':
        text += "\\u003e";
        break;
      case '&':
        text += "\\u0026";
        break;
      default:
        text += c;
    }
  }
  text += '\n';
  Json& annotations = object["metadata"]["annotations"];
  annotations[kLastAppliedAnnotation] = std::move(text);
  std::size_t size = 0;
  for (const JsonMember& member : annotations.members()) {
    size += member.key.size() + member.value.as_string().size();
  }
  if (size > kMaxAnnotations) {
    annotations.erase(kLastAppliedAnnotation);
  }
}

Expected<void> check(const OwnershipContext& context, const Json& config) {
  const Json* entries = config.at({"metadata", "managedFields"});
  if (entries != nullptr && entries->is_array()) {
    return fail(Errc::kBadRequest, "metadata.managedFields must be nil");
  }
  if (Expected<void> done = check_configuration(context.schema, config); !done) {
    return fail(unclassified("failed to create typed patch object (" + object_text(config) +
                             "): " + std::string(done.error().message())));
  }
  return {};
}

Json without_entries(const Json& object) {
  Json out = object;
  write_entries(out, Json());
  return out;
}

/// `live` and `config` may be null pointers: not there.
void restore(const Schema* schema, const Json* live, const Json* config, Json& value) {
  if (live == nullptr) {
    return;
  }
  if (value.is_null()) {
    if (config == nullptr || !config->is_null()) {
      value = live->is_object() ? Json::object() : live->is_array() ? Json::array() : Json();
    }
    return;
  }
  if (value.is_object()) {
    for (JsonMember& member : value.edit_members()) {
      restore(member_schema(schema, member.key), live->find(member.key),
              config == nullptr ? nullptr : config->find(member.key), member.value);
    }
    return;
  }
  if (!value.is_array() || schema == nullptr || schema->list_type != ListType::kMap) {
    return;
  }
  const auto index = [schema](const Json* list) {
    std::map<std::string, const Json*> items;
    if (list != nullptr) {
      for (const Json& item : list->items()) {
        items[list_item_element(*schema, item)] = &item;
      }
    }
    return items;
  };
  const auto before = index(live);
  const auto stated = index(config);
  for (Json& item : value.edit_items()) {
    const std::string element = list_item_element(*schema, item);
    const auto old_item = before.find(element);
    const auto new_item = stated.find(element);
    restore(schema->items.get(), old_item == before.end() ? nullptr : old_item->second,
            new_item == stated.end() ? nullptr : new_item->second, item);
  }
}

}  // namespace

void keep_emptied(const Schema* schema, const Json& live, const Json& config, Json& object) {
  restore(schema, &live, &config, object);
}

std::string kind_text(const Json& object) {
  std::string_view group;
  std::string_view version = object.text({"apiVersion"});
  if (const std::size_t slash = version.find('/'); slash != std::string_view::npos) {
    group = version.substr(0, slash);
    version.remove_prefix(slash + 1);
  }
  std::string_view kind = object.text({"kind"});
  if (version.find('/') != std::string_view::npos) {
    group = version = kind = {};
  }
  return std::string(group) + "/" + std::string(version) + ", Kind=" + std::string(kind);
}

Expected<Json> apply_configuration(const OwnershipContext& context, bool force, const Json& live,
                                   const Json& config) {
  if (Expected<void> fine = check(context, config); !fine) {
    return fail(std::move(fine.error()));
  }
  ManagedFields entries = stored_entries(&live);
  const Json base = without_entries(live);
  const Json wanted = without_entries(config);
  if (entries.empty()) {
    entries = entries_before_first_apply(context, base);
  }
  std::optional<Apply> attempt(std::in_place, context, base, entries);
  Expected<bool> done = attempt->run(wanted, force);
  if (!done) {
    return fail(std::move(done.error()));
  }
  const bool kubectl = context.manager == "kubectl";
  if (!*done) {
    std::vector<FieldConflict> conflicts = attempt->conflicts();
    if (!kubectl) {
      return fail(conflict_error(std::move(conflicts)));
    }
    const FieldSet allowed = fields_of_last_applied(context, base);
    for (FieldConflict& each : conflicts) {
      each.fields = each.fields.difference(allowed);
    }
    std::erase_if(conflicts, [](const FieldConflict& each) { return each.fields.empty(); });
    if (!conflicts.empty()) {
      return fail(conflict_error(std::move(conflicts)));
    }
    attempt.emplace(context, base, std::move(entries));
    if (done = attempt->run(wanted, true); !done) {
      return fail(std::move(done.error()));
    }
  }
  Json object = attempt->take_object();
  if (!object.is_object()) {
    object = base;
  }
  write_entries(object, managed_fields_json(attempt->take_entries()));
  if (kubectl) {
    update_last_applied(wanted, object);
  }
  return object;
}

namespace {

/// Where `value` states an atomic list, map or struct: all else in it would go.
void find_atomics(const std::string& path, const Schema* schema, const Json& value,
                  std::vector<std::string>& found) {
  if (value.is_object() && schema != nullptr) {
    if (schema->map_type == MapType::kAtomic) {
      found.push_back(path);
    }
    for (const JsonMember& member : value.members()) {
      if (const SchemaProperty* property = schema->property(member.key)) {
        find_atomics(path + "." + member.key, property->schema.get(), member.value, found);
      }
    }
  } else if (value.is_array()) {
    if (schema == nullptr || schema->list_type == ListType::kAtomic) {
      found.push_back(path);
    }
    for (std::size_t i = 0; i < value.items().size(); ++i) {
      find_atomics(path + "[" + std::to_string(i) + "]",
                   schema == nullptr ? nullptr : schema->items.get(), value.items()[i], found);
    }
  }
}

}  // namespace

Expected<Json> merge_applied(const Schema* schema, const Json& live, const Json& config) {
  const auto refuse = [](const char* what, std::string_view why) {
    return fail(Errc::kInvalid, std::string(what).append(why));
  };
  if (const Expected<void> typed = check_configuration(schema, config); !typed) {
    return refuse("failed to convert patch object to typed object: ", typed.error().message());
  }
  std::vector<std::string> atomics;
  find_atomics("", schema, config, atomics);
  if (!atomics.empty()) {
    return refuse("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: ",
                  join(atomics, ", "));
  }
  Expected<Json> merged = merge_configuration(schema, live, config);
  return merged ? std::move(merged) : refuse("failed to merge patch: ", merged.error().message());
}

}  // namespace kintsugi::krm
