#include "workers/messaging/model/age.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>

namespace kintsugi::workers {

namespace {

/// The first 16 digits of a UUID.
std::optional<std::uint64_t> digits_of(std::string_view uid) noexcept {
  constexpr std::string_view kForm = "xxxxxxxx-xxxx-xxxx", kDigits = "0123456789abcdef";
  if (uid.size() < kForm.size()) {
    return std::nullopt;
  }
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    const std::size_t digit = kDigits.find(uid[i]);
    if (kForm[i] == '-' ? uid[i] != '-' : digit == std::string_view::npos) {
      return std::nullopt;
    }
    out = kForm[i] == '-' ? out : out << 4U | digit;
  }
  return out;
}

std::uint64_t bytes_of(std::string_view uid) noexcept {
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < sizeof(out); ++i) {
    out = out << 8U | (i < uid.size() ? static_cast<unsigned char>(uid[i]) : 0U);
  }
  return out;
}

}  // namespace

Age age_of(const ObjectIdentity& id, ObjectId object) noexcept {
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  Age age;
  const std::optional<std::uint64_t> digits = digits_of(id.uid);
  age.uid = digits ? *digits : bytes_of(id.uid);
  age.created = static_cast<std::uint32_t>(std::clamp<std::int64_t>(id.created, 0, kMost));
  age.object = object;
  return age;
}

}  // namespace kintsugi::workers
