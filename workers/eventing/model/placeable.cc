#include "workers/eventing/model/placeable.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/digest.h"
#include "base/strings.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

constexpr std::int64_t kMostUnits = 2147483647;
constexpr std::string_view kMaxAllowed = "maxAllowedVReplicas", kPlacementsMember = "placements",
                           kPodName = "podName", kVReplicas = "vreplicas";
constexpr std::string_view kPlacementsPart = "Placements.", kMaxPart = "MaxAllowedVReplicas";

void note(std::string* problem, std::string text) {
  if (problem != nullptr && problem->empty()) {
    *problem = std::move(text);
  }
}

std::string placement_key(std::size_t index, std::string_view member) {
  std::string key(kPlaceablePrefix);
  key.append(kPlacementsPart).append(std::to_string(index)).append(".").append(member);
  return key;
}

bool in_range(std::int64_t value) noexcept { return value >= 0 && value <= kMostUnits; }

}  // namespace

std::vector<Placed> normalise_placements(std::span<const Placed> list, std::string* problem) {
  std::vector<Placed> out;
  std::int64_t sum = 0;
  for (const Placed& placed : list) {
    if (placed.host.empty() || placed.n <= 0) {
      note(problem, placed.host.empty()
                        ? std::string("a placement names no pod")
                        : placed.host + ": " + std::to_string(placed.n) + " vreplicas");
      continue;
    }
    const std::int64_t n = std::min(placed.n, kMostUnits - sum);
    if (n != placed.n) {
      note(problem, placed.host + ": more than 2147483647 vreplicas in all");
    }
    if (n == 0) {
      continue;
    }
    sum += n;
    const auto same = std::find_if(out.begin(), out.end(),
                                   [&](const Placed& one) { return one.host == placed.host; });
    if (same == out.end()) {
      out.push_back({placed.host, n});
    } else {
      note(problem, placed.host + ": named twice");
      same->n += n;
    }
  }
  return out;
}

ReadPlaceable read_status_placeable(const Json& status) {
  ReadPlaceable out;
  if (const Json* const max = status.find(kMaxAllowed); max != nullptr && !max->is_null()) {
    if (max->is_integer() && in_range(max->as_integer())) {
      out.placeable.max_allowed = max->as_integer();
    } else {
      note(&out.problem, "maxAllowedVReplicas is no number of 0 to 2147483647");
    }
  }
  std::vector<Placed> list;
  if (const Json* const placements = status.find(kPlacementsMember); placements != nullptr) {
    if (!placements->is_array() && !placements->is_null()) {
      note(&out.problem, "placements is no list");
    }
    for (const Json& one : placements->items()) {
      const Json* const n = one.find(kVReplicas);
      list.push_back({std::string(one.text({kPodName})), n == nullptr ? 0 : n->as_integer()});
    }
  }
  out.placeable.placements = normalise_placements(list, &out.problem);
  return out;
}

void write_status_placeable(Json& status, const Placeable& placeable) {
  if (placeable.max_allowed) {
    status[kMaxAllowed] = *placeable.max_allowed;
  } else {
    status.erase(kMaxAllowed);
  }
  if (placeable.placements.empty()) {
    status.erase(kPlacementsMember);
    return;
  }
  Json list = Json::array();
  for (const Placed& placed : placeable.placements) {
    list.push_back(Json::object({{kPodName, placed.host}, {kVReplicas, placed.n}}));
  }
  status[kPlacementsMember] = std::move(list);
}

ReadPlaceable read_annotation_placeable(const Json& annotations) {
  ReadPlaceable out;
  std::map<std::uint32_t, Placed> by_index;
  for (const auto& [key, value] : annotations.members()) {
    if (!key.starts_with(kPlaceablePrefix)) {
      continue;
    }
    const std::string_view name = std::string_view(key).substr(kPlaceablePrefix.size());
    const auto number = parse_decimal<std::int64_t>(value.as_string());
    if (name == kMaxPart) {
      if (number && in_range(*number)) {
        out.placeable.max_allowed = *number;
      } else {
        note(&out.problem, key + ": is no number of 0 to 2147483647");
      }
      continue;
    }
    if (!name.starts_with(kPlacementsPart)) {
      continue;
    }
    const std::string_view rest = name.substr(kPlacementsPart.size());
    const std::size_t dot = rest.find('.');
    const auto index = parse_decimal<std::uint32_t>(rest.substr(0, dot));
    const std::string_view member =
        dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
    if (!index || (member != "PodName" && member != "VReplicas")) {
      note(&out.problem, key + ": is no member of a placement");
    } else if (member == "PodName") {
      by_index[*index].host = value.as_string();
    } else {
      by_index[*index].n = number.value_or(0);
    }
  }
  std::vector<Placed> list;
  list.reserve(by_index.size());
  for (auto& [index, placed] : by_index) {
    list.push_back(std::move(placed));
  }
  out.placeable.placements = normalise_placements(list, &out.problem);
  return out;
}

void write_annotation_placeable(Json& annotations, const Placeable& placeable) {
  std::vector<std::string> old;
  for (const auto& [key, value] : annotations.members()) {
    if (key.starts_with(kPlaceablePrefix)) {
      old.push_back(key);
    }
  }
  for (const std::string& key : old) {
    annotations.erase(key);
  }
  if (placeable.max_allowed) {
    annotations[std::string(kPlaceablePrefix) + std::string(kMaxPart)] =
        std::to_string(*placeable.max_allowed);
  }
  for (std::size_t i = 0; i < placeable.placements.size(); ++i) {
    annotations[placement_key(i, "PodName")] = placeable.placements[i].host;
    annotations[placement_key(i, "VReplicas")] = std::to_string(placeable.placements[i].n);
  }
}

std::int64_t sum_of_placements(std::span<const Placed> list) noexcept {
  std::int64_t sum = 0;
  for (const Placed& placed : list) {
    sum += placed.n;
  }
  return sum;
}

std::int64_t placed_on(std::span<const Placed> list, std::string_view pod) noexcept {
  const auto at = std::find_if(list.begin(), list.end(),
                               [&](const Placed& placed) { return placed.host == pod; });
  return at == list.end() ? 0 : at->n;
}

std::string canonical_placements(std::span<const Placed> list) {
  std::vector<Placed> sorted(list.begin(), list.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const Placed& a, const Placed& b) { return a.host < b.host; });
  std::string text;
  for (const Placed& placed : sorted) {
    text.append(text.empty() ? "" : ",").append(placed.host).append("=");
    text += std::to_string(placed.n);
  }
  return text;
}

std::string placements_digest(std::span<const Placed> list) {
  return sha256_hex(canonical_placements(list)).substr(0, 8);
}

}  // namespace kintsugi::workers
