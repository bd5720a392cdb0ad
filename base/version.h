#pragma once

namespace kintsugi {

/// The release that was built: "0.1.0".
[[nodiscard]] const char* product_version() noexcept;

/// What was built of it: "0.1.0~dev.15+g539b29e"; product_version() until somebody has said it.
[[nodiscard]] const char* build_version() noexcept;
/// @param version  of static life. Before threads are.
void set_build_version(const char* version) noexcept;

}  // namespace kintsugi
