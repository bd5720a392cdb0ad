#pragma once

#include <string_view>

/// The texts of the builtin types, in the form of type_table.h; one per API group.
namespace kintsugi::krm {

[[nodiscard]] std::string_view meta_types();
[[nodiscard]] std::string_view core_types();
[[nodiscard]] std::string_view events_types();
[[nodiscard]] std::string_view coordination_types();
[[nodiscard]] std::string_view rbac_types();
[[nodiscard]] std::string_view authorization_types();
[[nodiscard]] std::string_view authentication_types();
[[nodiscard]] std::string_view apiextensions_types();
[[nodiscard]] std::string_view admissionregistration_types();

}  // namespace kintsugi::krm
