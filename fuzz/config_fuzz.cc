// A proxy.yaml: taken, or refused with the name of the file and a cause.
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/pieces.h"
#include "proxy/config/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using kintsugi::fuzz::check;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = kintsugi::proxy::parse_proxy_config(text, "/nowhere/proxy.yaml");
  if (!config) {
    const std::string told = config.error().to_string();
    check(told.find("/nowhere/proxy.yaml") != std::string::npos && told.size() < 4'096 + size);
  }
  return 0;
}
