#pragma once

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "krm/json.h"

/// A program that rewrites a record of a later one leaves alone what it does not know (GR-211).
namespace kintsugi::krm {

/// Members of an object that are none of these; an empty object: there are none.
[[nodiscard]] inline Json other_members(const Json& object,
                                        std::initializer_list<std::string_view> known) {
  Json out = Json::object();
  for (const JsonMember& member : object.members()) {
    if (std::find(known.begin(), known.end(), std::string_view(member.key)) == known.end()) {
      out[member.key] = member.value;
    }
  }
  return out;
}

inline void add_members(Json& object, const Json& others) {
  for (const JsonMember& member : others.members()) {
    object[member.key] = member.value;
  }
}

}  // namespace kintsugi::krm
