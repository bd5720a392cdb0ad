#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/config/config.h"

namespace kintsugi::proxy {

/// What is wrong with an element of `topology.shards`: the key below it, and why.
struct ShardFault {
  std::string_view key;
  std::string what;
};
/// nullopt: nothing. Elements before it are known to be right.
[[nodiscard]] std::optional<ShardFault> judge(const ProxyConfig& config, std::size_t index);

}  // namespace kintsugi::proxy
