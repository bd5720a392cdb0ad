#include "workers/eventing/events/cloud_event.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

ContractResource resource() {
  ContractResource out;
  out.reference = Reference{"u", "ns", "name", "", "", "", {}};
  return out;
}

KafkaRecord record(std::optional<std::string> value) {
  KafkaRecord out;
  out.topic = "orders";
  out.partition = 3;
  out.offset = 17;
  out.timestamp = 1'700'000'000'123;
  out.value = std::move(value);
  return out;
}

CloudEvent event() {
  CloudEvent out;
  out.attributes = {{"specversion", "1.0"}, {"id", "1"}, {"source", "/a/b"}, {"type", "order.new"}};
  return out;
}

std::string shown(const http::HeaderList& headers) {
  std::string out;
  for (std::size_t i = 0; i < headers.size(); ++i) {
    out += std::string(headers[i].name) + ": " + std::string(headers[i].value) + "\n";
  }
  return out;
}

TEST(CloudEvent, DP_3_PlainRecordsAreWrappedWithTheReferenceAsSource) {
  KafkaRecord plain = record("bytes \xFF");
  plain.key = "k";
  plain.headers = {{"X-Trace", "t"},
                   {"bad", "\xFF"},
                   {"null", std::nullopt},
                   {"-", "x"},
                   {"Content-Type", "text/plain"}};
  const CloudEvent out = event_of(plain, resource(), Egress());
  EXPECT_EQ(out.attributes, (TextMap{{"specversion", "1.0"},
                                     {"type", "dev.knative.kafka.event"},
                                     {"id", "partition:3/offset:17"},
                                     {"source", "/apis/v1/namespaces/ns/kafkasources/name#orders"},
                                     {"subject", "partition:3#17"},
                                     {"time", "2023-11-14T22:13:20.123000Z"},
                                     {"key", "k"},
                                     {"kafkaheaderxtrace", "t"}}));
  EXPECT_EQ(out.content_type, "text/plain");
  EXPECT_EQ(out.data, "bytes \xFF");
}

TEST(CloudEvent, DP_3_KeysGoByTheirType) {
  const auto key = [](std::string bytes, KeyType type) {
    KafkaRecord one = record("");
    one.key = std::move(bytes);
    Egress egress;
    egress.key_type = type;
    return event_of(one, resource(), egress).attributes.at("key");
  };
  EXPECT_EQ(key(std::string("\xFF\xFF\xFF\xFE", 4), KeyType::kInteger), "-2");
  EXPECT_EQ(key(std::string("\0\0\0\0\0\0\1\0", 8), KeyType::kInteger), "256");
  EXPECT_EQ(key(std::string("\x3F\xF8\0\0\0\0\0\0", 8), KeyType::kDouble), "1.5");
  EXPECT_EQ(key("ab", KeyType::kByteArray), "YWI=");
  EXPECT_EQ(key("\xFF", KeyType::kString), "/w==");
}

TEST(CloudEvent, DP_3_BinaryRecordsAreKept) {
  KafkaRecord binary = record("{}");
  binary.headers = {{"ce_specversion", "1.0"}, {"ce_id", "7"},
                    {"CE_source", "/a"},       {"ce_type", "t"},
                    {"ce_ext", "\xC3\xA4 b"},  {"ce_bad-name", "x"},
                    {"ce_raw", "\xFF"},        {"content-type", "application/json"}};
  const CloudEvent out = event_of(binary, resource(), Egress());
  EXPECT_EQ(out.attributes, (TextMap{{"specversion", "1.0"},
                                     {"id", "7"},
                                     {"source", "/a"},
                                     {"type", "t"},
                                     {"ext", "\xC3\xA4 b"}}));
  EXPECT_EQ(shown(request_headers(out)),
            "ce-ext: %C3%A4%20b\nce-id: 7\nce-source: /a\nce-specversion: 1.0\nce-type: t\n"
            "content-type: application/json\n");
}

TEST(CloudEvent, DP_3_StructuredRecordsAreTakenApart) {
  const auto structured = [](std::string text) {
    KafkaRecord one = record(std::move(text));
    one.headers = {{"content-type", "application/cloudevents+json; charset=UTF-8"}};
    return event_of(one, resource(), Egress());
  };
  const CloudEvent out = structured(
      R"({"specversion":"1.0","id":"1","source":"s","type":"t","n":5,"b":true,"data":{"a":1}})");
  EXPECT_EQ(out.data, R"({"a":1})");
  EXPECT_EQ(out.content_type, "application/json");
  EXPECT_EQ(out.attributes.at("n"), "5");
  EXPECT_EQ(out.attributes.at("b"), "true");
  EXPECT_EQ(structured(R"({"specversion":"1.0","id":"1","source":"s","type":"t",)"
                       R"("datacontenttype":"text/plain","data":"x"})")
                .data,
            "x");
  EXPECT_EQ(structured(R"({"specversion":"1.0","id":"1","source":"s","type":"t",)"
                       R"("data_base64":"AP8="})")
                .data,
            std::string("\0\xFF", 2));
  // What cannot be read goes as it is.
  EXPECT_EQ(structured(R"({"id":"1"})").attributes.at("type"), "dev.knative.kafka.event");
  EXPECT_EQ(structured("{").data, "{");
}

TEST(CloudEvent, DP_3_ANullValueIsAnEventWithoutData) {
  const CloudEvent out = event_of(record(std::nullopt), resource(), Egress());
  EXPECT_EQ(out.data, "");
  EXPECT_EQ(request_headers(out).get("content-length"), "0");
}

TEST(CloudEvent, DP_3_OverridesWin) {
  ContractResource overriding = resource();
  overriding.cloud_event_overrides = TextMap{{"team", "a"}, {"type", "mine"}, {"Bad", "x"}};
  const CloudEvent out = event_of(record("x"), overriding, Egress());
  EXPECT_EQ(out.attributes.at("team"), "a");
  EXPECT_EQ(out.attributes.at("type"), "mine");
  EXPECT_FALSE(out.attributes.contains("Bad"));
}

TEST(CloudEvent, DP_7_AnswersMayCarryEvents) {
  http::HeaderList headers = request_headers(event());
  headers.remove("content-length");
  headers.add("ce-ext", "%C3%A4%20b");
  headers.add("content-type", "text/plain");
  const auto binary = event_of_answer(headers, "data");
  ASSERT_TRUE(binary);
  EXPECT_EQ(binary->attributes.at("ext"), "\xC3\xA4 b");
  EXPECT_EQ(binary->data, "data");
  http::HeaderList structured;
  structured.add("content-type", "application/cloudevents+json");
  EXPECT_TRUE(event_of_answer(
      structured, R"({"specversion":"1.0","id":"1","source":"s","type":"t","data":"x"})"));
  EXPECT_FALSE(event_of_answer(structured, "{}"));
  EXPECT_FALSE(event_of_answer({}, "ok"));
  const auto record = record_headers(*binary);
  EXPECT_EQ(record.front(), std::make_pair(std::string("ce_ext"), std::string("\xC3\xA4 b")));
  EXPECT_EQ(record.back(), std::make_pair(std::string("content-type"), std::string("text/plain")));
}

TEST(CloudEvent, DP_4_DeadLettersTellWhy) {
  CloudEvent out = event();
  add_failure(out, "http://sink", 500, "no");
  EXPECT_EQ(out.attributes.at("knativeerrordest"), "http://sink");
  EXPECT_EQ(out.attributes.at("knativeerrorcode"), "500");
  EXPECT_EQ(out.attributes.at("knativeerrordata"), "bm8=");
}

TEST(CloudEvent, KN_T058_Filters) {
  using Kind = DialectedFilter::Kind;
  const auto by = [](Kind kind, TextMap attributes) {
    DialectedFilter out;
    out.kind = kind;
    out.attributes = std::move(attributes);
    return out;
  };
  const auto of = [](Kind kind, std::vector<DialectedFilter> filters) {
    DialectedFilter out;
    out.kind = kind;
    out.filters = std::move(filters);
    return out;
  };
  const auto passes = [](DialectedFilter filter) {
    Egress egress;
    egress.dialected_filter = {std::move(filter)};
    return passes_filters(egress, event());
  };
  const DialectedFilter yes = by(Kind::kExact, {{"type", "order.new"}});
  const DialectedFilter no = by(Kind::kExact, {{"type", "other"}});
  EXPECT_TRUE(passes(yes));
  EXPECT_FALSE(passes(no));
  EXPECT_FALSE(passes(by(Kind::kExact, {{"type", "order.new"}, {"missing", ""}})));
  EXPECT_TRUE(passes(by(Kind::kPrefix, {{"type", "order."}, {"source", "/a"}})));
  EXPECT_FALSE(passes(by(Kind::kPrefix, {{"type", "new"}})));
  EXPECT_TRUE(passes(by(Kind::kSuffix, {{"type", ".new"}})));
  EXPECT_FALSE(passes(by(Kind::kSuffix, {{"missing", ".new"}})));
  EXPECT_TRUE(passes(of(Kind::kAll, {yes, yes})));
  EXPECT_FALSE(passes(of(Kind::kAll, {yes, no})));
  EXPECT_TRUE(passes(of(Kind::kAny, {no, yes})));
  EXPECT_FALSE(passes(of(Kind::kAny, {no})));
  EXPECT_TRUE(passes(of(Kind::kNot, {no})));
  EXPECT_FALSE(passes(of(Kind::kNot, {yes})));
  EXPECT_FALSE(passes(by(Kind::kCesql, {})));
  EXPECT_FALSE(passes(DialectedFilter()));
  Egress egress;
  EXPECT_TRUE(passes_filters(egress, event()));
  egress.filter = TextMap{{"type", ""}};
  EXPECT_TRUE(passes_filters(egress, event()));
  egress.filter = TextMap{{"type", "order"}};
  EXPECT_FALSE(passes_filters(egress, event()));
  egress.dialected_filter = {yes};  // wins over the old one
  EXPECT_TRUE(passes_filters(egress, event()));
}

}  // namespace
}  // namespace kintsugi::workers
