#pragma once

namespace kintsugi {

/// The release that was built: "0.1.0".
[[nodiscard]] const char* product_version() noexcept;

}  // namespace kintsugi
