#include "endpointslice/internal/pick_url.h"

#include <gtest/gtest.h>

namespace kintsugi::endpointslice {
namespace {

using krm::Json;

/// Picks for shard-1 (labels name and region) out of a list of endpoints; "error <errc>" when there
/// is no choice.
std::string pick(const std::string& endpoints, std::string_view prefix = "https://vw.shard-1") {
  const auto slice = Json::parse(R"({"status":{"endpoints":)" + endpoints + "}}");
  EXPECT_TRUE(slice) << endpoints;
  const auto parsed = parse_endpoints(*slice);
  if (!parsed) {
    return "parse error";
  }
  const auto labels = Json::parse(R"({"name":"shard-1","region":"eu"})");
  auto url = pick_url(*parsed, *labels, prefix);
  return url ? *url : "error " + std::string(errc_name(url.error().code()));
}

const std::string kNotFound = "error " + std::string(errc_name(Errc::kNotFound));
const std::string kInvalid = "error " + std::string(errc_name(Errc::kInvalid));
constexpr const char* kOwn = R"({"url":"https://vw.shard-1/services/a"})";
constexpr const char* kForeign = R"({"url":"https://vw.shard-2/services/a"})";
constexpr const char* kAll = R"({"url":"https://all","shards":{"matchAll":true}})";

std::string matching(const std::string& url, const std::string& labels) {
  return R"({"url":")" + url + R"(","shards":{"selector":{"matchLabels":{)" + labels + "}}}}";
}
std::string list(std::initializer_list<std::string> items) {
  std::string text;
  for (const std::string& item : items) {
    text += (text.empty() ? "" : ",") + item;
  }
  return "[" + text + "]";
}

TEST(PickUrl, TP053_WhenEndpointsNameTheirShards_TheMostExactWins) {
  const std::string eu = matching("https://eu", R"("region":"eu")");
  const std::string us = matching("https://us", R"("region":"us")");
  const std::string named = matching("https://one", R"("name":"shard-1")");
  const std::string both = matching("https://both", R"("name":"shard-1","region":"eu")");
  EXPECT_EQ(pick(list({kOwn, kForeign})), "https://vw.shard-1/services/a");          // 1
  EXPECT_EQ(pick(list({kAll})), "https://all");                                      // 2
  EXPECT_EQ(pick(list({named})), "https://one");                                     // 3
  EXPECT_EQ(pick(list({matching("https://x", R"("name":"shard-9")")})), kNotFound);  // 4
  EXPECT_EQ(pick(list({kAll, eu})), "https://eu");                                   // 5
  EXPECT_EQ(pick(list({eu, both})), "https://both");                                 // 6
  EXPECT_EQ(pick(list({kAll, us})), "https://all");                                  // 7
  EXPECT_EQ(pick(list({kOwn, kForeign, kAll})), "https://all");                      // 8
  EXPECT_EQ(pick(list({kOwn, us})), kNotFound);                                      // 9
  EXPECT_EQ(pick(list({eu, named})), kInvalid);                                      // 10
  EXPECT_EQ(pick(R"([{"url":"https://rest","shards":{"selector":{"matchExpressions":[
                     {"key":"name","operator":"NotIn","values":["root"]}]}}}])"),
            "https://rest");  // 11
  EXPECT_EQ(pick(R"([{"url":"https://x","shards":{"matchAll":true,
                     "selector":{"matchLabels":{"region":"eu"}}}}])"),
            kInvalid);  // 12
}

TEST(PickUrl, TP053_WhenATieIsBeatenLater_ItDoesNotMatter) {
  EXPECT_EQ(pick(list({matching("https://eu", R"("region":"eu")"),
                       matching("https://one", R"("name":"shard-1")"),
                       matching("https://both", R"("name":"shard-1","region":"eu")")})),
            "https://both");
}

TEST(PickUrl, TP054_WhenNoneNamesItsShards_ExactlyOnePrefixMustFit) {
  const std::string other = R"({"url":"https://vw.shard-3/services/a"})";
  const std::string second = R"({"url":"https://vw.shard-1/services/b"})";
  EXPECT_EQ(pick(list({kForeign, kOwn, other})), "https://vw.shard-1/services/a");
  EXPECT_EQ(pick(list({kOwn})), "https://vw.shard-1/services/a");
  EXPECT_EQ(pick(list({kForeign})), kNotFound);
  EXPECT_EQ(pick(list({kForeign, other})), kNotFound);
  EXPECT_EQ(pick("[]"), kNotFound);
  EXPECT_EQ(pick(list({kOwn, second})), kInvalid);
}

TEST(PickUrl, WhenAHostBeginsWithAnother_IsNotTaken) {
  EXPECT_EQ(pick(R"([{"url":"https://vw.shard-10/services/a"}])"), kNotFound);
  EXPECT_EQ(pick(list({kOwn}), "https://vw.shard-1/"), "https://vw.shard-1/services/a");
  EXPECT_EQ(pick(list({kOwn}), ""), kNotFound);
}

TEST(ParseEndpoints, TP055_WhenTypesAreWrong_SaysWhere) {
  const auto parse = [](const std::string& text) { return parse_endpoints(*Json::parse(text)); };
  const auto fault = [&](const std::string& endpoint) {
    const auto parsed = parse(R"({"status":{"endpoints":[)" + endpoint + "]}}");
    return parsed ? std::string("none") : std::string(parsed.error().message());
  };
  EXPECT_EQ(fault(R"({"shards":{"matchAll":true}})"),
            "status.endpoints[0].url: must be text that is not empty");
  EXPECT_EQ(fault(R"({"url":7})"), "status.endpoints[0].url: must be text that is not empty");
  EXPECT_EQ(fault(R"({"url":"u","shards":"everywhere"})"),
            "status.endpoints[0].shards: must be an object");
  EXPECT_EQ(fault(R"({"url":"u","shards":{"matchAll":"yes"}})"),
            "status.endpoints[0].shards.matchAll: must be true or false");
  EXPECT_EQ(fault(R"({"url":"u","shards":{"selector":[]}})"),
            "status.endpoints[0].shards.selector: must be an object");
  EXPECT_NE(fault(R"({"url":"u","shards":{"selector":{"matchExpressions":[
              {"key":"a","operator":"Foo"}]}}})")
                .find("is not a valid label selector operator"),
            std::string::npos);
  EXPECT_EQ(fault("7"), "status.endpoints[0]: must be an object");
  EXPECT_FALSE(parse(R"({"status":{"endpoints":{}}})"));

  const auto three = parse(R"({"status":{"endpoints":[{"url":"a"},
      {"url":"b","shards":{"selector":{"matchLabels":{"region":"eu"}}}},
      {"url":"c","shards":{"matchAll":true}}]}})");
  ASSERT_TRUE(three);
  ASSERT_EQ(three->size(), 3U);
  EXPECT_EQ((*three)[0].scope, SliceEndpoint::Scope::kPlain);
  EXPECT_EQ((*three)[1].scope, SliceEndpoint::Scope::kSelected);
  EXPECT_EQ((*three)[1].selector.to_string(), "region=eu");
  EXPECT_EQ((*three)[2].scope, SliceEndpoint::Scope::kAll);
  EXPECT_EQ(parse("{}")->size(), 0U);
  EXPECT_EQ(parse(R"({"status":{}})")->size(), 0U);
}

}  // namespace
}  // namespace kintsugi::endpointslice
