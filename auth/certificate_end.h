#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kintsugi::auth {

/// When the first of the certificates in a PEM text ends [s since 1970]; what else it holds (keys)
/// is skipped. nullopt: there is none, or one that is broken.
[[nodiscard]] std::optional<std::int64_t> first_end_of(std::string_view pem) noexcept;

/// Whether the first certificate in a PEM text is of an organization (O), which is a group. False
/// for what cannot be read.
[[nodiscard]] bool is_of_organization(std::string_view pem, std::string_view organization);

/// The name of the first certificate's subject; "": there is none.
[[nodiscard]] std::string common_name_of(std::string_view pem);

}  // namespace kintsugi::auth
