// Masking a text: no private key and no token is left, and what was masked stays as it is.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/masked_text.h"
#include "fuzz/pieces.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using kintsugi::masked_text;
  using kintsugi::fuzz::check;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string once = masked_text(text);
  check(once.size() <= 16 * text.size());
  for (const char* const label : {"-----BEGIN PRIVATE KEY-", "-----BEGIN EC PRIVATE KEY-"}) {
    check(once.find(label) == std::string::npos);
  }
  const std::string secret = "Authorization: Bearer 0123456789abcdef";
  check(masked_text(std::string(text) + "\n" + secret).find("0123456789abcdef") ==
        std::string::npos);
  check(masked_text(once).size() <= 16 * once.size());
  return 0;
}
