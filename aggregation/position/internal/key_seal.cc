#include "aggregation/position/internal/key_seal.h"

#include <utility>

namespace kintsugi::aggregation {
namespace {

constexpr std::string_view kMark = "sealed:";

}  // namespace

std::string KeySeal::seal(std::string_view name, const Secret& plain) const {
  if (keys.empty()) {
    return std::string(plain.view());
  }
  return std::string(kMark) + auth::seal_token(plain.view(), name, keys.front());
}

Expected<Secret> KeySeal::open(std::string_view name, std::string_view stored) const {
  if (!stored.starts_with(kMark)) {
    return Secret::copy_of(stored);
  }
  auto plain = auth::open_token(stored.substr(kMark.size()), name, keys);
  if (!plain) {
    return fail(Errc::kConfig, "store.seal_key_file: " + std::string(name) +
                                   " in the store is sealed with a key that is not in it");
  }
  return Secret(std::move(*plain));
}

bool KeySeal::fits(std::string_view stored) const noexcept {
  return stored.starts_with(kMark) == !keys.empty();
}

}  // namespace kintsugi::aggregation
