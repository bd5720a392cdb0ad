#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cel/internal/ast.h"

namespace kintsugi::cel {

enum class TokenKind : std::uint8_t {
  kEnd,
  kIdent,
  kInt,   ///< text: digits, or 0x and hex digits
  kUint,  ///< the same without the u
  kDouble,
  kString,  ///< text: what it stands for
  kBytes,
  kPunct,  ///< text: the operator; also true, false, null, in
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::uint32_t position = 0;
  std::string text;
  std::string source;  ///< as written
};

/// Splits a source into tokens, kEnd last. What cannot be read is reported and left out.
[[nodiscard]] std::vector<Token> tokenize(std::string_view source,
                                          std::vector<SourceError>& errors);

}  // namespace kintsugi::cel
