#include "auth/sealed_token.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "auth/mac.h"
#include "base/aead.h"
#include "base/strings.h"

namespace kintsugi::auth {
namespace {

constexpr char kVersion = 2;  // 1 was authenticated and readable
constexpr std::size_t kHead = 2;

Secret derived(const Secret& secret) {
  auto bytes = hmac_sha256(secret.view(), "kintsugi: tokens that are sealed");
  Secret out = Secret::copy_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  wipe(bytes.data(), bytes.size());
  return out;
}

std::string head_of(std::uint8_t id) { return {kVersion, static_cast<char>(id)}; }

}  // namespace

TokenKey::TokenKey(std::uint8_t number, Secret text)
    : id(number), secret(std::move(text)), sealing(derived(secret)) {}

std::string bound_to(std::initializer_list<std::string_view> parts) {
  std::string out;
  for (const std::string_view part : parts) {
    out.append(std::to_string(part.size())).append(":").append(part);
  }
  return out;
}

std::string seal_token(std::string_view plain, std::string_view bound, const TokenKey& key) {
  std::string bytes = head_of(key.id);
  gcm_seal(bytes, key.sealing, bytes + std::string(bound), plain);
  return base64url_encode(bytes);
}

tl::expected<std::string, TokenFault> open_token(std::string_view text, std::string_view bound,
                                                 const TokenKeys& keys) {
  const std::optional<std::string> bytes = base64url_decode(text);
  // Of all texts that mean these bytes only the one that was handed out is good.
  if (!bytes || bytes->size() < kHead + kGcmNonce + kGcmTag || bytes->front() != kVersion ||
      base64url_encode(*bytes) != text) {
    return tl::unexpected(TokenFault::kUndecodable);
  }
  const auto id = static_cast<std::uint8_t>((*bytes)[1]);
  const auto key =
      std::find_if(keys.begin(), keys.end(), [id](const TokenKey& one) { return one.id == id; });
  if (key == keys.end()) {
    return tl::unexpected(TokenFault::kOldKey);
  }
  std::string_view sealed = *bytes;
  sealed.remove_prefix(kHead);
  std::optional<std::string> plain =
      gcm_open(key->sealing, head_of(id) + std::string(bound), sealed);
  if (!plain) {
    return tl::unexpected(TokenFault::kForeign);
  }
  return std::move(*plain);
}

}  // namespace kintsugi::auth
