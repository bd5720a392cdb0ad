#include "aggregation/asking/shard_answer.h"

#include <gtest/gtest.h>

#include "krm/protobuf.h"

namespace kintsugi::aggregation {
namespace {

using krm::Json;

std::vector<std::string> values(const Warnings& warnings) {
  http::HeaderList headers;
  warnings.add_to(headers);
  std::vector<std::string> out;
  for (std::size_t i = 0; i < headers.size(); ++i) {
    EXPECT_EQ(headers[i].name, "warning");
    out.emplace_back(headers[i].value);
  }
  return out;
}

http::ResponseHead answer(int status, std::string_view type, std::string_view retry_after = {}) {
  http::ResponseHead out;
  out.status = status;
  out.headers.add("content-type", type);
  if (!retry_after.empty()) {
    out.headers.add("retry-after", retry_after);
  }
  return out;
}

TEST(Warnings, WhenShardsWarn_EachIsPassedOnOnce) {
  http::HeaderList first, second;
  first.add("warning", "299 - \"a\"");
  first.add("warning", "299 - \"b\"");
  second.add("warning", "299 - \"a\"");
  second.add("x-other", "c");
  Warnings warnings;
  warnings.add_from(first);
  warnings.add_from(second);
  EXPECT_EQ(values(warnings), (std::vector<std::string>{"299 - \"a\"", "299 - \"b\""}));
}

TEST(Warnings, WhenAShardIsMissing_ItComesFirstAndItsTextIsQuoted) {
  http::HeaderList passed;
  passed.add("warning", "299 - \"a\"");
  Warnings warnings;
  warnings.add_from(passed);
  warnings.add_missing("b", "said \"no\\\"\r\nSet-Cookie: x\x01");
  EXPECT_EQ(
      values(warnings),
      (std::vector<std::string>{
          R"(299 - "the answer lacks shard b: said \"no\\\"??Set-Cookie: x?")", "299 - \"a\""}));
}

TEST(Warnings, WhenThereAreMany_SixtyFourAreLeft) {
  Warnings warnings;
  for (int i = 0; i < 100; ++i) {
    http::HeaderList headers;
    headers.add("warning", "299 - \"" + std::to_string(i) + "\"");
    warnings.add_from(headers);
    warnings.add_missing("s" + std::to_string(i), "down");
  }
  const std::vector<std::string> all = values(warnings);
  ASSERT_EQ(all.size(), Warnings::kMost);
  EXPECT_NE(all.back().find("shard s63:"), std::string::npos);
}

TEST(RetryAfter, WhenItIsNoNumberOrTooLong_IsBounded) {
  EXPECT_EQ(retry_after_of(answer(429, "application/json", "7")), 7);
  EXPECT_EQ(retry_after_of(answer(429, "application/json")), 1);
  EXPECT_EQ(retry_after_of(answer(429, "application/json", "Tue, 1 Jan")), 1);
  EXPECT_EQ(retry_after_of(answer(429, "application/json", "0")), 1);
  EXPECT_EQ(retry_after_of(answer(429, "application/json", "999999999")), 3600);
}

TEST(StatusOf, WhenItIsProtobufOrJson_IsRead) {
  const Json status =
      *Json::parse(R"({"kind":"Status","apiVersion":"v1","metadata":{"continue":"T"},"code":410})");
  const auto json = answer(410, "application/json;charset=utf-8");
  const auto protobuf = answer(410, "application/vnd.kubernetes.protobuf");
  EXPECT_EQ(status_of(json, status.dump()).text({"metadata", "continue"}), "T");
  EXPECT_EQ(
      status_of(protobuf, krm::encode_protobuf(status).value()).text({"metadata", "continue"}),
      "T");
  EXPECT_TRUE(status_of(json, "<html>").is_null());
  EXPECT_TRUE(status_of(protobuf, status.dump()).is_null());
  EXPECT_TRUE(status_of(json, R"({"kind":"ConfigMap"})").is_null());
}

}  // namespace
}  // namespace kintsugi::aggregation
