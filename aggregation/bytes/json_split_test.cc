#include "aggregation/bytes/json_split.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "krm/json.h"

namespace kintsugi::aggregation {
namespace {

using krm::Json;

Json random_json(std::mt19937& random, int depth) {
  switch (random() % (depth > 4 ? 4 : 6)) {
    case 0:
      return Json(static_cast<std::int64_t>(random()));
    case 1:
      return Json(random() % 2 == 0);
    case 2:
    case 3: {
      std::string text;
      for (std::size_t i = random() % 90; i > 0; --i) {
        text += "\\\"{}[],:a\n\x01"[random() % 11];
      }
      return Json(text);
    }
    case 4: {
      Json list = Json::array();
      for (std::size_t i = random() % 6; i > 0; --i) {
        list.push_back(random_json(random, depth + 1));
      }
      return list;
    }
    default: {
      Json object = Json::object();
      for (std::size_t i = random() % 6; i > 0; --i) {
        object["k\\\"" + std::to_string(random() % 100)] = random_json(random, depth + 1);
      }
      return object;
    }
  }
}

std::string object_text(std::mt19937& random) {
  Json object = Json::object();
  for (int i = 0; i < 3; ++i) {
    object["m" + std::to_string(i)] = random_json(random, 0);
  }
  return object.dump();
}

TEST(ValueScan, WhenFedInPieces_FindsTheSameEnd) {
  std::mt19937 random(1);
  for (int round = 0; round < 3'000; ++round) {
    const std::string value = object_text(random);
    const std::string text = value + ",{\"more\":\"}\"}";
    ValueScan scan;
    std::size_t used = 0;
    while (!scan.done()) {
      const std::size_t piece = std::min<std::size_t>(1 + random() % 100, text.size() - used);
      ASSERT_GT(piece, 0U);
      used += scan.feed(std::string_view(text).substr(used, piece));
    }
    ASSERT_EQ(used, value.size()) << text;
  }
}

TEST(ValueScan, WhenValueDoesNotEnd_IsRunning) {
  ValueScan scan;
  EXPECT_EQ(scan.feed(R"({"a":"}]\"}")"), 12U);
  EXPECT_TRUE(scan.running());
  EXPECT_EQ(scan.feed("}x"), 1U);
  EXPECT_TRUE(scan.done());
}

TEST(MemberWalk, WhenObjectIsRandom_T68_PERF233_MembersAreThoseOfAParser) {
  std::mt19937 random(2);
  for (int round = 0; round < 3'000; ++round) {
    const std::string text = object_text(random);
    const Json parsed = *Json::parse(text);
    MemberWalk walk(text);
    std::size_t count = 0;
    while (const auto member = walk.next()) {
      ++count;
      const auto key = string_value('"' + std::string(member->key) + '"');
      ASSERT_TRUE(key);
      const Json* expected = parsed.find(*key);
      ASSERT_NE(expected, nullptr) << text;
      ASSERT_EQ(*Json::parse(member->value), *expected) << text;
    }
    EXPECT_FALSE(walk.broken());
    ASSERT_EQ(count, parsed.size());
  }
}

TEST(MemberWalk, WhenSpaced_SpacesAreLeftOut) {
  MemberWalk walk("{ \"a\" : [1, 2] ,\n\t\"b\" :null }");
  EXPECT_EQ(walk.next()->value, "[1, 2]");
  EXPECT_EQ(walk.next()->value, "null");
  EXPECT_FALSE(walk.next());
  EXPECT_FALSE(walk.broken());
}

TEST(MemberWalk, WhenTextIsNoObject_IsBroken) {
  for (const char* text : {"", "{", "}", "[]", "{a}", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{,}",
                           "{\"a\":1 \"b\":2}", "{\"a\":\"x}", "{\"a\":[}", "{\"a:1}"}) {
    MemberWalk walk(text);
    while (walk.next()) {
    }
    EXPECT_TRUE(walk.broken()) << text;
  }
}

TEST(KeyIs, WhenEscaped_T68_IsUnderstood) {
  EXPECT_TRUE(key_is("resource\\u0056ersion", "resourceVersion"));
  EXPECT_TRUE(key_is("kind", "kind"));
  EXPECT_FALSE(key_is("\\u00", "kind"));
}

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

TEST(KeptMembers, WhenMetadataHasMore_AGG1002_LabelsAndOwnersAreKept) {
  EXPECT_EQ(kept_members(R"({"name":"a","labels":{"x":"y"},"uid":"u","ownerReferences":[{}]})"),
            R"(,"labels":{"x":"y"},"ownerReferences":[{}])");
  EXPECT_EQ(kept_members(R"({"name":"labels"})"), "");
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

}  // namespace
}  // namespace kintsugi::aggregation
