#include "krm/strict_order.h"

#include <gtest/gtest.h>

namespace kintsugi::krm {
namespace {

using Texts = std::vector<std::string>;

TEST(StrictFindings, WhenFieldsAreMixed_AM148_KeepsTheOrderOfTheDocument) {
  EXPECT_EQ(strict_findings(R"({"zzz": {"a": 1, "a": 2}, "metadata": {"name": "a", "foo": [1, "]"],
                                "name": "b"}, "data": {"x": "}\"", "x": "2"}, "aaa": 1})",
                            {"aaa", "metadata.foo", "zzz"}),
            (Texts{"unknown field \"zzz\"", "unknown field \"metadata.foo\"",
                   "duplicate field \"metadata.name\"", "duplicate field \"data.x\"",
                   "unknown field \"aaa\""}));
}

TEST(StrictFindings, WhenInLists_NamesTheIndex) {
  EXPECT_EQ(
      strict_findings(R"({"a":[{"b":1},{"c":2,"b":1,"b":2}],"a":[]})", {"a[1].c"}),
      (Texts{"unknown field \"a[1].c\"", "duplicate field \"a[1].b\"", "duplicate field \"a\""}));
}

TEST(StrictFindings, WhenNamesAreEscaped_ComparesThemDecoded) {
  EXPECT_EQ(strict_findings(R"({"\u0061":1,"a":2,"q\"":3})", {"q\""}),
            (Texts{"duplicate field \"a\"", "unknown field \"q\\\"\""}));
}

TEST(StrictFindings, WhenCutOrDeep_Ends) {
  for (const char* text :
       {"", "{", "{\"a", "{\"a\":", "{\"a\":[", "{\"a\":[1,", "{\"a\":{\"b\":1", "x"}) {
    EXPECT_TRUE(strict_findings(text, {}).empty()) << text;
  }
  const std::string deep = "{\"a\":" + std::string(5'000, '[') + std::string(5'000, ']') + "}";
  EXPECT_TRUE(strict_findings(deep, {}).empty());
}

}  // namespace
}  // namespace kintsugi::krm
