#include "workers/delivery/protocol/status_message.h"

#include <gtest/gtest.h>

#include "base/strings.h"

namespace kintsugi::workers {
namespace {

DeliveryStatus applied() {
  DeliveryStatus out;
  out.observed_generation = 4;
  out.creation_timestamp = "2026-01-01T00:00:00Z";
  out.conditions = {{"Reconciled", true, "Success", ""}};
  out.content_status = krm::Json::object({{"b", 1}, {"a", "x"}});
  return out;
}

TEST(StatusMessage, CM_18_CM_21_TheFieldsAndNoOthers) {
  EXPECT_EQ(encode_status(applied(), "1.50", 7),
            R"({"sentTimestamp":7,"resourceGenerationID":1.50,"reconcileStatus":{"conditions":[)"
            R"({"message":"","reason":"Success","status":"True","type":"Reconciled"}],)"
            R"("creationTimestamp":"2026-01-01T00:00:00Z","observedGeneration":4},)"
            R"("contentStatus":{"a":"x","b":1}})");
  DeliveryStatus gone;
  gone.conditions = {{"Deleted", true, "Success", ""}};
  EXPECT_EQ(
      encode_status(gone, "\"a\\u0041\"", 7),
      R"({"sentTimestamp":7,"resourceGenerationID":"a\u0041","reconcileStatus":{"conditions":[)"
      R"({"message":"","reason":"Success","status":"True","type":"Deleted"}]},)"
      R"("contentStatus":null})");
}

TEST(StatusMessage, TheHashIsOfWhatItSays) {
  DeliveryStatus other = applied();
  EXPECT_EQ(status_hash(applied()), status_hash(other));
  EXPECT_EQ(status_hash(other).size(), 64U);
  other.content_status["b"] = 2;
  EXPECT_NE(status_hash(applied()), status_hash(other));
}

TEST(StatusMessage, WhatIsTooLargeIsLeftOut) {
  DeliveryStatus large = applied();
  large.content_status["b"] = std::string(kMaxContentStatus, 'x');
  large.conditions.front().message = "";
  bound_status(large);
  EXPECT_EQ(large.content_status.dump(), R"({"truncated":true})");
  EXPECT_NE(large.conditions.front().message.find("left out"), std::string::npos);
  DeliveryStatus talk = applied();
  for (int i = 0; i < 1'000; ++i) {
    talk.conditions.front().message += "ä";
  }
  bound_status(talk);
  EXPECT_LE(talk.conditions.front().message.size(), kMaxConditionMessage);
  EXPECT_TRUE(is_valid_utf8(talk.conditions.front().message));
}

}  // namespace
}  // namespace kintsugi::workers
