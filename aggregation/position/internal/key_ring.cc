#include "aggregation/position/internal/key_ring.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "krm/other_members.h"

namespace kintsugi::aggregation {
namespace {

using krm::Json;

constexpr std::string_view kStates[] = {"next", "signing", "accepted"};
constexpr std::size_t kLeastBytes = 16;

std::optional<KeyRing::State> state_of(std::string_view text) {
  for (std::size_t i = 0; i < std::size(kStates); ++i) {
    if (kStates[i] == text) {
      return static_cast<KeyRing::State>(i);
    }
  }
  return std::nullopt;
}

}  // namespace

KeyRing KeyRing::of(Secret first) {
  KeyRing ring;
  ring.keys_.push_back({1, std::move(first), 0, State::kSigning});
  return ring;
}

Expected<KeyRing> KeyRing::from_json(const Json& record) {
  const Json* list = record.find("keys");
  if (list == nullptr) {
    return fail(Errc::kCorrupt, "the record of keys of tokens has none");
  }
  KeyRing ring;
  std::size_t signing = 0, next = 0;
  for (const Json& one : list->items()) {
    const Json* id = one.find("id");
    const Json* since = one.find("since");
    const auto state = state_of(one.text({"state"}));
    auto secret = base64url_decode(one.text({"secret"}));
    if (id == nullptr || id->as_integer() < 0 || id->as_integer() > 255 || since == nullptr ||
        !state || !secret || secret->size() < kLeastBytes) {
      return fail(Errc::kCorrupt, "the keys of tokens in the store cannot be read");
    }
    signing += *state == State::kSigning ? 1 : 0;
    next += *state == State::kNext ? 1 : 0;
    ring.keys_.push_back({static_cast<std::uint8_t>(id->as_integer()), Secret(std::move(*secret)),
                          since->as_integer(), *state});
  }
  if (signing != 1 || next > 1 || ring.keys_.size() > kMost) {
    return fail(Errc::kCorrupt, "the keys of tokens in the store do not belong together");
  }
  ring.others_ = krm::other_members(record, {"keys"});
  return ring;
}

Json KeyRing::to_json() const {
  Json list = Json::array();
  for (const Key& key : keys_) {
    list.push_back(Json::object({{"id", Json(static_cast<std::int64_t>(key.id))},
                                 {"secret", Json(base64url_encode(key.secret.view()))},
                                 {"since", Json(key.since)},
                                 {"state", kStates[static_cast<std::size_t>(key.state)]}}));
  }
  Json record = Json::object({{"keys", std::move(list)}});
  krm::add_members(record, others_);
  return record;
}

TokenKeys KeyRing::keys() const {
  TokenKeys out;
  for (const Key& key : keys_) {
    TokenKey known(key.id, key.secret);
    out.insert(key.state == State::kSigning ? out.begin() : out.end(), std::move(known));
  }
  return out;
}

bool KeyRing::has_next() const noexcept {
  return std::any_of(keys_.begin(), keys_.end(),
                     [](const Key& key) { return key.state == State::kNext; });
}

std::uint8_t KeyRing::free_id() const {
  std::uint8_t id = keys_.empty() ? 0 : keys_.back().id;
  do {
    ++id;
  } while (std::any_of(keys_.begin(), keys_.end(), [id](const Key& key) { return key.id == id; }));
  return id;
}

bool KeyRing::add_next(Secret secret, std::int64_t now) {
  if (has_next() || keys_.size() >= kMost) {
    return false;
  }
  keys_.push_back({free_id(), std::move(secret), now, State::kNext});
  return true;
}

bool KeyRing::promote(std::int64_t now) {
  if (!has_next()) {
    return false;
  }
  for (Key& key : keys_) {
    if (key.state != State::kAccepted) {
      key.state = key.state == State::kNext ? State::kSigning : State::kAccepted;
      key.since = now;
    }
  }
  return true;
}

bool KeyRing::drop_old(std::int64_t now) {
  return std::erase_if(keys_, [now](const Key& key) {
           return key.state == State::kAccepted && key.since + kAcceptedFor <= now;
         }) != 0;
}

std::optional<std::int64_t> KeyRing::next_drop() const {
  std::optional<std::int64_t> out;
  for (const Key& key : keys_) {
    if (key.state == State::kAccepted) {
      out = std::min(out.value_or(key.since + kAcceptedFor), key.since + kAcceptedFor);
    }
  }
  return out;
}

}  // namespace kintsugi::aggregation
