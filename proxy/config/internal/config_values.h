#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "krm/config_values.h"

/// What values of proxy.yaml may be besides krm/config_values.h.
namespace kintsugi::proxy {

/// What net::AddressList reads.
[[nodiscard]] krm::ConfigValue address_list(std::vector<std::string>& target);
/// One or more of 1 to 65535.
[[nodiscard]] krm::ConfigValue port_list(std::vector<std::uint16_t>& target);
/// Regular expressions.
[[nodiscard]] krm::ConfigValue pattern_list(std::vector<std::string>& target);
/// Names of headers; none: the usual ones stay.
[[nodiscard]] krm::ConfigValue header_list(std::vector<std::string>& target);

}  // namespace kintsugi::proxy
