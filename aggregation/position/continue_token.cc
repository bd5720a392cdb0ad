#include "aggregation/position/continue_token.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "auth/mac.h"
#include "base/digest.h"
#include "base/strings.h"
#include "krm/status.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::size_t kHeadBytes = 21;
constexpr std::size_t kMacBytes = 16;
constexpr std::uint8_t kVersion = 1;
constexpr std::uint8_t kInconsistent = 1;
constexpr std::uint8_t kBySequence = 2;

void put(std::string& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = bytes; i-- > 0;) {
    out += static_cast<char>(value >> (8 * i) & 0xff);
  }
}

std::uint64_t get(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (const char c : bytes.substr(at, size)) {
    value = value << 8 | static_cast<unsigned char>(c);
  }
  return value;
}

std::string question_hash(const ListQuestion& question) {
  std::string text = question.scope.route;
  for (const std::string* part :
       {&question.scope.group, &question.version, &question.scope.resource, &question.ns,
        &question.label_selector, &question.field_selector, &question.shard_selector}) {
    (text += '\n') += *part;
  }
  const auto digest = sha256(text);
  return std::string(reinterpret_cast<const char*>(digest.data()), 8);
}

std::string mac_of(std::string_view bytes, const TokenKey& key) {
  const auto mac = auth::hmac_sha256(key.secret, bytes);
  return std::string(reinterpret_cast<const char*>(mac.data()), kMacBytes);
}

tl::unexpected<Error> bad(std::string_view why) {
  return fail(krm::bad_request("continue key is not valid: " + std::string(why)));
}

}  // namespace

std::string encode_continue(const MergedContinue& token, const ListQuestion& question,
                            const TokenKey& key) {
  std::string bytes;
  put(bytes, kVersion, 1);
  put(bytes, key.id, 1);
  put(bytes,
      std::uint64_t{token.inconsistent ? kInconsistent : std::uint8_t{0}} |
          (token.sequence != 0 ? kBySequence : std::uint8_t{0}),
      1);
  put(bytes, token.generation, 3);
  put(bytes, token.check, 3);
  bytes += question_hash(question);
  put(bytes, token.slot, 2);
  if (token.sequence != 0) {
    put(bytes, 0, 2);
    put(bytes, token.sequence, 8);
  } else {
    put(bytes, token.pins.size(), 2);
    for (const std::uint64_t pin : token.pins) {
      put(bytes, pin, 8);
    }
  }
  put(bytes, token.member_token.size(), 2);
  bytes += token.member_token;
  bytes += mac_of(bytes, key);
  return base64url_encode(bytes);
}

Expected<MergedContinue> decode_continue(std::string_view text, const ListQuestion& question,
                                         const TokenKeys& keys) {
  const std::optional<std::string> decoded = base64url_decode(text);
  // Of all texts that mean these bytes only the one that was handed out is good.
  if (!decoded || decoded->size() < kHeadBytes + 2 + kMacBytes ||
      base64url_encode(*decoded) != text) {
    return bad("it cannot be decoded");
  }
  const std::string_view bytes(*decoded);
  const auto id = static_cast<std::uint8_t>(get(bytes, 1, 1));
  const auto key =
      std::find_if(keys.begin(), keys.end(), [id](const TokenKey& each) { return each.id == id; });
  const std::string_view body = bytes.substr(0, bytes.size() - kMacBytes);
  if (key == keys.end() ||
      !auth::equal_in_constant_time(bytes.substr(body.size()), mac_of(body, *key))) {
    return bad("it was not made here");
  }
  const std::uint64_t flags = get(body, 2, 1);
  if (get(body, 0, 1) != kVersion || (flags & ~std::uint64_t{kInconsistent | kBySequence}) != 0) {
    return bad("its version is not known");
  }
  if (body.substr(9, 8) != question_hash(question)) {
    return bad("it belongs to another list");
  }
  MergedContinue out;
  out.inconsistent = (flags & kInconsistent) != 0;
  const bool by_sequence = (flags & kBySequence) != 0;
  out.generation = static_cast<std::uint32_t>(get(body, 3, 3));
  out.check = static_cast<std::uint32_t>(get(body, 6, 3));
  out.slot = static_cast<std::uint16_t>(get(body, 17, 2));
  const auto slots = static_cast<std::size_t>(get(body, 19, 2));
  const std::size_t member_at = kHeadBytes + (by_sequence ? 8 : 8 * slots);
  if (body.size() < member_at + 2 || body.size() != member_at + 2 + get(body, member_at, 2) ||
      (by_sequence ? slots != 0 : out.slot >= slots)) {
    return bad("its length is wrong");
  }
  out.sequence = by_sequence ? get(body, kHeadBytes, 8) : 0;
  if (by_sequence && out.sequence == 0) {
    return bad("it names no cursor");
  }
  for (std::size_t i = 0; i < slots; ++i) {
    out.pins.push_back(get(body, kHeadBytes + 8 * i, 8));
  }
  out.member_token = body.substr(member_at + 2);
  return out;
}

Expected<MergedContinue> translate_continue(const MergedContinue& made, const CursorCodec& codec,
                                            const std::vector<bool>& members) {
  const auto expired = [] {
    return fail(Error(Errc::kExpired,
                      "The provided continue parameter is too old to display a consistent list "
                      "result. You must start a new list without the continue parameter."));
  };
  MergedContinue token = made;
  if (token.sequence != 0) {
    auto vector = codec.find(token.sequence);
    if (!vector || vector->generation != token.generation) {
      return expired();
    }
    token.pins = std::move(vector->components);
  }
  const SlotHistory& history = codec.history();
  const SlotTable* table = history.find(token.generation);
  if (table == nullptr || table->uids.size() != token.pins.size() ||
      cursor_check(codec.scope(), table->uids, history.era()) != token.check) {
    return expired();
  }
  MergedContinue out = token;
  out.pins.assign(history.current().uids.size(), 0);
  std::optional<std::size_t> begins;
  for (std::size_t old = 0; old < token.pins.size(); ++old) {
    if (token.pins[old] == 0) {
      continue;
    }
    const std::string& uid = table->uids[old];
    const std::optional<std::size_t> slot = history.slot_of(uid);
    if (!slot || !members[*slot] || history.rolled_back_since(uid, token.generation)) {
      return expired();
    }
    out.pins[*slot] = token.pins[old];
    if (old == token.slot) {
      begins = slot;
    }
  }
  if (!begins) {
    return expired();
  }
  out.slot = static_cast<std::uint16_t>(*begins);
  return out;
}

MergedContinue continue_as_of(std::uint32_t generation, MergedContinue token,
                              const CursorCodec& codec) {
  const SlotHistory& history = codec.history();
  const SlotTable* table = history.find(generation);
  if (table == nullptr || generation == history.current().generation) {
    return token;
  }
  MergedContinue out = token;
  out.generation = generation;
  out.check = cursor_check(codec.scope(), table->uids, history.era());
  out.pins.assign(table->uids.size(), 0);
  for (std::size_t old = 0; old < table->uids.size(); ++old) {
    const std::optional<std::size_t> slot = history.slot_of(table->uids[old]);
    if (slot && *slot == token.slot) {
      out.slot = static_cast<std::uint16_t>(old);
    }
    out.pins[old] = slot ? token.pins[*slot] : 0;
  }
  return out;
}

}  // namespace kintsugi::aggregation
