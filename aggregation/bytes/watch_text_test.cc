#include "aggregation/bytes/watch_text.h"

#include <gtest/gtest.h>

#include "krm/json.h"

namespace kintsugi::aggregation {
namespace {

using krm::Json;

constexpr std::string_view kColumns =
    R"([{"name":"Name","type":"string"},{"name":"Data","type":"integer","description":"a{b"}])";

TEST(WatchText, WhenColumnsAreCounted_EveryDefinitionCounts) {
  EXPECT_EQ(count_columns(kColumns), 2U);
  for (const std::string_view none : {"", "null", "[]", "[1", "[{\"name\":"}) {
    EXPECT_EQ(count_columns(none), 0U) << none;
  }
}

TEST(WatchText, WhenStreamIsOfTables_T61_EventsAreRows) {
  const StreamKind kind{"Table", "meta.k8s.io/v1", 2};
  const std::string row =
      R"({"cells":["a",3],"object":{"kind":"PartialObjectMetadata","metadata":{"name":"a","resourceVersion":"7"}}})";
  ObjectFacts facts = *row_facts(row);
  const Json added = *Json::parse(item_event("MODIFIED", kind, facts, row));
  EXPECT_EQ(added.text({"type"}), "MODIFIED");
  EXPECT_EQ(added.text({"object", "kind"}), "Table");
  EXPECT_EQ(added.text({"object", "metadata", "resourceVersion"}), "7");
  EXPECT_EQ(added.at({"object", "rows"})->items()[0].dump(), Json::parse(row)->dump());
  facts.ns = "t";
  facts.uid = "u";
  facts.cluster = "c";
  const std::string text = deleted_event(kind, facts, 9, ",\"labels\":{\"x\":\"y\"}");
  const Json deleted = *Json::parse(text);
  EXPECT_EQ(deleted.text({"type"}), "DELETED");
  const Json& gone = deleted.at({"object", "rows"})->items()[0];
  EXPECT_EQ(gone.find("cells")->dump(), "[\"a\",null]");
  EXPECT_EQ(gone.text({"object", "kind"}), "PartialObjectMetadata");
  EXPECT_EQ(gone.text({"object", "metadata", "annotations", "kcp.io/cluster"}), "c");
  EXPECT_EQ(gone.text({"object", "metadata", "labels", "x"}), "y");
  const auto read = event_facts(text);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->type, EventType::kDeleted);
  EXPECT_EQ(read->facts.name, "a");
  EXPECT_EQ(read->facts.revision, 9U);
}

TEST(WatchText, WhenAnEventNeedsColumns_TheyStandInItWithAndWithoutItsLineEnd) {
  const std::string event =
      R"({"type":"ADDED","object":{"kind":"Table","columnDefinitions":null,"rows":[]}})";
  const std::string wanted =
      R"({"type":"ADDED","object":{"kind":"Table","columnDefinitions":[{}],"rows":[]}})";
  EXPECT_EQ(with_columns(event, "[{}]"), wanted);
  EXPECT_EQ(with_columns(event + '\n', "[{}]"), wanted + '\n');
  EXPECT_EQ(with_columns("x", "[{}]"), "x");
}

}  // namespace
}  // namespace kintsugi::aggregation
