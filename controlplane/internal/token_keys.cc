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

/// What stands in the store, and since which revision; none: nothing.
struct Stored {
  std::vector<Kept> kept;
  store::Revision modified = 0;
};

Expected<Stored> load(const store::Store& store) {
  Stored out;
  const Expected<store::Entry> entry = store.get(kTokenKeysRow);  // no object: those have NUL bytes
  if (!entry) {
    return entry.error().code() == Errc::kNotFound ? Expected<Stored>(std::move(out))
                                                   : fail(entry.error().clone());
  }
  auto kept = read(entry->value.view());
  if (!kept) {
    return fail(std::move(kept.error()));
  }
  out.kept = std::move(*kept);
  out.modified = entry->modified;
  return out;
}

auth::TokenKeys keys_of(std::vector<Kept> kept) {
  auth::TokenKeys keys;
  for (Kept& one : kept) {
    keys.push_back(std::move(one.key));
  }
  return keys;
}

}  // namespace

Expected<auth::TokenKeys> known_token_keys(const store::Store& store) {
  auto stored = load(store);
  if (!stored) {
    return fail(std::move(stored.error()));
  }
  if (stored->kept.empty()) {
    return fail(Errc::kNotFound);
  }
  return keys_of(std::move(stored->kept));
}

Expected<auth::TokenKeys> read_token_keys(store::Store& store, std::int64_t now) {
  while (true) {
    auto stored = load(store);
    if (!stored) {
      return fail(std::move(stored.error()));
    }
    std::vector<Kept>& kept = stored->kept;
    if (!kept.empty() && now - kept.front().made < kWeek) {
      return keys_of(std::move(kept));
    }
    const auto id = static_cast<std::uint8_t>(kept.empty() ? 1 : kept.front().key.id + 1);
    kept.insert(kept.begin(), {{id, Secret(random_bytes(kSecretBytes))}, now});
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(std::min(kept.size(), kMostKeys)),
               kept.end());
    std::vector<store::Op> ops;
    ops.push_back(
        {store::EventType::kPut, std::string(kTokenKeysRow), written(kept), stored->modified});
    const auto committed = store.commit_wait(std::move(ops));
    if (!committed) {
      return fail(committed.error().clone());
    }
    if (!committed->conflict) {
      return keys_of(std::move(kept));
    }
  }
}

}  // namespace kintsugi::controlplane
