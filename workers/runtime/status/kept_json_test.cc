#include "workers/runtime/status/kept_json.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

TEST(KeptJson, WhenReadAgain_IsTheSameValue) {
  const krm::Json value = krm::Json::object(
      {{"message", "Hello \"Ada\"\n"}, {"n", 9007199254740993}, {"none", nullptr}});
  EXPECT_EQ(KeptJson(value).value(), value);
  EXPECT_EQ(KeptJson(krm::Json::object()).value(), krm::Json::object());
}

TEST(KeptJson, WhenNothingWasKept_IsNull) { EXPECT_TRUE(KeptJson().value().is_null()); }

}  // namespace
}  // namespace kintsugi::workers
