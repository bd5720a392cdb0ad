#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kintsugi::krm {

/// Where the parts of an API path stand among its segments, by the rules of Kubernetes' request
/// info (api-machinery 3.2). The one place that knows them: RequestInfo and RequestTarget both read
/// it.
struct PathShape {
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  /// Verbs that stand in the path, in front of the resource.
  enum class Special : std::uint8_t { kNone, kWatch, kProxy };

  bool is_resource = false;
  bool core = false;  ///< /api/<version>, without a group
  Special special = Special::kNone;
  std::size_t version = kNone, parts = kNone;  ///< `parts`: what follows the version (and verb)
  std::size_t ns = kNone, resource = kNone, name = kNone, subresource = kNone;

  [[nodiscard]] bool has_name() const noexcept { return name != kNone; }

  /// @param segment  segment(i) gives the decoded segment i < `count` as text. Only the first ten
  /// are looked at. O(1), allocates nothing.
  template <class Segment>
  [[nodiscard]] static PathShape of(std::size_t count, const Segment& segment) {
    PathShape out;
    if (count < 3) {
      return out;
    }
    const std::string_view prefix = segment(0);
    out.core = prefix == "api";
    std::size_t at = out.core ? 2 : 3;
    if ((!out.core && prefix != "apis") || count <= at) {
      return out;
    }
    out.version = at - 1;
    const std::string_view first = segment(at);
    if (first == "watch" || first == "proxy") {
      if (count == at + 1) {
        return out;
      }
      out.special = first == "watch" ? Special::kWatch : Special::kProxy;
      ++at;
    }
    out.is_resource = true;
    out.parts = at;
    if (segment(at) == "namespaces" && count > at + 1) {
      out.ns = at + 1;
      // Everything but these two below a namespace is a resource of its own.
      if (count > at + 2 && segment(at + 2) != "status" && segment(at + 2) != "finalize") {
        at += 2;
      }
    }
    out.resource = at;
    out.name = count > at + 1 ? at + 1 : kNone;
    out.subresource = count > at + 2 && out.special != Special::kProxy ? at + 2 : kNone;
    return out;
  }
};

}  // namespace kintsugi::krm
