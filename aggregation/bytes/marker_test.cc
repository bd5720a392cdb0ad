#include "aggregation/bytes/marker.h"

#include <gtest/gtest.h>

#include "aggregation/bytes/proto_build.h"
#include "krm/json.h"

namespace kintsugi::aggregation {
namespace {

TEST(Marker, WhenAnObjectHasAnnotations_AGG1502_ItStandsFirst) {
  EXPECT_EQ(
      with_marker(R"({"kind":"A","metadata":{"name":"x","annotations":{"a":"b"}},"n":1.50})", "eu"),
      R"({"kind":"A","metadata":{"name":"x","annotations":{"kcp.io/cluster":"eu","a":"b"}},)"
      R"("n":1.50})");
  EXPECT_EQ(with_marker(R"({"metadata":{"annotations":{}}})", "eu"),
            R"({"metadata":{"annotations":{"kcp.io/cluster":"eu"}}})");
}

TEST(Marker, WhenAnnotationsAreMissing_AGG1502_TheyAreMade) {
  EXPECT_EQ(with_marker(R"({"metadata":{"name":"x"}})", "eu"),
            R"({"metadata":{"annotations":{"kcp.io/cluster":"eu"},"name":"x"}})");
  EXPECT_EQ(with_marker(R"({"metadata":{}})", "eu"),
            R"({"metadata":{"annotations":{"kcp.io/cluster":"eu"}}})");
  EXPECT_EQ(with_marker(R"({"metadata": {"annotations" : null, "name":"x"}})", "eu"),
            R"({"metadata": {"annotations" : {"kcp.io/cluster":"eu"}, "name":"x"}})");
}

TEST(Marker, WhenOneIsStored_T101_ItIsReplaced) {
  const std::string want =
      R"({"metadata":{"annotations":{"kcp.io/cluster":"eu","a":"b","c":"d"}}})";
  for (
      const std::string_view stored :
      {R"({"metadata":{"annotations":{"kcp.io/cluster":"us","a":"b","c":"d"}}})",
       R"({"metadata":{"annotations":{"a":"b","kcp.io/cluster":"us","c":"d"}}})",
       R"({"metadata":{"annotations":{"a":"b","c":"d","kcp.io\/cluster":"us"}}})",
       R"({"metadata":{"annotations":{"kcp.io/cluster":"1","a":"b","c":"d","kcp\u002eio/cluster":""}}})"}) {
    EXPECT_EQ(with_marker(stored, "eu"), want) << stored;
  }
}

TEST(Marker, WhenTextsLookLikeIt_AGG1502_TheyStay) {
  const std::string text =
      R"({"metadata":{"name":"x","managedFields":[{"metadata":{"annotations":{}}}],"annotations":)"
      R"({"last":"{\"metadata\":{\"annotations\":{\"kcp.io/cluster\":\"z\"}}}"}},)"
      R"("spec":{"metadata":{"annotations":{"kcp.io/cluster":"inner"}}},"data":{"k":"}\"{"}})";
  const std::string marked = with_marker(text, "eu");
  std::string back = marked;
  const std::string entry = R"("kcp.io/cluster":"eu",)";
  ASSERT_NE(back.find(entry), std::string::npos);
  EXPECT_EQ(back.erase(back.find(entry), entry.size()), text);
}

TEST(Marker, WhenAnItemIsARow_T76_ItsObjectIsMarked) {
  EXPECT_EQ(with_marker(R"({"cells":["x",1],"object":{"kind":"P","metadata":{"name":"x"}}})", "eu"),
            R"({"cells":["x",1],"object":{"kind":"P","metadata":{"annotations":)"
            R"({"kcp.io/cluster":"eu"},"name":"x"}}})");
  const std::string bare = R"({"cells":["x",1],"object":null})";
  EXPECT_EQ(with_marker(bare, "eu"), bare);
}

TEST(Marker, WhenAnEventIsMarked_T77_OnlyItsObjectChanges) {
  EXPECT_EQ(event_with_marker(R"({"type":"DELETED","object":{"metadata":{"name":"x"}}})", "eu"),
            R"({"type":"DELETED","object":{"metadata":{"annotations":{"kcp.io/cluster":"eu"},)"
            R"("name":"x"}}})");
  const std::string table = event_with_marker(
      R"({"type":"ADDED","object":{"kind":"Table","metadata":{"resourceVersion":"5"},)"
      R"("columnDefinitions":[{"name":"Name"}],"rows":[{"cells":["a"],"object":{"metadata":{}}}, )"
      R"({"cells":["b"],"object":{"metadata":{"annotations":{"x":"y"}}}}]}})",
      "eu");
  const auto parsed = krm::Json::parse(table);
  ASSERT_TRUE(parsed) << table;
  EXPECT_EQ(parsed->at({"object", "metadata"})->dump(), R"({"resourceVersion":"5"})");
  for (const krm::Json& row : parsed->at({"object", "rows"})->items()) {
    EXPECT_EQ(row.text({"object", "metadata", "annotations", "kcp.io/cluster"}), "eu");
  }
}

TEST(Marker, WhenSpaceIsAround_T18_ItStays) {
  EXPECT_EQ(document_with_marker(" {\"metadata\":{}}\n", "eu"),
            " {\"metadata\":{\"annotations\":{\"kcp.io/cluster\":\"eu\"}}}\n");
  EXPECT_EQ(without_marker("\n{\"metadata\":{\"annotations\":{\"kcp.io/cluster\":\"eu\"}}}\n"),
            "\n{\"metadata\":{\"annotations\":{}}}\n");
}

TEST(Marker, WhenTheDocumentIsBroken_ItStays) {
  for (const std::string_view text :
       {"", "x", "{}", "[]", R"({"metadata":3})", R"({"metadata":{"annotations":)",
        R"({"metadata":[{"annotations":{}}]})", R"({"metadata":{"annotations":{"a"}}})"}) {
    EXPECT_EQ(with_marker(text, "eu"), text);
    EXPECT_EQ(event_with_marker(text, "eu"), text);
    EXPECT_FALSE(without_marker(text));
  }
}

TEST(Marker, WhenItIsTakenAway_AGG1505_NothingElseIs) {
  EXPECT_EQ(without_marker(R"({"metadata":{"annotations":{"kcp.io/cluster":"eu"},"name":"x"}})"),
            R"({"metadata":{"annotations":{},"name":"x"}})");
  EXPECT_EQ(without_marker(
                R"({"metadata":{"annotations":{"a":"b", "kcp.io\u002fcluster":"eu","c":"d"}}})"),
            R"({"metadata":{"annotations":{"a":"b","c":"d"}}})");
  EXPECT_FALSE(without_marker(R"({"metadata":{"annotations":{"a":"b"}}})"));
  EXPECT_FALSE(without_marker(R"({"metadata":{"annotations":null},"x":{"kcp.io/cluster":"eu"}})"));
}

std::string field(int number, std::string_view bytes) {
  return std::string(1, static_cast<char>(number << 3 | 2)) +
         std::string(1, static_cast<char>(bytes.size())) + std::string(bytes);
}

TEST(Marker, WhenTheBodyIsProtobuf_T101_TheAnnotationGoes) {
  const std::string other = field(12, field(1, "a") + field(2, "b"));
  const std::string name = field(1, "x");
  const std::string type = field(1, field(1, "v1") + field(2, "ConfigMap"));
  const std::string magic("k8s\0", 4);
  const auto document = [&](const std::string& object) {
    return magic + type + field(2, object) + field(4, "");
  };
  const std::string object = field(1, name + other) + field(2, field(1, "k") + field(2, "v"));
  const std::string marked = document(object + proto_annotation_suffix(kMarker, "eu"));
  const auto bare = protobuf_without_marker(marked);
  ASSERT_TRUE(bare);
  EXPECT_EQ(*bare, document(object + field(1, "")));
  EXPECT_FALSE(protobuf_without_marker(document(object)));
  for (std::size_t size = 0; size < marked.size(); ++size) {
    const auto cut = protobuf_without_marker(marked.substr(0, size));
    EXPECT_TRUE(!cut || !cut->empty()) << size;
  }
}

TEST(Marker, WhenTheFactsAreKnown_T101_TheResultIsTheSame) {
  int quick = 0;
  for (const std::string_view metadata :
       {R"({"name":"a","resourceVersion":"1"})", R"({ "annotations" : { } ,"name":"a"})",
        R"({"annotations":{"x":"y"},"name":"a"})", R"({"name":"a","annotations":{"x":"\"{"}})",
        R"({"annotations":{"kcp.io/cluster":"forged"},"name":"a"})",
        R"({"annotations":{"kcp.io\/cluster":"forged"},"name":"a"})",
        R"({"annotations":{"kcp.io/cluster":"for\u0067ed"},"name":"a"})",
        R"({"annotations":null,"name":"a"})", "{}"}) {
    const std::string event =
        R"({"type":"ADDED","object":{"kind":"K","apiVersion":"v1","metadata":)" +
        std::string(metadata) + R"(,"data":{"a":"b"}}})";
    const auto facts = event_facts(event);
    ASSERT_TRUE(facts) << metadata;
    const std::string whole = event_with_marker(event, "here");
    const auto marked = marked_quickly(event, *facts, "here");
    const auto parsed = krm::Json::parse(marked.value_or(whole));
    ASSERT_TRUE(parsed) << marked.value_or(whole);
    EXPECT_EQ(*parsed, *krm::Json::parse(whole)) << metadata;
    EXPECT_EQ(parsed->text({"object", "metadata", "annotations", "kcp.io/cluster"}), "here");
    quick += marked ? 1 : 0;
  }
  EXPECT_EQ(quick, 4);
}

}  // namespace
}  // namespace kintsugi::aggregation
