// "<certificates>\0<key>": whatever is no PEM is told, and nothing but a pair that fits passes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "auth/key_pair.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string_view certificates = text.substr(0, text.find('\0'));
  const std::string_view key = text.substr(std::min(certificates.size() + 1, text.size()));
  const bool fits = kintsugi::auth::key_pair_fault(certificates, key).empty();
  if (fits && (certificates.find("CERTIFICATE-----") == std::string_view::npos ||
               key.find("PRIVATE KEY-----") == std::string_view::npos)) {
    std::abort();
  }
  return 0;
}
