#pragma once

#include <functional>
#include <string>

#include "base/error.h"
#include "proxy/config/config.h"

namespace kintsugi::server {

/// The configuration of a proxy: of its file and of the flags that go before it.
struct LoadedProxyConfig {
  proxy::ProxyConfig config;
  std::string path;  ///< of the file; "" without
  std::string text;  ///< what it holds
  krm::ConfigOrigin origin;
};

/// Reads all of it once more, for a reload. @error kConfig names flag or file, line and cause.
using LoadProxyConfig = std::function<Expected<LoadedProxyConfig>()>;

}  // namespace kintsugi::server
