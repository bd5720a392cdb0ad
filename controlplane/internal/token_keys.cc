#include "controlplane/internal/token_keys.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "krm/json.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

/// No key of an object: those have NUL bytes.
constexpr std::string_view kTokenKeys = "kintsugi.shard/token-keys";
constexpr std::int64_t kWeek = 7 * 24 * 3'600;  // [s]
constexpr std::size_t kSecretBytes = 32, kMostKeys = 2;

struct Kept {
  auth::TokenKey key;
  std::int64_t made;  ///< [s since 1970]
};

Expected<std::vector<Kept>> read(std::string_view text) {
  const auto json = Json::parse(text);
  const Json* const keys = json ? json->find("keys") : nullptr;
  std::vector<Kept> out;
  if (keys != nullptr) {
    for (const Json& one : keys->items()) {
      auto secret = base64url_decode(one.text({"secret"}));
      const Json *id = one.find("id"), *made = one.find("made");
      if (secret && secret->size() == kSecretBytes && id != nullptr && made != nullptr) {
        out.push_back({{static_cast<std::uint8_t>(id->as_integer()), Secret(std::move(*secret))},
                       made->as_integer()});
      }
    }
  }
  if (out.empty()) {
    return fail(Errc::kCorrupt, "keys of continue tokens in the store");
  }
  return out;
}

std::string written(const std::vector<Kept>& kept) {
  Json keys = Json::array();
  for (const Kept& one : kept) {
    keys.push_back(Json::object({{"id", Json(std::int64_t{one.key.id})},
                                 {"secret", Json(base64url_encode(one.key.secret.view()))},
                                 {"made", Json(one.made)}}));
  }
  return Json::object({{"keys", std::move(keys)}}).dump();
}

}  // namespace

Expected<auth::TokenKeys> read_token_keys(store::Store& store, std::int64_t now) {
  std::vector<Kept> kept;
  const Expected<store::Entry> entry = store.get(kTokenKeys);
  if (entry) {
    auto known = read(entry->value.view());
    if (!known) {
      return fail(std::move(known.error()));
    }
    kept = std::move(*known);
  } else if (entry.error().code() != Errc::kNotFound) {
    return fail(entry.error().clone());
  }
  if (kept.empty() || now - kept.front().made >= kWeek) {
    const auto id = static_cast<std::uint8_t>(kept.empty() ? 1 : kept.front().key.id + 1);
    kept.insert(kept.begin(), {{id, Secret(random_bytes(kSecretBytes))}, now});
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(std::min(kept.size(), kMostKeys)),
               kept.end());
    std::vector<store::Op> ops;
    ops.push_back({store::EventType::kPut, std::string(kTokenKeys), written(kept), std::nullopt});
    if (const auto stored = store.commit_wait(std::move(ops)); !stored) {
      return fail(stored.error().clone());
    }
  }
  auth::TokenKeys keys;
  for (Kept& one : kept) {
    keys.push_back(std::move(one.key));
  }
  return keys;
}

}  // namespace kintsugi::controlplane
