#include "krm/internal/regexp_fault.h"

#include <re2/re2.h>

#include <string_view>

namespace kintsugi::krm {
namespace {

std::string_view words_of(re2::RE2::ErrorCode code) {
  switch (code) {
    case re2::RE2::ErrorBadEscape:
      return "invalid escape sequence";
    case re2::RE2::ErrorBadCharClass:
      return "invalid character class";
    case re2::RE2::ErrorBadCharRange:
      return "invalid character class range";
    case re2::RE2::ErrorMissingBracket:
      return "missing closing ]";
    case re2::RE2::ErrorMissingParen:
      return "missing closing )";
    case re2::RE2::ErrorUnexpectedParen:
      return "unexpected )";
    case re2::RE2::ErrorTrailingBackslash:
      return "trailing backslash at end of expression";
    case re2::RE2::ErrorRepeatArgument:
      return "missing argument to repetition operator";
    case re2::RE2::ErrorRepeatSize:
      return "invalid repeat count";
    case re2::RE2::ErrorRepeatOp:
      return "invalid nested repetition operator";
    case re2::RE2::ErrorBadPerlOp:
      return "invalid or unsupported Perl syntax";
    case re2::RE2::ErrorBadUTF8:
      return "invalid UTF-8";
    case re2::RE2::ErrorBadNamedCapture:
      return "invalid named capture";
    default:
      return "expression too large";
  }
}

}  // namespace

std::string regexp_fault(const re2::RE2& expression) {
  const re2::RE2::ErrorCode code = expression.error_code();
  // Go shows the whole expression that a parenthesis is missing in, and nothing behind a backslash.
  const bool whole = code == re2::RE2::ErrorMissingParen || code == re2::RE2::ErrorUnexpectedParen;
  const std::string shown = whole                                      ? expression.pattern()
                            : code == re2::RE2::ErrorTrailingBackslash ? std::string()
                                                                       : expression.error_arg();
  return std::string(words_of(code)) + ": `" + shown + "`";
}

}  // namespace kintsugi::krm
