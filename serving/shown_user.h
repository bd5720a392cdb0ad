#pragma once

#include <string>

#include "auth/user.h"

namespace kintsugi::serving {

/// A user as lists for people name him. Who is known in some logical clusters only has these behind
/// his name: elsewhere the same name is another's.
[[nodiscard]] inline std::string shown_user(const auth::UserInfo& user) {
  const std::vector<std::string>* const scopes = user.extra_values(auth::kExtraScopes);
  if (scopes == nullptr || scopes->empty()) {
    return user.name;
  }
  std::string out = user.name + " [";
  for (const std::string& scope : *scopes) {
    out.append(out.ends_with('[') ? "" : " ").append(scope);
  }
  return out + "]";
}

}  // namespace kintsugi::serving
