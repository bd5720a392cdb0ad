#include "topology/identities.h"

#include <algorithm>

namespace kintsugi::topology {
namespace {

/// Whether the export of this name brings the resource.
bool brings(std::string_view name, std::string_view group, std::string_view resource) {
  if (name == group) {
    return true;
  }
  const std::size_t dot = name.size() - group.size() - 1;
  return name.size() > group.size() + 1 && name.ends_with(group) && name[dot] == '.' &&
         (resource.empty() || resource == name.substr(0, dot));
}

}  // namespace

void Identities::set(std::string_view export_name, std::string_view hash) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = std::find_if(hashes_.begin(), hashes_.end(),
                                  [&](const auto& one) { return one.first == export_name; });
  if (found != hashes_.end()) {
    found->second = hash;
  } else {
    hashes_.emplace_back(export_name, hash);
  }
}

std::string Identities::of(std::string_view group, std::string_view resource) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = std::find_if(hashes_.begin(), hashes_.end(), [&](const auto& one) {
    return !group.empty() && brings(one.first, group, resource);
  });
  return found == hashes_.end() ? std::string() : found->second;
}

}  // namespace kintsugi::topology
