#pragma once

#include <string>

#include "krm/config_table.h"
#include "proxy/config/config.h"

namespace kintsugi::proxy {

/// Every key of proxy.yaml. Refers to `config`.
/// @param folder  what relative names of files start at.
[[nodiscard]] krm::ConfigTable key_table(ProxyConfig& config, const std::string& folder);

}  // namespace kintsugi::proxy
