#include "aggregation/bytes/list_text.h"

#include <gtest/gtest.h>

#include "aggregation/bytes/proto_split.h"
#include "krm/json.h"
#include "krm/protobuf.h"

namespace kintsugi::aggregation {
namespace {

using krm::Json;

ListEnvelope envelope_of(const std::string& kind) {
  ListEnvelope out;
  out.kind = kind;
  out.api_version = kind.empty() ? "" : "v1";
  return out;
}

TEST(JsonListText, WhenTheKindIsKnown_AGG603_ItComesFirstAndMetadataLast) {
  JsonListText text;
  text.open(envelope_of("PodList"));
  text.add("{}");
  text.add("{\"a\":1}");
  text.close(envelope_of("PodList"), {"12", "tok", R"({"selector":"s"})"});
  EXPECT_EQ(text.out(), R"({"kind":"PodList","apiVersion":"v1","items":[{},{"a":1}],"metadata":)"
                        R"({"continue":"tok","resourceVersion":"12","shardInfo":{"selector":"s"}}})"
                        "\n");
}

TEST(JsonListText, WhenTheKindComesLate_FollowsTheItems) {
  JsonListText text;
  text.open(envelope_of(""));
  text.add("{}");
  text.close(envelope_of("WidgetList"), {"12", "", ""});
  EXPECT_EQ(text.out(), R"({"items":[{}],"kind":"WidgetList","apiVersion":"v1","metadata":)"
                        R"({"resourceVersion":"12"}})"
                        "\n");
}

TEST(JsonListText, WhenItIsATable_T08_HasColumnsOnce) {
  ListEnvelope table = envelope_of("Table");
  table.columns = R"([{"name":"Name"}])";
  JsonListText text;
  text.open(table);
  text.open(table);
  text.add(R"({"cells":["a"]})");
  text.close(table, {"12", "", ""});
  const auto parsed = Json::parse(text.out());
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->find("columnDefinitions")->items().size(), 1U);
  EXPECT_EQ(parsed->find("rows")->items().size(), 1U);
}

TEST(ProtoSpool, WhenAllIsKnown_T10_TheBodyIsOneList) {
  Json list =
      *Json::parse(R"({"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[]})");
  for (int i = 0; i < 50; ++i) {
    list["items"].push_back(*Json::parse(R"({"metadata":{"name":"n)" + std::to_string(i) +
                                         R"("},"data":{"k":")" + std::string(3000, 'x') + "\"}}"));
  }
  ProtoListSplitter splitter(1U << 20);
  ProtoSpool spool;
  std::size_t before = 0;
  const auto fault = splitter.feed(krm::encode_protobuf(list).value(), [&](std::string_view item) {
    spool.add(item, "");
    EXPECT_GT(spool.size(), before + 3000);
    before = spool.size();
  });
  EXPECT_EQ(fault, ListSplitter::Fault::kNone);
  spool.close(envelope_of("ConfigMapList"), {"12", "tok", ""});
  std::string body;
  int pieces = 0;
  for (; !spool.empty(); ++pieces) {
    body += spool.take_piece();
  }
  EXPECT_GT(pieces, 3);
  list["metadata"] = *Json::parse(R"({"resourceVersion":"12","continue":"tok"})");
  const auto got = krm::decode_protobuf(body);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->find("items")->dump(),
            krm::decode_protobuf(krm::encode_protobuf(list).value())->find("items")->dump());
  EXPECT_EQ(got->text({"metadata", "resourceVersion"}), "12");
  EXPECT_EQ(got->text({"metadata", "continue"}), "tok");
}

}  // namespace
}  // namespace kintsugi::aggregation
