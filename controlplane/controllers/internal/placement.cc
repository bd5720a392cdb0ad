#include "controlplane/controllers/internal/placement.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "krm/selector.h"

namespace kintsugi::controlplane {

Expected<std::vector<std::string>> placement_candidates(const RootView& root,
                                                        const krm::Json* selector,
                                                        const PlacementCounts& counts) {
  krm::Selector matching;
  if (selector != nullptr) {
    Expected<krm::Selector> parsed = krm::Selector::from_json(*selector);
    if (!parsed) {
      return fail(std::move(parsed.error()));
    }
    matching = std::move(*parsed);
  }
  std::vector<std::pair<std::size_t, std::string>> found;
  for (const auto& [name, shard] : root.shards()) {
    if (!shard.unschedulable && matching.matches(shard.labels)) {
      const auto count = counts.find(name);
      found.emplace_back(count == counts.end() ? 0 : count->second, name);
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> names;
  names.reserve(found.size());
  for (auto& [count, name] : found) {
    names.push_back(std::move(name));
  }
  return names;
}

std::string random_cluster_name() {
  constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz0123456789";
  constexpr std::size_t kLength = 16;
  constexpr unsigned kFair = 252;  // the largest multiple of 36 below 256
  std::string name;
  while (name.size() < kLength) {
    for (const char byte : random_bytes(kLength)) {
      const unsigned value = static_cast<unsigned char>(byte);
      if (value < kFair && name.size() < kLength) {
        const char c = kAlphabet[value % kAlphabet.size()];
        if (!name.empty() || c >= 'a') {
          name.push_back(c);
        }
      }
    }
  }
  return name;
}

}  // namespace kintsugi::controlplane
