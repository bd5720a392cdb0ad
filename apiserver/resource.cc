#include "apiserver/resource.h"

#include <algorithm>

namespace kintsugi::apiserver {

const ResourceVersion* ResourceDef::version(std::string_view name) const noexcept {
  for (const ResourceVersion& candidate : versions) {
    if (candidate.name == name) {
      return &candidate;
    }
  }
  return nullptr;
}

const ResourceVersion& ResourceDef::storage_version() const noexcept {
  for (const ResourceVersion& candidate : versions) {
    if (candidate.storage) {
      return candidate;
    }
  }
  return versions.front();
}

bool ResourceDef::has_verb(std::string_view verb) const noexcept {
  return std::find(verbs.begin(), verbs.end(), verb) != verbs.end();
}

std::string ResourceDef::qualified_name() const {
  return group.empty() ? plural : plural + "." + group;
}

std::string ResourceDef::api_version(std::string_view version_name) const {
  std::string text = group;
  if (!group.empty()) {
    text += '/';
  }
  text += version_name;
  return text;
}

}  // namespace kintsugi::apiserver
