#include "aggregation/bytes/proto_split.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "aggregation/bytes/proto_build.h"
#include "krm/json.h"
#include "krm/protobuf.h"
#include "krm/protobuf_wire.h"
#include "krm/status.h"

namespace kintsugi::aggregation {
namespace {

using krm::Json;

constexpr std::size_t kMiB = 1U << 20;
const StreamKind kMaps{"ConfigMap", "v1"};

Json map_named(const std::string& name, const std::string& revision) {
  return *Json::parse(R"({"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":")" + name +
                      R"(","namespace":"t","uid":"u-)" + name + R"(","resourceVersion":")" +
                      revision +
                      R"(","labels":{"row":"1"},"annotations":{"kcp.io/cluster":"c1","x":"y"},
      "ownerReferences":[{"apiVersion":"v1","kind":"Secret","name":"o","uid":"uo"}],
      "managedFields":[{"manager":"m","operation":"Update","fieldsType":"FieldsV1",
      "fieldsV1":{"f:resourceVersion":"9"}}]},"data":{"k":"v"}})");
}

std::string encoded(const Json& object) { return krm::encode_protobuf(object).value(); }

Json decoded(std::string_view enveloped) {
  auto object = krm::decode_protobuf(enveloped);
  EXPECT_TRUE(object);
  return object ? std::move(*object) : Json();
}

std::string list_of_two() {
  Json list = *Json::parse(R"({"kind":"ConfigMapList","apiVersion":"v1","metadata":
      {"resourceVersion":"4711","continue":"TOKEN","remainingItemCount":12},"items":[]})");
  list["items"].push_back(map_named("a", "7"));
  list["items"].push_back(map_named("b", "9"));
  return encoded(list);
}

struct SplitList {
  std::vector<std::string> items;
  ListEnvelope envelope;
  bool done = false;
  ListSplitter::Fault fault = ListSplitter::Fault::kNone;
};

SplitList split_list(std::string_view body, std::size_t piece, std::size_t limit = kMiB) {
  ProtoListSplitter splitter(limit);
  SplitList out;
  while (!body.empty() && out.fault == ListSplitter::Fault::kNone) {
    out.fault = splitter.feed(body.substr(0, piece),
                              [&](std::string_view item) { out.items.emplace_back(item); });
    body.remove_prefix(std::min(piece, body.size()));
  }
  out.envelope = splitter.envelope();
  out.done = splitter.done();
  return out;
}

TEST(ProtoListSplitter, WhenCutAnywhere_T10_FindsTheSame) {
  const std::string body = list_of_two();
  for (const std::size_t piece : {1U, 2U, 3U, 7U, 50U, 5000U}) {
    const SplitList list = split_list(body, piece);
    ASSERT_EQ(list.items.size(), 2U) << piece;
    EXPECT_TRUE(list.done);
    EXPECT_EQ(list.envelope.kind, "ConfigMapList");
    EXPECT_EQ(list.envelope.api_version, "v1");
    EXPECT_EQ(list.envelope.resource_version, "4711");
    EXPECT_EQ(list.envelope.continue_token, "TOKEN");
    EXPECT_EQ(list.envelope.remaining, 12);
    const auto facts = proto_item_facts(list.items[1]);
    ASSERT_TRUE(facts);
    EXPECT_EQ(facts->name, "b");
    EXPECT_EQ(facts->ns, "t");
    EXPECT_EQ(facts->uid, "u-b");
    EXPECT_EQ(facts->revision, 9U);
    EXPECT_EQ(facts->cluster, "c1");
    EXPECT_FALSE(facts->initial_end);
  }
}

TEST(ProtoListSplitter, WhenTheEndIsMissing_T65_IsNotDone) {
  const std::string body = list_of_two();
  for (std::size_t size = 0; size + 4 < body.size(); ++size) {
    const SplitList list = split_list(body.substr(0, size), 64);
    EXPECT_FALSE(list.done) << size;
    EXPECT_EQ(list.fault, ListSplitter::Fault::kNone) << size;
  }
}

TEST(ProtoListSplitter, WhenMetadataComesLastOrTheListIsEmpty_IsUnderstood) {
  std::string message;
  krm::put_bytes(message, 2, "item");
  message += proto_list_meta("5", "", "");
  std::string body = proto_envelope_head("v1", "PodList", message.size()) + message;
  SplitList list = split_list(body, 3);
  EXPECT_TRUE(list.done);  // whatever follows may be missing
  EXPECT_EQ(list.items, std::vector<std::string>{"item"});
  EXPECT_EQ(list.envelope.resource_version, "5");
  EXPECT_TRUE(split_list(body + std::string(kProtoEnvelopeTail), 1).done);
  list = split_list(proto_envelope_head("v1", "PodList", 0), 1);
  EXPECT_TRUE(list.done && list.items.empty());
}

TEST(ProtoListSplitter, WhenBytesAreNoList_T68_SaysSo) {
  using Fault = ListSplitter::Fault;
  const std::string head = proto_envelope_head("v1", "PodList", 4);
  EXPECT_EQ(split_list("{\"kind\":\"List\"}", 4).fault, Fault::kMalformed);
  EXPECT_EQ(split_list(head + std::string("\x12\x09xy", 4), 1).fault, Fault::kMalformed);
  EXPECT_EQ(split_list(head + "\xff\xff\xff\xff", 1).fault, Fault::kMalformed);
  EXPECT_EQ(split_list(head + std::string("\x13\x01\x01\x01", 4), 9).fault, Fault::kMalformed);
  EXPECT_EQ(split_list(head + std::string("\x12\x02xy\x12\0", 6), 1).fault, Fault::kMalformed);
  EXPECT_EQ(split_list(head + std::string("\x12\x02xy\x1a\x04gzip", 10), 1).fault,
            Fault::kMalformed);
  EXPECT_EQ(split_list(list_of_two(), 100, 16).fault, Fault::kTooLarge);
}

TEST(ProtoListSplitter, WhenBytesAreRandom_NeverFails) {
  std::mt19937 random(7);
  const std::string good = list_of_two();
  for (int round = 0; round < 2000; ++round) {
    std::string bad = good;
    for (int flips = 0; flips < 3; ++flips) {
      bad[random() % bad.size()] = static_cast<char>(random());
    }
    const SplitList pieces = split_list(bad, 1 + random() % 40);
    const SplitList whole = split_list(bad, bad.size());
    EXPECT_EQ(pieces.items, whole.items);
    EXPECT_EQ(pieces.fault, whole.fault);
    for (const std::string& item : whole.items) {
      (void)proto_item_facts(item);
    }
  }
}

TEST(FrameSplitter, WhenCutAnywhere_FramesAreWhole) {
  const std::string object = encoded(map_named("a", "7"));
  const std::vector<std::string> frames = {
      krm::protobuf_watch_frame("ADDED", object), proto_bookmark_event(kMaps, "12", true),
      std::string(4, '\0'), krm::protobuf_watch_frame("DELETED", object)};
  std::string text;
  for (const std::string& frame : frames) {
    text += frame;
  }
  for (std::size_t piece = 1; piece < text.size() + 1; ++piece) {
    FrameSplitter splitter(kMiB);
    std::vector<std::string> got;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      EXPECT_EQ(splitter.feed(std::string_view(text).substr(at, piece),
                              [&](std::string_view frame) { got.emplace_back(frame); }),
                EventSplitter::Fault::kNone);
    }
    EXPECT_EQ(got, frames) << piece;
    EXPECT_TRUE(splitter.at_boundary());
  }
  FrameSplitter splitter(16);
  EXPECT_EQ(splitter.feed(std::string("\0\0\0\x11x", 5), [](std::string_view) {}),
            EventSplitter::Fault::kTooLarge);
}

TEST(ProtoEventFacts, WhenAnObjectChanges_SaysWhatTheMergeNeeds) {
  const std::string frame = krm::protobuf_watch_frame("MODIFIED", encoded(map_named("a", "4711")));
  const auto facts = proto_event_facts(frame);
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->type, EventType::kModified);
  EXPECT_EQ(facts->facts.kind, "ConfigMap");
  EXPECT_EQ(facts->facts.api_version, "v1");
  EXPECT_EQ(facts->facts.revision, 4711U);
  EXPECT_EQ(facts->facts.name, "a");
  EXPECT_EQ(facts->facts.cluster, "c1");
  EXPECT_EQ(decoded(facts->object).text({"data", "k"}), "v");
}

TEST(ProtoEventFacts, WhenAFrameIsBroken_T68_IsNoEvent) {
  const std::string object = encoded(map_named("a", "4711"));
  const std::string good = krm::protobuf_watch_frame("ADDED", object);
  EXPECT_FALSE(proto_event_facts(""));
  EXPECT_FALSE(proto_event_facts(std::string(4, '\0')));
  EXPECT_FALSE(proto_event_facts(good.substr(0, good.size() - 1)));
  EXPECT_FALSE(proto_event_facts(good + "x"));
  EXPECT_FALSE(proto_event_facts(krm::protobuf_watch_frame("OTHER", object)));
  EXPECT_FALSE(proto_event_facts(krm::protobuf_watch_frame("ADDED", "{}")));
  EXPECT_FALSE(proto_event_facts(krm::protobuf_watch_frame("ADDED", object.substr(0, 40))));
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    std::string bad = good;
    bad[4 + random() % (bad.size() - 4)] = static_cast<char>(random());
    (void)proto_event_facts(bad);
    (void)proto_event_with(bad, proto_annotation_suffix("a", "b"));
  }
}

TEST(ProtoBuild, WhenABookmarkIsMade_T36_HasKindAndVersionOnly) {
  for (const bool end : {false, true}) {
    const std::string frame = proto_bookmark_event(kMaps, "120000007830422", end);
    const auto facts = proto_event_facts(frame);
    ASSERT_TRUE(facts);
    EXPECT_EQ(facts->type, EventType::kBookmark);
    EXPECT_EQ(facts->facts.kind, "ConfigMap");
    EXPECT_EQ(facts->facts.initial_end, end);
    const Json object = decoded(facts->object);
    EXPECT_EQ(object.text({"apiVersion"}), "v1");
    EXPECT_EQ(object.text({"metadata", "resourceVersion"}), "120000007830422");
    EXPECT_EQ(object.at({"metadata", "name"}), nullptr);
  }
}

TEST(ProtoBuild, WhenAStreamFails_TheLastFrameIsAStatus) {
  const std::string frame = proto_error_event(Error(Errc::kExpired, "too old"));
  const auto facts = proto_event_facts(frame);
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->type, EventType::kError);
  const Json status = decoded(facts->object);
  EXPECT_EQ(status.text({"kind"}), "Status");
  EXPECT_EQ(status.at({"code"})->as_integer(), 410);
}

TEST(ProtoBuild, WhenAnObjectIsGone_AGG1002_TheMadeEventHasWhatWasKept) {
  const std::string object = encoded(map_named("a", "7"));
  const auto known = proto_object_facts(object);
  ASSERT_TRUE(known);
  const std::string kept = proto_kept_fields(known->metadata);
  const auto facts_frame = proto_meta_event(
      "DELETED", kMaps, {known->name, known->ns, known->uid, "55", known->cluster, false, kept});
  const auto facts = proto_event_facts(facts_frame);
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->type, EventType::kDeleted);
  EXPECT_EQ(facts->facts.revision, 55U);
  EXPECT_EQ(facts->facts.cluster, "c1");
  const Json made = decoded(facts->object);
  EXPECT_EQ(made.text({"metadata", "labels", "row"}), "1");
  EXPECT_EQ(made.text({"metadata", "uid"}), "u-a");
  EXPECT_EQ((*made.at({"metadata", "ownerReferences"})).items().size(), 1U);
  EXPECT_EQ(made.at({"data"}), nullptr);
}

TEST(ProtoBuild, WhenTheMarkerIsAdded_AGG1502_ReplacesAStoredOneAndNothingElse) {
  Json map = map_named("a", "7");
  const std::string suffix = proto_annotation_suffix("kcp.io/cluster", "shard-b");
  const auto changed = proto_event_with(krm::protobuf_watch_frame("ADDED", encoded(map)), suffix);
  ASSERT_TRUE(changed);
  const auto facts = proto_event_facts(*changed);
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->facts.cluster, "shard-b");
  EXPECT_EQ(facts->facts.name, "a");
  EXPECT_EQ(facts->facts.revision, 7U);
  const Json got = decoded(facts->object);
  EXPECT_EQ(got.text({"metadata", "annotations", "kcp.io/cluster"}), "shard-b");
  EXPECT_EQ(got.text({"metadata", "annotations", "x"}), "y");
  EXPECT_EQ(got.text({"data", "k"}), "v");
  const auto object = proto_object_with(encoded(map), suffix);
  ASSERT_TRUE(object);
  EXPECT_EQ(decoded(*object), got);
}

}  // namespace
}  // namespace kintsugi::aggregation
