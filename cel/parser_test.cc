#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "cel/internal/ast.h"

namespace kintsugi::cel {
namespace {

/// The first error, "" for none.
std::string fault_of(std::string_view source) {
  std::vector<SourceError> errors;
  const ExprPtr parsed = parse(source, errors);
  EXPECT_EQ(parsed == nullptr, !errors.empty()) << source;
  return errors.empty() ? "" : errors.front().message;
}

TEST(Parser, ASignBelongsToANumberOrIsAnOperator) {
  for (const char* fine :
       {"-5", "- 5", "-5.5", "--5", "!-5", "!!true", "-a", "--a", "a - -5", "[-1, -a]", "a[-1]"}) {
    EXPECT_EQ(fault_of(fine), "") << fine;
  }
  EXPECT_EQ(fault_of("!-a"), "Syntax error: no viable alternative at input '-a'");
  EXPECT_EQ(fault_of("!-"), "Syntax error: no viable alternative at input '-<EOF>'");
}

/// What breaks off or goes wrong at any place is an error, and nothing is read behind the end.
TEST(Parser, SE002_AnyPieceOfASourceIsReadWithinItsEnd) {
  constexpr std::string_view kPieces[] = {
      "!",  "-",   "(",  ")",      "[",  "]",    "{",    "}",    ".",   "?",  ":",
      ",",  "a",   "in", "5",      "5u", "1.5",  "'s'",  "b'x'", "&&",  "==", "+",
      "a(", "a.b", "{x", "has(a.", "\"", "\xb4", "true", "null", "//c", "as"};
  for (const std::string_view one : kPieces) {
    for (const std::string_view two : kPieces) {
      for (const std::string_view three : kPieces) {
        const std::string source = std::string(one) + std::string(two) + std::string(three);
        std::vector<SourceError> errors;
        const bool failed = parse(source, errors) == nullptr;
        EXPECT_EQ(failed, !errors.empty()) << source;
      }
    }
  }
}

}  // namespace
}  // namespace kintsugi::cel
