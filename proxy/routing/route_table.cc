#include "proxy/routing/route_table.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "krm/request_target.h"

namespace kintsugi::proxy {
namespace {

constexpr std::string_view kCluster = "{cluster}";
constexpr std::size_t kMostLooked = 33;  // one more than a pattern may have

std::string decoded(std::string_view segment) {
  return segment.find('%') == std::string_view::npos
             ? std::string(segment)
             : percent_decode(segment).value_or(std::string(segment));
}

/// Segments that patterns are compared with; what is behind the longest pattern does not matter.
std::vector<std::string> segments_of(std::string_view path) {
  std::vector<std::string> out;
  if (path.starts_with('/')) {
    path.remove_prefix(1);
  }
  while (!path.empty() && out.size() < kMostLooked) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    out.push_back(decoded(path.substr(0, slash)));
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return out;
}

}  // namespace

RouteTable::RouteTable(std::vector<MappingEntry> entries)
    : entries_(std::move(entries)), nodes_(1) {
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].is_clusters()) {
      continue;
    }
    std::uint32_t at = 0;
    for (const std::string& segment : entries_[i].segments) {
      const auto fresh = static_cast<std::uint32_t>(nodes_.size());
      const bool any = segment.front() == '{';
      std::uint32_t next = any ? nodes_[at].placeholder : 0;
      if (any && next == 0) {
        nodes_[at].placeholder = next = fresh;
      } else if (!any) {
        next = nodes_[at].literals.emplace(segment, fresh).first->second;
      }
      if (next == fresh) {
        nodes_.emplace_back();
      }
      at = next;
    }
    nodes_[at].entry = i;
  }
}

void RouteTable::descend(std::uint32_t node, const std::vector<std::string>& segments,
                         std::size_t depth, Match& best) const {
  const Node& here = nodes_[node];
  if (here.entry != kNone && (best.entry == nullptr || depth > best.depth)) {
    best.entry = &entries_[here.entry];
    best.depth = depth;
  }
  if (depth == segments.size()) {
    return;
  }
  if (const auto found = here.literals.find(segments[depth]); found != here.literals.end()) {
    descend(found->second, segments, depth + 1, best);
  }
  if (here.placeholder != 0 && !segments[depth].empty()) {
    descend(here.placeholder, segments, depth + 1, best);
  }
}

RouteTable::Match RouteTable::find(std::string_view path) const {
  Match best;
  const std::vector<std::string> segments = segments_of(path);
  descend(0, segments, 0, best);
  if (best.entry == nullptr) {
    return best;
  }
  const auto& pattern = best.entry->segments;
  const auto named = std::find(pattern.begin(), pattern.end(), kCluster);
  if (named != pattern.end()) {
    best.cluster = segments[static_cast<std::size_t>(named - pattern.begin())];
  } else {
    best.cluster = krm::named_cluster(path);
  }
  return best;
}

const MappingEntry* RouteTable::clusters() const noexcept {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [](const MappingEntry& entry) { return entry.is_clusters(); });
  return found != entries_.end() ? &*found : nullptr;
}

}  // namespace kintsugi::proxy
