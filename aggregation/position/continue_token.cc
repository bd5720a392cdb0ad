#include "aggregation/position/continue_token.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "auth/sealed_token.h"
#include "krm/status.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::size_t kHeadBytes = 11;
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

std::string bound_of(const ListQuestion& question) {
  const Scope& scope = question.scope;
  return auth::bound_to({"merged", scope.route, scope.group, question.version, scope.resource,
                         question.ns, question.label_selector, question.field_selector,
                         question.shard_selector, question.payer});
}

Error expired() {
  return Error(Errc::kExpired,
               "The provided continue parameter is too old to display a consistent list "
               "result. You must start a new list without the continue parameter.");
}

tl::unexpected<Error> bad(std::string_view why) {
  return fail(krm::bad_request("continue key is not valid: " + std::string(why)));
}

}  // namespace

std::string encode_continue(const MergedContinue& token, const ListQuestion& question,
                            const TokenKey& key) {
  std::string bytes;
  put(bytes,
      std::uint64_t{token.inconsistent ? kInconsistent : std::uint8_t{0}} |
          (token.sequence != 0 ? kBySequence : std::uint8_t{0}),
      1);
  put(bytes, token.generation, 3);
  put(bytes, token.check, 3);
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
  return auth::seal_token(bytes, bound_of(question), key);
}

Expected<MergedContinue> decode_continue(std::string_view text, const ListQuestion& question,
                                         const TokenKeys& keys) {
  const auto opened = auth::open_token(text, bound_of(question), keys);
  if (!opened) {
    switch (opened.error()) {
      case auth::TokenFault::kUndecodable:
        return bad("it cannot be decoded");
      case auth::TokenFault::kForeign:
        return bad("it was not made here, or for another list");
      case auth::TokenFault::kOldKey:
        return fail(expired());
    }
  }
  const std::string_view body(*opened);
  const std::uint64_t flags = body.empty() ? ~std::uint64_t{0} : get(body, 0, 1);
  if (body.size() < kHeadBytes + 2 || (flags & ~std::uint64_t{kInconsistent | kBySequence}) != 0) {
    return bad("its version is not known");
  }
  MergedContinue out;
  out.inconsistent = (flags & kInconsistent) != 0;
  const bool by_sequence = (flags & kBySequence) != 0;
  out.generation = static_cast<std::uint32_t>(get(body, 1, 3));
  out.check = static_cast<std::uint32_t>(get(body, 4, 3));
  out.slot = static_cast<std::uint16_t>(get(body, 7, 2));
  const auto slots = static_cast<std::size_t>(get(body, 9, 2));
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
  MergedContinue token = made;
  if (token.sequence != 0) {
    auto vector = codec.find(token.sequence);
    if (!vector || vector->generation != token.generation) {
      return fail(expired());
    }
    token.pins = std::move(vector->components);
  }
  const SlotHistory& history = codec.history();
  const SlotTable* table = history.find(token.generation);
  if (table == nullptr || table->uids.size() != token.pins.size() ||
      cursor_check(codec.scope(), table->uids, history.era()) != token.check) {
    return fail(expired());
  }
  MergedContinue out = token;
  out.pins.assign(history.current().uids.size(), 0);
  std::optional<std::size_t> begins;
  for (std::size_t old = 0; old < token.pins.size(); ++old) {
    if (token.pins[old] == 0) {
      continue;
    }
    const std::string& uid = table->uids[old];
    const std::optional<std::size_t> slot = history.slot_of(uid, old);
    if (!slot || !members[*slot] || history.rolled_back_since(uid, token.generation)) {
      return fail(expired());
    }
    out.pins[*slot] = token.pins[old];
    if (old == token.slot) {
      begins = slot;
    }
  }
  if (!begins) {
    return fail(expired());
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
    const std::optional<std::size_t> slot = history.slot_of(table->uids[old], old);
    if (slot && *slot == token.slot) {
      out.slot = static_cast<std::uint16_t>(old);
    }
    out.pins[old] = slot ? token.pins[*slot] : 0;
  }
  return out;
}

}  // namespace kintsugi::aggregation
