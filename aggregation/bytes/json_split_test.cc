#include "aggregation/bytes/json_split.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "krm/json.h"

namespace kintsugi::aggregation {
namespace {

using krm::Json;

constexpr std::size_t kMiB = 1U << 20;

std::vector<std::string> split_events(const std::vector<std::string>& pieces,
                                      EventSplitter::Fault* fault = nullptr,
                                      std::size_t limit = kMiB) {
  EventSplitter splitter(limit);
  std::vector<std::string> out;
  for (const std::string& piece : pieces) {
    const EventSplitter::Fault found =
        splitter.feed(piece, [&](std::string_view event) { out.emplace_back(event); });
    if (fault != nullptr) {
      *fault = found;
    }
    if (found != EventSplitter::Fault::kNone) {
      break;
    }
  }
  return out;
}

std::vector<std::string> pieces_of(const std::string& text, std::mt19937& random) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = std::min<std::size_t>(1 + random() % 60, text.size() - at);
    out.push_back(text.substr(at, size));
    at += size;
  }
  return out;
}

TEST(EventSplitter, WhenCutAnywhere_EventsAreWhole) {
  const std::vector<std::string> events = {
      R"({"type":"ADDED","object":{"metadata":{"name":"a}","resourceVersion":"7"}}})",
      R"({"object":{"data":{"x":"\"}{\\"}},"type":"MODIFIED"})", "{}"};
  const std::string text = events[0] + "\n" + events[1] + events[2] + "\r\n \n";
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    EXPECT_EQ(split_events(pieces_of(text, random)), events);
  }
}

TEST(EventSplitter, WhenBytesAreNoEvents_T68_IsMalformed) {
  EventSplitter::Fault fault = EventSplitter::Fault::kNone;
  EXPECT_EQ(split_events({"{}\n<html>"}, &fault).size(), 1U);
  EXPECT_EQ(fault, EventSplitter::Fault::kMalformed);
}

TEST(EventSplitter, WhenAnEventIsTooLarge_T83_SaysSo) {
  EventSplitter::Fault fault = EventSplitter::Fault::kNone;
  split_events({"{\"a\":\"", std::string(200, 'x')}, &fault, 100);
  EXPECT_EQ(fault, EventSplitter::Fault::kTooLarge);
}

TEST(EventFacts, WhenDecoysAreThere_T68_OnlyMetadataCounts) {
  const std::string event =
      R"({"type":"MODIFIED","object":{"apiVersion":"ex.io/v1","data":{"resourceVersion":"1"},)"
      R"("kind":"Widget","metadata":{"annotations":{"last":"{\"resourceVersion\":\"2\"}",)"
      R"("kcp.io/cluster":"lc1"},"managedFields":[{"resourceVersion":"3"}],"name":"w",)"
      R"("namespace":"t","ownerReferences":[{"uid":"no"}],"resource\u0056ersion":"4711",)"
      R"("uid":"u-1"},"spec":{"metadata":{"resourceVersion":"5"}}}})";
  const auto facts = event_facts(event);
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->type, EventType::kModified);
  EXPECT_EQ(facts->facts.revision, 4711U);
  EXPECT_EQ(facts->facts.name, "w");
  EXPECT_EQ(facts->facts.ns, "t");
  EXPECT_EQ(facts->facts.uid, "u-1");
  EXPECT_EQ(facts->facts.cluster, "lc1");
  EXPECT_EQ(facts->facts.kind, "Widget");
  EXPECT_EQ(facts->facts.api_version, "ex.io/v1");
  EXPECT_FALSE(facts->facts.initial_end);
}

TEST(ObjectFacts, WhenMetadataComesFirst_PERF234_NothingBehindItIsLookedAt) {
  // A typed object: kind, apiVersion, metadata. What comes after them is not even JSON.
  const std::string typed =
      R"({"kind":"A","apiVersion":"v1","metadata":{"name":"n","resourceVersion":"7"},)";
  for (const char* rest : {R"("spec":{}})", "}", "\"}", ":::}"}) {
    const auto facts = object_facts(typed + rest);
    ASSERT_TRUE(facts) << rest;
    EXPECT_EQ(facts->name, "n");
    EXPECT_EQ(facts->revision, 7U);
  }
  // A custom object has its members sorted, and in its metadata managedFields before the name: all
  // of that is walked through, and must be sound.
  const std::string custom =
      R"({"apiVersion":"e/v1","kind":"B","metadata":{"managedFields":[{"f:name":{"name":"no"}}],)"
      R"("name":"n","resourceVersion":"7"},)";
  EXPECT_EQ(object_facts(custom + ":::}")->name, "n");
  const std::string last = R"({"apiVersion":"e/v1","data":{"name":"no"},"metadata":{"name":"n"},)";
  EXPECT_EQ(object_facts(last + R"("zone":1,"kind":"B"})")->name, "n");
  EXPECT_FALSE(object_facts(last + ":::}"));
}

TEST(EventFacts, WhenInitialEventsEnd_T44_SaysSo) {
  const auto facts = event_facts(
      R"({"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":)"
      R"({"resourceVersion":"15","annotations":{"k8s.io/initial-events-end":"true"}}}})");
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->type, EventType::kBookmark);
  EXPECT_TRUE(facts->facts.initial_end);
  EXPECT_EQ(facts->facts.revision, 15U);
}

TEST(EventFacts, WhenObjectIsATable_T40_RowAndColumnsAreFound) {
  const auto facts = event_facts(
      R"({"type":"ADDED","object":{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":)"
      R"({"resourceVersion":"9"},"columnDefinitions":[{"name":"Name"}],"rows":[{"cells":["a"],)"
      R"("object":{"kind":"PartialObjectMetadata","metadata":{"name":"a","resourceVersion":"8"}}}]}})");
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->columns, R"([{"name":"Name"}])");
  EXPECT_EQ(facts->facts.revision, 8U);
  EXPECT_EQ(facts->facts.name, "a");
  EXPECT_EQ(facts->facts.kind, "Table");
  for (const std::string none : {"null", "[]", "[ ]"}) {
    const std::string text =
        R"({"type":"ADDED","object":{"kind":"Table","metadata":{"resourceVersion":)"
        R"("9"},"columnDefinitions":)" +
        none + R"(,"rows":[{"cells":["a"],"object":null}]}})";
    const auto later = event_facts(text);
    ASSERT_TRUE(later);
    EXPECT_EQ(later->columns, "") << none;
  }
}

TEST(EventFacts, WhenMalformed_T68_IsNothing) {
  for (const char* text :
       {"{}", R"({"type":"ADDED"})", R"({"type":"WHAT","object":{"metadata":{}}})",
        R"({"type":"ADDED","object":{}})", R"({"type":"ADDED","object":[]})",
        R"({"type":"ADDED","object":{"metadata":{"name"}}})"}) {
    EXPECT_FALSE(event_facts(text)) << text;
  }
  EXPECT_TRUE(event_facts(R"({"type":"ERROR","object":{"kind":"Status","code":410}})"));
}

TEST(EventFacts, WhenVersionIsEmptyOrZero_T68_RevisionIsZero) {
  for (const char* version : {"\"\"", "\"0\"", "\"x\"", "null", "5"}) {
    const auto facts = event_facts(std::string(R"({"type":"ADDED","object":{"metadata":)") +
                                   R"({"resourceVersion":)" + version + "}}}");
    ASSERT_TRUE(facts);
    EXPECT_EQ(facts->facts.revision, 0U) << version;
  }
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

}  // namespace
}  // namespace kintsugi::aggregation
