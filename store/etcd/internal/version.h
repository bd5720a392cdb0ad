#pragma once

#include <optional>
#include <string_view>

namespace kintsugi::store::etcd {

/// Of a member, as its status says.
struct Version {
  int major = 0, minor = 0, patch = 0;
  [[nodiscard]] static std::optional<Version> parse(std::string_view text);
  /// 3.4.22 and later, 3.5.3 and later, 3.6 and later (GR-124).
  [[nodiscard]] bool is_supported() const noexcept;
  /// What it says of a watch's progress when asked holds (GR-113).
  [[nodiscard]] bool tells_progress() const noexcept;
};

}  // namespace kintsugi::store::etcd
