#include "krm/service_path.h"

#include <algorithm>

#include "base/reading_counts.h"
#include "base/strings.h"
#include "krm/path_prefixes.h"

namespace kintsugi::krm {
namespace {

constexpr std::string_view kClusters = "clusters";

std::string decoded(std::string_view segment) { return percent_decode(segment).value_or(""); }

/// The same without an allocation where nothing is escaped.
bool spells(std::string_view segment, std::string_view word) {
  return segment == word ||
         (segment.find('%') != std::string_view::npos && decoded(segment) == word);
}

/// What stands between the name of a virtual workspace and /clusters/<cluster>.
struct Rule {
  std::string_view name;
  VirtualWorkspace kind;
  bool owner, typed, object, clusters;
};
constexpr Rule kRules[] = {
    {"apiexport", VirtualWorkspace::kApiExport, true, false, true, true},
    {"initializingworkspaces", VirtualWorkspace::kInitializing, true, true, false, true},
    {"terminatingworkspaces", VirtualWorkspace::kTerminating, true, true, false, true},
    {"replication", VirtualWorkspace::kReplication, true, false, true, true},
    {"apiresourceschema", VirtualWorkspace::kApiResourceSchema, true, false, false, true},
    {"migratingworkspaces", VirtualWorkspace::kMigrating, false, false, false, true},
    {"admin", VirtualWorkspace::kAdmin, false, false, false, false},
};

/// nullptr for a name that is not known.
const Rule* rule_of(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kRules), std::end(kRules),
                   [name](const Rule& one) { return spells(name, one.name); });
  return found != std::end(kRules) ? found : nullptr;
}

/// Takes segments off the front of a path with query.
class Segments {
 public:
  explicit Segments(std::string_view rest) : rest_(rest) {}
  /// The next segment as sent; "" when there is none. The rest begins behind it.
  std::string_view next() {
    const std::size_t begin = rest_.starts_with('/') ? 1 : 0;
    const std::size_t end = std::min(rest_.find_first_of("/?", begin), rest_.size());
    const std::string_view segment = rest_.substr(begin, end - begin);
    rest_.remove_prefix(end);
    return segment;
  }
  [[nodiscard]] std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

/// It is written into the shard's target decoded, so nothing in it may need an escape.
bool is_type_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}

}  // namespace

std::optional<ServicePath> parse_service_path(std::string_view target) {
  ++reading_counts.service_paths;
  Segments segments(target);
  (void)segments.next();
  ServicePath path;
  path.name = segments.next();
  if (path.name.empty()) {
    return std::nullopt;
  }
  const Rule* const rule = rule_of(path.name);
  if (rule == nullptr) {
    path.trail = segments.rest();
    return path;
  }
  path.kind = rule->kind;
  path.name = rule->name;
  if (rule->owner) {
    path.owner = decoded(segments.next());
    if (rule->typed) {
      const std::size_t colon = path.owner.rfind(':');
      if (colon == std::string::npos ||
          !is_type_name(std::string_view(path.owner).substr(colon + 1))) {
        return std::nullopt;
      }
      path.type = path.owner.substr(colon + 1);
      path.owner.resize(colon);
    }
    if (path.owner.empty()) {
      return std::nullopt;
    }
  }
  if (rule->object) {
    path.object_raw = segments.next();
    path.object = decoded(path.object_raw);
    if (path.object.empty() || path.object.find('/') != std::string::npos) {
      return std::nullopt;
    }
  }
  if (rule->clusters) {
    if (!spells(segments.next(), kClusters)) {
      return std::nullopt;
    }
    path.cluster = decoded(segments.next());
    if (path.cluster.empty()) {
      return std::nullopt;
    }
  }
  path.trail = segments.rest();
  return path;
}

VirtualWorkspace virtual_workspace_of(std::string_view path) {
  Segments segments(path);
  (void)segments.next();
  const Rule* const rule = rule_of(segments.next());
  return rule != nullptr ? rule->kind : VirtualWorkspace::kOther;
}

std::string service_target(const ServicePath& path, std::string_view owner,
                           std::string_view cluster) {
  std::string target(kServicesPrefix);
  target += path.name;
  if (!path.owner.empty()) {
    target.append("/").append(owner);
    if (!path.type.empty()) {
      target.append(":").append(path.type);
    }
  }
  if (!path.object.empty()) {
    target.append("/").append(path.object_raw);
  }
  if (!path.cluster.empty()) {
    target.append("/").append(kClusters).append("/").append(cluster);
  }
  return target.append(path.trail);
}

}  // namespace kintsugi::krm
