// An EncryptionConfiguration: judged without a crash; one that is taken opens what
// it sealed.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "store/encryption/value_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto codec = kintsugi::store::ValueCodec::parse(text);
  if (!codec) {
    if (codec.error().message().empty()) {
      std::abort();
    }
    return 0;
  }
  for (const std::string_view resource : {"secrets", "configmaps", "widgets.ex.io:9f"}) {
    std::string key(resource);
    (key += '\0') += "root";
    (key += '\0') += "a";
    const std::string stored = (*codec)->seal(key, "plain text");
    const auto opened = (*codec)->open(key, stored);
    // The first provider may be unable to read what another entry wrote, never what it wrote
    // itself.
    if (!opened || opened->stale || (opened->is_sealed ? opened->plain : stored) != "plain text" ||
        opened->is_sealed != stored.starts_with(kintsugi::store::kSealedMark)) {
      std::abort();
    }
  }
  return 0;
}
