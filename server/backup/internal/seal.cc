#include "server/backup/internal/seal.h"

#include <algorithm>
#include <utility>

#include "auth/mac.h"
#include "base/aead.h"
#include "base/digest.h"

namespace kintsugi::server {
namespace {

template <class Bytes>
std::string_view view_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string bound_to(std::string_view id, std::string_view file, std::size_t block) {
  return std::string(id) + '/' + std::string(file) + '/' + std::to_string(block);
}

}  // namespace

Secret derived_key(const Secret& key, std::string_view salt, std::string_view info) {
  auto extracted = auth::hmac_sha256(salt, key.view());
  auto expanded = auth::hmac_sha256(view_of(extracted), std::string(info) + '\x01');
  const Secret out = Secret::copy_of(view_of(expanded));
  wipe(extracted.data(), extracted.size());
  wipe(expanded.data(), expanded.size());
  return out;
}

BackupSeal::BackupSeal(const Secret& key, std::string_view id)
    : id_(id), blocks_(derived_key(key, id, "blocks")), marks_(derived_key(key, id, "marks")) {}

std::string BackupSeal::seal(std::string_view file, std::string plain) const {
  if (!has_key()) {
    return plain;
  }
  std::string out;
  out.reserve(plain.size() + (plain.size() / kBlock + 1) * (kGcmNonce + kGcmTag));
  const std::string_view text = plain;
  std::size_t block = 0;
  for (std::size_t at = 0; at < text.size(); at += kBlock) {
    gcm_seal(out, blocks_, bound_to(id_, file, block++), text.substr(at, kBlock));
  }
  return out;
}

Expected<std::string> BackupSeal::open(std::string_view file, std::string sealed) const {
  if (!has_key()) {
    return sealed;
  }
  constexpr std::size_t kSealedBlock = kBlock + kGcmNonce + kGcmTag;
  std::string out;
  out.reserve(sealed.size());
  const std::string_view text = sealed;
  std::size_t block = 0;
  for (std::size_t at = 0; at < text.size(); at += kSealedBlock) {
    const auto plain =
        gcm_open(blocks_, bound_to(id_, file, block++), text.substr(at, kSealedBlock));
    if (!plain) {
      return fail(Errc::kCorrupt, std::string(file) + ": does not open with this key");
    }
    out += *plain;
  }
  return out;
}

std::string BackupSeal::mark_of(std::string_view text) const {
  return has_key() ? sha256_hex(view_of(auth::hmac_sha256(marks_.view(), text))) : sha256_hex(text);
}

}  // namespace kintsugi::server
