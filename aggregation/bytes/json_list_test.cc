#include "aggregation/bytes/json_list.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace kintsugi::aggregation {
namespace {

constexpr std::size_t kMiB = 1U << 20;

std::vector<std::string> pieces_of(const std::string& text, std::mt19937& random) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = std::min<std::size_t>(1 + random() % 60, text.size() - at);
    out.push_back(text.substr(at, size));
    at += size;
  }
  return out;
}

struct Split {
  std::vector<std::string> items;
  ListEnvelope envelope;
  bool done = false;
  ListSplitter::Fault fault = ListSplitter::Fault::kNone;
};

Split split_list(const std::vector<std::string>& pieces) {
  ListSplitter splitter(kMiB);
  Split out;
  for (const std::string& piece : pieces) {
    out.fault = splitter.feed(piece, [&](std::string_view item) { out.items.emplace_back(item); });
    if (out.fault != ListSplitter::Fault::kNone) {
      break;
    }
  }
  out.done = splitter.done();
  out.envelope = splitter.envelope();
  return out;
}

TEST(ListSplitter, WhenKeysComeInEitherOrder_T01_ItemsAndMetadataAreFound) {
  const std::string items = R"([{"metadata":{"name":"]}"}},{"data":{"a":"\\"}}])";
  const std::string metadata =
      R"({"resourceVersion":"982","continue":"a\u0062c","remainingItemCount":12,)"
      R"("shardInfo":{"selector":"x"}})";
  std::mt19937 random(4);
  for (const std::string& text : {R"({"kind":"ConfigMapList","apiVersion":"v1","metadata":)" +
                                      metadata + R"(,"items":)" + items + "}\n",
                                  R"({ "apiVersion":"v1","items": )" + items +
                                      R"(,"kind":"ConfigMapList","metadata":)" + metadata + "}"}) {
    for (int round = 0; round < 200; ++round) {
      const Split split = split_list(pieces_of(text, random));
      ASSERT_TRUE(split.done) << text;
      ASSERT_EQ(split.items.size(), 2U);
      EXPECT_EQ(split.items[0], R"({"metadata":{"name":"]}"}})");
      EXPECT_EQ(split.items[1], R"({"data":{"a":"\\"}})");
      EXPECT_EQ(split.envelope.kind, "ConfigMapList");
      EXPECT_EQ(split.envelope.api_version, "v1");
      EXPECT_EQ(split.envelope.resource_version, "982");
      EXPECT_EQ(split.envelope.continue_token, "abc");
      EXPECT_EQ(split.envelope.remaining, 12);
      EXPECT_EQ(split.envelope.shard_info, R"({"selector":"x"})");
    }
  }
}

TEST(ListSplitter, WhenItemsAreNull_T01_ListIsEmpty) {
  const Split split =
      split_list({R"({"kind":"L","metadata":{"resourceVersion":"1"},"items":null})"});
  EXPECT_TRUE(split.done);
  EXPECT_TRUE(split.items.empty());
  EXPECT_EQ(split.envelope.resource_version, "1");
}

TEST(ListSplitter, WhenATableComes_T08_RowsAndColumnsAreFound) {
  const Split split = split_list(
      {R"({"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"4"},)"
       R"("columnDefinitions":[{"name":"Name"}],"rows":[{"cells":["a"]},{"cells":["b"]}]})"});
  EXPECT_TRUE(split.done);
  EXPECT_EQ(split.items.size(), 2U);
  EXPECT_EQ(split.envelope.columns, R"([{"name":"Name"}])");
}

TEST(ListSplitter, WhenBodyIsCutOrBroken_T65_IsNeverDone) {
  const std::string text = R"({"kind":"L","metadata":{"resourceVersion":"1"},"items":[{"a":1}]})";
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(split_list({text.substr(0, size)}).done) << size;
  }
  for (const char* broken :
       {"[]", "<html>", R"({"items":[1]})", R"({"items":[{} {}]})", R"({"a" 1})", R"({"a":,})",
        R"({"a":1}{})", R"({"a":1,})", R"({"items":[{},]})"}) {
    EXPECT_EQ(split_list({broken}).fault, ListSplitter::Fault::kMalformed) << broken;
  }
}

TEST(ListSplitter, WhenItIsEmpty_T01_IsDone) {
  EXPECT_TRUE(split_list({"{}"}).done);
  const Split empty = split_list({R"({"items":[],"kind":"L"})"});
  EXPECT_TRUE(empty.done && empty.items.empty());
  EXPECT_EQ(empty.envelope.kind, "L");
}

TEST(ListSplitter, WhenAPartIsTooLarge_T83_SaysSo) {
  const std::string much(kMiB + 1, 'x');
  const std::string digits(kMiB + 1, '7');
  for (const std::string& text :
       {"{\"" + much, R"({"kind":")" + much, R"({"a":{"b":")" + much + "\"}}", "{\"a\":" + digits,
        R"({"items":[{"a":")" + much + "\"}]}"}) {
    EXPECT_EQ(split_list({text}).fault, ListSplitter::Fault::kTooLarge) << text.substr(0, 20);
  }
}

}  // namespace
}  // namespace kintsugi::aggregation
