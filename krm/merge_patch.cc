#include "krm/merge_patch.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace kintsugi::krm {
namespace {

/// What a value becomes under a patch that is no null. Both member lists are sorted, so one pass
/// over both keeps large objects linear.
void merge(Json& target, const Json& patch) {
  if (!patch.is_object() || !target.is_object()) {
    const bool was_object = target.is_object();
    target = patch;
    if (!was_object) {
      discard_nulls(target);
    }
    return;
  }
  Json::Object old = std::move(target.edit_members());
  Json::Object& merged = target.edit_members();
  merged.clear();
  merged.reserve(old.size() + patch.members().size());
  auto at = old.begin();
  for (const JsonMember& member : patch.members()) {
    for (; at != old.end() && at->key < member.key; ++at) {
      merged.push_back(std::move(*at));
    }
    JsonMember changed{member.key, Json()};
    if (at != old.end() && at->key == member.key) {
      changed.value = std::move(at->value);
      ++at;
    }
    if (!member.value.is_null()) {
      merge(changed.value, member.value);
      merged.push_back(std::move(changed));
    }
  }
  merged.insert(merged.end(), std::make_move_iterator(at), std::make_move_iterator(old.end()));
}

}  // namespace

Expected<Json> parse_merge_patch(std::string_view body, Json::ParseReport* report) {
  Expected<Json> patch =
      Json::parse(body, {.max_depth = 10'000, .collect_duplicates = report != nullptr}, report);
  if (!patch) {
    return fail(std::move(patch).error().at("error decoding patch"));
  }
  if (patch->is_null()) {
    return fail(Errc::kBadRequest, "Invalid JSON Patch");
  }
  if (!patch->is_object()) {
    const std::string type = patch->is_bool()     ? "bool"
                             : patch->is_number() ? "number"
                                                  : std::string(patch->type_name());
    return fail(Errc::kBadRequest, "error decoding patch: json: cannot unmarshal " + type +
                                       " into Go value of type map[string]interface {}");
  }
  return patch;
}

void discard_nulls(Json& value) {
  if (value.is_object()) {
    Json::Object& members = value.edit_members();
    members.erase(std::remove_if(members.begin(), members.end(),
                                 [](const JsonMember& each) { return each.value.is_null(); }),
                  members.end());
    for (JsonMember& member : members) {
      discard_nulls(member.value);
    }
  } else if (value.is_array()) {
    for (Json& item : value.edit_items()) {
      discard_nulls(item);
    }
  }
}

Json apply_merge_patch(Json target, const Json& patch) {
  merge(target, patch);
  return target;
}

Json make_merge_patch(const Json& from, const Json& to) {
  if (!from.is_object() || !to.is_object()) {
    return to;
  }
  Json patch = Json::object();
  for (const JsonMember& member : from.members()) {
    if (to.find(member.key) == nullptr) {
      patch[member.key] = nullptr;
    }
  }
  for (const JsonMember& member : to.members()) {
    const Json* old = from.find(member.key);
    if (old == nullptr || !(*old == member.value)) {
      patch[member.key] = old == nullptr ? member.value : make_merge_patch(*old, member.value);
    }
  }
  return patch;
}

}  // namespace kintsugi::krm
