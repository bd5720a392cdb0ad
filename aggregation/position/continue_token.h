#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "aggregation/position/cursor.h"
#include "auth/sealed_token.h"
#include "base/error.h"

/// Continue tokens of merged lists (AGG-612).
namespace kintsugi::aggregation {

/// Secrets that tokens are sealed with; shared by replicas. Tokens are made with the first and
/// accepted under every key here.
using TokenKey = auth::TokenKey;
using TokenKeys = auth::TokenKeys;

/// What a list asks for, and who; a token is good for the same question only (SE-166). Texts are
/// percent-decoded.
struct ListQuestion {
  Scope scope;
  std::string version, ns;
  std::string label_selector, field_selector, shard_selector;
  std::string payer = {};  ///< see token_payer()
};

struct MergedContinue {
  std::uint32_t generation = 0;
  std::uint32_t check = 0;    ///< K of the scope under that generation
  bool inconsistent = false;  ///< a shard forgot its pin: this and later slots are read as they are
  std::uint16_t slot = 0;     ///< to continue with
  Components pins;            ///< by slot of that generation; 0: contributes nothing
  std::uint64_t sequence =
      0;                     ///< not 0: the cursor that stands for the pins, which are not written
  std::string member_token;  ///< of the slot; "": it has not begun
  bool operator==(const MergedContinue&) const = default;
};

/// Says nothing to whoever has it: sealed, another text each time.
[[nodiscard]] std::string encode_continue(const MergedContinue& token, const ListQuestion& question,
                                          const TokenKey& key);
/// @error kBadRequest not a token of ours, or one of another list or caller (V12); kExpired sealed
///        with a key that is not here any more
[[nodiscard]] Expected<MergedContinue> decode_continue(std::string_view text,
                                                       const ListQuestion& question,
                                                       const TokenKeys& keys);

/// Pins and slot of a token's generation as those of the current table.
/// @error kExpired its generation or sequence cursor is not known any more, or a pinned shard is no
/// member now
[[nodiscard]] Expected<MergedContinue> translate_continue(const MergedContinue& token,
                                                          const CursorCodec& codec,
                                                          const std::vector<bool>& members);

/// A token of the current table in the words of an earlier generation that is still kept; unchanged
/// when it is not.
[[nodiscard]] MergedContinue continue_as_of(std::uint32_t generation, MergedContinue token,
                                            const CursorCodec& codec);

}  // namespace kintsugi::aggregation
