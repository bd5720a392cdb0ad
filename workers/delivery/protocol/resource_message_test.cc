#include "workers/delivery/protocol/resource_message.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

std::string message(std::string_view meta, std::string_view id = R"("12345")",
                    std::string_view rest = R"("data":{"a":"1"})") {
  std::string out = R"({"sentTimestamp":1680964785,"resourceGenerationID":)";
  out.append(id).append(R"(,"content":{"apiVersion":"v1","kind":"ConfigMap","metadata":{)");
  out.append(meta).append("},").append(rest).append("}}");
  return out;
}
constexpr std::string_view kMeta = R"("uid":"u","name":"n","namespace":"d","generation":12)";

auto parse(std::string_view json, std::string_view uid = "u") {
  return parse_resource_message("v1/json", json, uid, {});
}
std::string wrong(std::string_view json) {
  const auto out = parse(json);
  return out ? "" : out.error().message;
}

TEST(ResourceMessage, CM_9_CM_14_WhatAMessageHas) {
  const auto out = parse(message(kMeta));
  ASSERT_TRUE(out);
  EXPECT_EQ(out->resource_generation_id, R"("12345")");
  EXPECT_EQ(out->generation, 12);
  EXPECT_EQ(out->uid, "u");
  EXPECT_EQ(out->name, "n");
  EXPECT_EQ(out->ns, "d");
  EXPECT_EQ(out->kind, "ConfigMap");
  EXPECT_FALSE(out->deleting);
  EXPECT_EQ(out->manifest.dump(), R"({"apiVersion":"v1","data":{"a":"1"},"kind":"ConfigMap",)"
                                  R"("metadata":{"name":"n","namespace":"d"}})");
}

TEST(ResourceMessage, CM_8_CM_T002_TheIdIsKeptByteForByte) {
  for (const char* const id : {"12345", "1.50", "1e5", "null", "true", R"("a\u0041\n\/")", "-0"}) {
    const auto out = parse(message(kMeta, id));
    ASSERT_TRUE(out) << id;
    EXPECT_EQ(out->resource_generation_id, id);
    EXPECT_FALSE(out->id_missing);
  }
  const auto spaced =
      parse(R"( { "a" : [ {"resourceGenerationID":0} ] , "resourceGenerationID" : 7 ,
    "content":{"apiVersion":"v1","kind":"X","metadata":{"uid":"u","name":"n","generation":1}}} )");
  ASSERT_TRUE(spaced);
  EXPECT_EQ(spaced->resource_generation_id, "7");
}

TEST(ResourceMessage, CM_T002_AnIdThatIsTooLongOrNoScalarIsRefused) {
  for (const std::string& id :
       {'"' + std::string(300, 'x') + '"', std::string("{}"), std::string("[1]")}) {
    const auto out = parse(message(kMeta, id));
    ASSERT_FALSE(out);
    EXPECT_EQ(out.error().resource_generation_id, "null");
    EXPECT_EQ(out.error().generation, 12);
    EXPECT_EQ(refusal_reason(out.error().refusal), "InvalidManifest");
  }
}

TEST(ResourceMessage, CM_8_AMissingIdIsNull) {
  const auto out = parse(
      R"({"content":{"apiVersion":"v1","kind":"X","metadata":{"uid":"u","name":"n","generation":1}}})");
  ASSERT_TRUE(out);
  EXPECT_TRUE(out->id_missing);
  EXPECT_EQ(out->resource_generation_id, "null");
}

TEST(ResourceMessage, CM_15_CM_T022_ADeletionIsATime) {
  const auto with = [](std::string_view value) {
    return message(std::string(kMeta) + R"(,"deletionTimestamp":)" + std::string(value));
  };
  EXPECT_TRUE(parse(with(R"("2023-04-07T14:50:44Z")"))->deleting);
  EXPECT_FALSE(parse(with(R"("")"))->deleting);
  EXPECT_FALSE(parse(with("null"))->deleting);
  for (const char* const bad : {R"("yesterday")", "5", "{}"}) {
    EXPECT_NE(wrong(with(bad)).find("deletionTimestamp"), std::string::npos) << bad;
  }
}

TEST(ResourceMessage, CM_T007_WhatIsMissingIsNamed) {
  EXPECT_NE(wrong(message(R"("name":"n","generation":1)")).find("uid"), std::string::npos);
  EXPECT_NE(wrong(message(R"("uid":"u","generation":1)")).find("name"), std::string::npos);
  EXPECT_NE(wrong(message(R"("uid":"u","name":"n")")).find("generation"), std::string::npos);
  EXPECT_NE(
      wrong(R"({"content":{"apiVersion":"v1","metadata":{"uid":"u","name":"n","generation":1}}})")
          .find("kind"),
      std::string::npos);
}

TEST(ResourceMessage, CM_T048_TheUidIsThatOfTheTopic) {
  EXPECT_EQ(parse(message(kMeta), "other").error().message,
            "content.metadata.uid is not that of the topic");
}

TEST(ResourceMessage, CM_43_Generations) {
  for (const char* const bad : {"0", "-1", "1.5", R"("12")", "18446744073709551616",
                                "9223372036854775808", "null", "1.0"}) {
    const auto out = parse(message(R"("uid":"u","name":"n","generation":)" + std::string(bad)));
    ASSERT_FALSE(out) << bad;
    EXPECT_EQ(out.error().generation, 0);
    EXPECT_EQ(out.error().resource_generation_id, R"("12345")");
  }
  EXPECT_TRUE(parse(message(R"("uid":"u","name":"n","generation":9223372036854775807)")));
}

TEST(ResourceMessage, CM_42_JsonThatIsNoneOrTooMuch) {
  std::string deep(300, '[');
  deep.append(300, ']');
  for (const std::string& rest :
       {"\"a\":" + deep, std::string("\"a\":1,\"a\":2"), std::string("\"a\":\"\\u0000\""),
        std::string("\"a\":\"\xff\""), std::string("\"a\":1,}"), std::string("/* c */ \"a\":1")}) {
    EXPECT_NE(wrong(message(kMeta, "1", rest)), "") << rest.substr(0, 20);
  }
  for (const char* const text : {"", "null", "[]", "{", "\"x\"", "{\"content\":null}",
                                 "{\"content\":[]}", "{\"content\":\"x\"}", "{} {}"}) {
    EXPECT_NE(wrong(text), "") << text;
  }
}

TEST(ResourceMessage, CM_47_KindsAndVersionsThatLeadElsewhere) {
  for (const char* const type :
       {R"("apiVersion":"v1","kind":"a/b")", R"("apiVersion":"a/b/c","kind":"X")",
        R"("apiVersion":"","kind":"X")", R"("apiVersion":"../v1","kind":"X")",
        R"("apiVersion":"v1","kind":"")", R"("apiVersion":1,"kind":"X")"}) {
    const std::string text = "{\"content\":{" + std::string(type) +
                             R"(,"metadata":{"uid":"u","name":"n","generation":1}}})";
    EXPECT_NE(wrong(text), "") << type;
  }
  for (const char* const meta : {R"("name":"../x")", R"("name":"n","namespace":"a/b")",
                                 R"("name":"A")", R"("name":"n","generateName":"n-")"}) {
    EXPECT_NE(wrong(message(R"("uid":"u","generation":1,)" + std::string(meta))), "") << meta;
  }
  EXPECT_NE(wrong(R"({"content":{"apiVersion":"v1","kind":"ConfigMapList","items":[],)"
                  R"("metadata":{"uid":"u","name":"n","generation":1}}})"),
            "");
}

TEST(ResourceMessage, CM_T038_OneThatIsTooLarge) {
  ResourceMessageBounds bounds;
  bounds.manifest_bytes = 100;
  const auto out = parse_resource_message("v1/json", message(kMeta), "u", bounds);
  ASSERT_FALSE(out);
  EXPECT_EQ(refusal_reason(out.error().refusal), "TooLarge");
}

TEST(ResourceMessage, CM_1_CM_T004_WithoutAContentType) {
  const auto out = parse_resource_message("", message(kMeta), "u", {});
  ASSERT_FALSE(out);
  EXPECT_EQ(refusal_reason(out.error().refusal), "UnsupportedContentType");
}

TEST(ResourceMessage, WhatServersWriteIsTakenOut) {
  const auto out = parse(message(
      std::string(kMeta) +
          R"(,"resourceVersion":"5","creationTimestamp":"x","managedFields":[],"selfLink":"/","finalizers":["a/b"])",
      "1", R"("status":{"a":1},"spec":{})"));
  ASSERT_TRUE(out);
  EXPECT_EQ(out->manifest.dump(),
            R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"finalizers":["a/b"],)"
            R"("name":"n","namespace":"d"},"spec":{}})");
}

TEST(ResourceMessage, WhatAHubSendsIsReadAgain) {
  const auto content = krm::Json::parse(
      R"({"apiVersion":"v1","kind":"X","metadata":{"uid":"u","name":"n","generation":3}})");
  const auto out = parse(encode_resource_message(5, R"("g")", *content));
  ASSERT_TRUE(out);
  EXPECT_EQ(out->resource_generation_id, R"("g")");
  EXPECT_EQ(out->generation, 3);
}

}  // namespace
}  // namespace kintsugi::workers
