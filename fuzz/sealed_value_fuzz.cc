// A stored value: whatever bytes lie on the disk, they are plain, open, or are refused; what opens
// opens nowhere else and with no bit changed.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "store/encryption/value_codec.h"

namespace {

using kintsugi::store::kSealedMark;
using kintsugi::store::ValueCodec;

std::string stored_key(std::string_view name) {
  std::string key("secrets");
  (key += '\0') += "root";
  (key += '\0') += "default";
  return (key += '\0') += name;
}

void check(bool holds) {
  if (!holds) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto kCodec = ValueCodec::parse(
      "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"
      "- resources: [secrets]\n  providers:\n  - aesgcm: {keys: ["
      "{name: key1, secret: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=},"
      "{name: key2, secret: AAECAwQFBgcICQoLDA0ODw==}]}\n  - identity: {}\n");
  const std::string_view stored(reinterpret_cast<const char*>(data), size);
  const std::string key = stored_key("a");
  const auto opened = (*kCodec)->open(key, stored);
  if (!stored.starts_with(kSealedMark)) {
    check(opened && !opened->is_sealed && opened->stale);
  } else if (!opened) {
    check(opened.error().message().starts_with("unable to transform key \"secrets/root/"));
  } else {
    check(opened->is_sealed && opened->plain.size() + 28 < stored.size());
    check(!(*kCodec)->open(stored_key("b"), stored));
    std::string other(stored);
    other.back() = static_cast<char>(other.back() ^ 1);
    check(!(*kCodec)->open(key, other));
  }
  check(!ValueCodec::none()->open(key, stored) == stored.starts_with(kSealedMark));
  const std::string sealed = (*kCodec)->seal(key, std::string(stored));
  const auto again = (*kCodec)->open(key, sealed);
  check(again && again->is_sealed && !again->stale && again->plain == stored);
  return 0;
}
