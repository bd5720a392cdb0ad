#include "krm/managed_fields.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "krm/annotations.h"
#include "krm/internal/apply_merge.h"
#include "krm/internal/ownership.h"
#include "krm/strict.h"
#include "krm/strict_time.h"

namespace kintsugi::krm {

namespace {

constexpr std::size_t kMaxUpdateEntries = 10;
constexpr std::string_view kApply = "Apply";
constexpr std::string_view kUpdate = "Update";

std::int64_t seconds_of(const ManagedFieldsEntry& entry) {
  const auto instant = parse_rfc3339(entry.time);
  return instant ? instant->seconds : 0;
}

FieldSet make_set(std::initializer_list<std::vector<std::string>> paths) {
  FieldSet out;
  for (const auto& path : paths) {
    out.insert(path);
  }
  return out;
}

const FieldSet& spec_field() {
  static const FieldSet& set = *new FieldSet(make_set({{"f:spec"}}));
  return set;
}

const FieldSet& status_field() {
  static const FieldSet& set = *new FieldSet(make_set({{"f:status"}}));
  return set;
}

/// The object without the annotation that servers with logical clusters force on all, so that it is
/// nobody's (AM-474). `room` holds it if it is not the object itself.
const Json& without_cluster(const Json& object, Json& room) {
  if (object.at({"metadata", "annotations", kClusterAnnotation}) == nullptr) {
    return object;
  }
  room = object;
  Json& metadata = *room.find("metadata");
  Json& annotations = *metadata.find("annotations");
  annotations.erase(kClusterAnnotation);
  if (annotations.size() == 0) {
    metadata.erase("annotations");
  }
  return room;
}

bool is_reset(const Json& list) {
  if (!list.is_array()) {
    return false;
  }
  if (list.size() == 0) {
    return true;
  }
  return list.size() == 1 && list.items()[0].is_object() && list.items()[0].size() == 0;
}

/// The entries to begin with: those the client sent if they are usable, else the stored ones.
ManagedFields entries_to_keep(const OwnershipContext& context, const Json* old,
                              const Json& object) {
  if (!context.subresource.empty()) {
    return stored_entries(old);
  }
  const Json* sent = object.at({"metadata", "managedFields"});
  if (sent != nullptr) {
    if (is_reset(*sent)) {
      return {};
    }
    auto parsed = parse_managed_fields(*sent);
    if (parsed && !parsed->empty()) {
      return std::move(*parsed);
    }
  }
  return stored_entries(old);
}

Json empty_object(const Schema* schema, const Json& like) {
  Json out = Json::object();
  for (std::string_view key : {"apiVersion", "kind"}) {
    if (const Json* value = like.find(key)) {
      out[key] = *value;
    }
  }
  if (schema != nullptr && !schema->type_name.empty()) {
    // What typed kinds always write is not a change.
    if (auto done = decode_typed(*schema, out); !done) {
      return Json::object();
    }
  }
  return out;
}

/// Whether two objects have equal members, but for those that `special` has compared itself:
/// special(key, a, b) says so, or nullopt.
template <class Special>
bool same_members(const Json& a, const Json& b, const Special& special) {
  if (!a.is_object() || !b.is_object()) {
    return a == b;
  }
  auto left = a.members().begin();
  auto right = b.members().begin();
  while (left != a.members().end() || right != b.members().end()) {
    const int order = left == a.members().end()    ? 1
                      : right == b.members().end() ? -1
                                                   : left->key.compare(right->key);
    const std::string& key = order <= 0 ? left->key : right->key;
    const Json* one = order <= 0 ? &left->value : nullptr;
    const Json* other = order >= 0 ? &right->value : nullptr;
    const std::optional<bool> said = special(key, one, other);
    if (!said.value_or(one != nullptr && other != nullptr && *one == *other)) {
      return false;
    }
    left += order <= 0 ? 1 : 0;
    right += order >= 0 ? 1 : 0;
  }
  return true;
}

bool same_entry(const Json& a, const Json& b) {
  return same_members(a, b, [](std::string_view key, const Json*, const Json*) {
    return key == "time" ? std::optional(true) : std::nullopt;
  });
}

/// Without times, in an order that does not depend on them.
Json sorted_entries(const Json& list) {
  Json out = list;
  for (Json& entry : out.edit_items()) {
    entry.erase("time");
  }
  std::sort(out.edit_items().begin(), out.edit_items().end(),
            [](const Json& a, const Json& b) { return a.dump() < b.dump(); });
  return out;
}

bool same_entries(const Json* a, const Json* b) {
  if (a == nullptr || b == nullptr) {
    return a == b;
  }
  if (!a->is_array() || !b->is_array()) {
    return *a == *b;
  }
  return a->size() == b->size() &&
         (std::equal(a->items().begin(), a->items().end(), b->items().begin(), same_entry) ||
          sorted_entries(*a) == sorted_entries(*b));
}

}  // namespace

const FieldSet& never_owned() {
  static const FieldSet& set = *new FieldSet(make_set({{"f:apiVersion"},
                                                       {"f:kind"},
                                                       {"f:metadata"},
                                                       {"f:metadata", "f:name"},
                                                       {"f:metadata", "f:namespace"},
                                                       {"f:metadata", "f:creationTimestamp"},
                                                       {"f:metadata", "f:selfLink"},
                                                       {"f:metadata", "f:uid"},
                                                       {"f:metadata", "f:clusterName"},
                                                       {"f:metadata", "f:generation"},
                                                       {"f:metadata", "f:managedFields"},
                                                       {"f:metadata", "f:resourceVersion"}}));
  return set;
}

FieldSet owned_part(const FieldSet& set, OwnedPart part) {
  switch (part) {
    case OwnedPart::kWithoutStatus:
      return set.difference_below(status_field());
    case OwnedPart::kOnlyStatus:
      return set.only_below(status_field());
    case OwnedPart::kWithoutSpec:
      return set.difference_below(spec_field());
    case OwnedPart::kAll:
      break;
  }
  return set;
}

ManagedFields stored_entries(const Json* old) {
  if (old == nullptr) {
    return {};
  }
  const Json* list = old->at({"metadata", "managedFields"});
  if (list == nullptr) {
    return {};
  }
  auto parsed = parse_managed_fields(*list);
  return parsed ? std::move(*parsed) : ManagedFields();
}

void write_entries(Json& object, Json entries) {
  if (entries.is_null()) {
    if (Json* metadata = object.find("metadata")) {
      metadata->erase("managedFields");
    }
  } else {
    object.make({"metadata", "managedFields"}) = std::move(entries);
  }
}

std::optional<const Schema*> schema_of_entry(const OwnershipContext& context,
                                             std::string_view api_version) {
  if (api_version == context.api_version || !context.schema_of) {
    return context.schema;
  }
  return context.schema_of(api_version);
}

ManagedFields reconciled_entries(const OwnershipContext& context, ManagedFields entries) {
  ManagedFields kept;
  for (ManagedFieldsEntry& entry : entries) {
    if (const auto schema = schema_of_entry(context, entry.api_version)) {
      entry.fields = reconciled(*schema, entry.fields);
      kept.push_back(std::move(entry));
    }
  }
  return kept;
}

bool ManagedFieldsEntry::same_owner(const ManagedFieldsEntry& other) const noexcept {
  return manager == other.manager && operation == other.operation &&
         subresource == other.subresource &&
         (operation == kApply || api_version == other.api_version);
}

Expected<ManagedFields> parse_managed_fields(const Json& list) {
  ManagedFields out;
  if (list.is_null()) {
    return out;
  }
  if (!list.is_array()) {
    return fail(Errc::kBadRequest, "managedFields must be a list");
  }
  for (const Json& item : list.items()) {
    ManagedFieldsEntry entry;
    entry.manager = item.text({"manager"});
    entry.operation = item.text({"operation"});
    entry.api_version = item.text({"apiVersion"});
    entry.time = item.text({"time"});
    entry.subresource = item.text({"subresource"});
    if (entry.operation != kApply && entry.operation != kUpdate) {
      return fail(Errc::kBadRequest, "operation must be `Apply` or `Update`");
    }
    if (entry.api_version.empty()) {
      return fail(Errc::kBadRequest, "apiVersion must not be empty");
    }
    if (item.text({"fieldsType"}) != "FieldsV1") {
      return fail(Errc::kBadRequest, "invalid fieldsType in managed fields entry");
    }
    const Json* fields = item.find("fieldsV1");
    auto set = FieldSet::from_json(fields == nullptr ? Json() : *fields);
    if (!set) {
      return fail(std::move(set).error());
    }
    entry.fields = std::move(*set);
    const auto twin = std::find_if(out.begin(), out.end(), [&](const ManagedFieldsEntry& each) {
      return each.same_owner(entry);
    });
    if (twin != out.end()) {
      *twin = std::move(entry);
    } else {
      out.push_back(std::move(entry));
    }
  }
  return out;
}

Json managed_fields_json(ManagedFields entries) {
  std::erase_if(entries, [](const ManagedFieldsEntry& entry) { return entry.fields.empty(); });
  if (entries.empty()) {
    return Json();
  }
  std::sort(entries.begin(), entries.end(),
            [](const ManagedFieldsEntry& a, const ManagedFieldsEntry& b) {
              return std::make_tuple(std::string_view(a.operation), seconds_of(a),
                                     std::string_view(a.manager), std::string_view(a.api_version),
                                     std::string_view(a.subresource)) <
                     std::make_tuple(std::string_view(b.operation), seconds_of(b),
                                     std::string_view(b.manager), std::string_view(b.api_version),
                                     std::string_view(b.subresource));
            });
  Json out = Json::array();
  for (const ManagedFieldsEntry& entry : entries) {
    Json item;
    Json::Object& members = item.edit_members();
    members.reserve(7);
    const auto add = [&](const char* key, Json value) {  // in the order of the keys
      members.push_back({key, std::move(value)});
    };
    add("apiVersion", Json(entry.api_version));
    add("fieldsType", Json("FieldsV1"));
    add("fieldsV1", entry.fields.to_json());
    if (!entry.manager.empty()) {
      add("manager", Json(entry.manager));
    }
    add("operation", Json(entry.operation));
    if (!entry.subresource.empty()) {
      add("subresource", Json(entry.subresource));
    }
    if (!entry.time.empty()) {
      add("time", Json(entry.time));
    }
    out.push_back(std::move(item));
  }
  return out;
}

std::string field_manager_name(std::string_view explicit_manager, std::string_view user_agent) {
  if (!explicit_manager.empty()) {
    return std::string(explicit_manager);
  }
  const std::string_view program = user_agent.substr(0, user_agent.find('/'));
  if (program.empty()) {
    return "unknown";
  }
  // At most 128 bytes of printable characters, cut between characters.
  std::string out;
  for (const char c : program.substr(0, 128)) {
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F) {
      out.push_back(c);
    }
  }
  while (!out.empty() && program.size() > 128 && (static_cast<unsigned char>(out.back()) & 0x80)) {
    out.pop_back();
  }
  return out.empty() ? "unknown" : out;
}

void cap_update_entries(ManagedFields& entries) {
  std::vector<std::size_t> updaters;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].operation == kUpdate) {
      updaters.push_back(i);
    }
  }
  std::size_t count = updaters.size();
  if (count <= kMaxUpdateEntries) {
    return;
  }
  std::sort(updaters.begin(), updaters.end(), [&](std::size_t a, std::size_t b) {
    return std::make_tuple(seconds_of(entries[a]), entries[a].manager, entries[a].api_version,
                           entries[a].subresource) <
           std::make_tuple(seconds_of(entries[b]), entries[b].manager, entries[b].api_version,
                           entries[b].subresource);
  });
  std::map<std::string, std::size_t> buckets;  // by apiVersion
  std::vector<bool> gone(entries.size(), false);
  for (std::size_t i = 0; i < updaters.size() && count > kMaxUpdateEntries; ++i) {
    ManagedFieldsEntry& entry = entries[updaters[i]];
    const auto [bucket, first] = buckets.emplace(entry.api_version, updaters[i]);
    if (first) {
      continue;
    }
    ManagedFieldsEntry& target = entries[bucket->second];
    target.manager = "ancient-changes";
    target.subresource.clear();
    target.fields = target.fields.union_with(entry.fields);
    target.time = entry.time;
    gone[updaters[i]] = true;
    --count;
  }
  ManagedFields kept;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!gone[i]) {
      kept.push_back(std::move(entries[i]));
    }
  }
  entries = std::move(kept);
}

void track_update(const OwnershipContext& context, const Json* old, Json& object) {
  ManagedFields entries = entries_to_keep(context, old, object);
  if (old != nullptr && entries.empty()) {
    write_entries(object, Json());
    return;  // untracked until the first apply
  }
  entries = reconciled_entries(context, std::move(entries));
  Json after_room;
  Json before_room;
  const Json& after = without_cluster(object, after_room);
  if (old == nullptr) {
    before_room = empty_object(context.schema, after);
  }
  const Json& before = old == nullptr ? before_room : without_cluster(*old, before_room);
  FieldChanges changes = compare_objects(context.schema, before, after);
  const auto limit = [&](const FieldSet& set) { return owned_part(set, context.part); };

  std::map<std::string, FieldChanges> of_version;
  ManagedFields kept;
  for (ManagedFieldsEntry& entry : entries) {
    const FieldChanges* seen = &changes;
    const auto other = schema_of_entry(context, entry.api_version);
    if (other && *other != context.schema) {
      auto known = of_version.find(entry.api_version);
      if (known == of_version.end()) {
        known = of_version.emplace(entry.api_version, compare_objects(*other, before, after)).first;
      }
      seen = &known->second;
    }
    entry.fields = entry.fields.difference(limit(seen->modified).union_with(limit(seen->added)))
                       .difference(limit(seen->removed));
    if (!entry.fields.empty()) {
      kept.push_back(std::move(entry));
    }
  }
  entries = std::move(kept);

  FieldSet owned =
      limit(changes.modified).union_with(limit(changes.added)).difference(never_owned());
  if (!owned.empty()) {
    ManagedFieldsEntry mine;
    mine.manager = context.manager.empty() ? "unknown" : std::string(context.manager);
    mine.operation = kUpdate;
    mine.api_version = context.api_version;
    mine.subresource = context.subresource;
    mine.time = context.now;
    mine.fields = std::move(owned);
    const auto previous =
        std::find_if(entries.begin(), entries.end(),
                     [&](const ManagedFieldsEntry& each) { return each.same_owner(mine); });
    if (previous != entries.end()) {
      mine.fields = mine.fields.union_with(previous->fields);
      if (mine.time.empty()) {
        mine.time = previous->time;
      }
      *previous = std::move(mine);
    } else {
      entries.push_back(std::move(mine));
    }
    cap_update_entries(entries);
  }
  write_entries(object, managed_fields_json(std::move(entries)));
}

bool differs_beyond_times(const Json& old, const Json& object) {
  const auto of_metadata = [](std::string_view key, const Json* a,
                              const Json* b) -> std::optional<bool> {
    if (key == "resourceVersion") {
      return true;
    }
    return key == "managedFields" ? std::optional(same_entries(a, b)) : std::nullopt;
  };
  return !same_members(old, object, [&](std::string_view key, const Json* a, const Json* b) {
    return key == "metadata" && a != nullptr && b != nullptr
               ? std::optional(same_members(*a, *b, of_metadata))
               : std::nullopt;
  });
}

}  // namespace kintsugi::krm
