#include "aggregation/bytes/cut_event.h"

#include <gtest/gtest.h>

#include "aggregation/bytes/json_split.h"
#include "aggregation/bytes/proto_split.h"
#include "krm/json.h"
#include "krm/protobuf.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::string_view kTyped =
    R"({"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":)"
    R"({"name":"big","namespace":"t","uid":"u"},"data":{"v":"xxxxxxxx)";

TEST(CutEvent, WhenMetadataHasCome_T83_TellsTheKey) {
  EXPECT_EQ(json_key_of_beginning(kTyped), "t/big");
  EXPECT_EQ(json_key_of_beginning(R"({ "object" : { "metadata" : { "name" : "n" , "x":)"), "n");
  EXPECT_EQ(
      json_key_of_beginning(R"({"type":"ADDED","object":{"kind":"Table","metadata":{},"rows":)"
                            R"([{"cells":["a"],"object":{"metadata":{"name":"row"},"da)"),
      "row");
}

TEST(CutEvent, WhenBeginningDoesNotTell_IsEmpty) {
  for (const std::string_view text :
       {"", "{", "[1,", R"({"object":{"data":{"metadata":{"name":"inner"}})",
        R"({"object":{"metadata":{"name":"cu)", R"({"object":{"metadata":{"name":)", "garbage"}) {
    EXPECT_EQ(json_key_of_beginning(text), "") << text;
    EXPECT_EQ(proto_key_of_beginning(text), "") << text;
  }
  const std::string endless(1'000, 'n');
  EXPECT_EQ(json_key_of_beginning(R"({"object":{"metadata":{"name":")" + endless + R"("},)"), "");
}

TEST(CutEvent, WhenFrameIsCutAnywhere_NeverTellsAnotherKey) {
  const krm::Json object = *krm::Json::parse(
      R"({"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"big","namespace":"t"},)"
      R"("data":{"v":"xxxxxxxxxxxxxxxx"}})");
  const std::string frame = krm::protobuf_watch_frame("ADDED", *krm::encode_protobuf(object));
  EXPECT_EQ(proto_key_of_beginning(frame), "t/big");
  for (std::size_t size = 0; size < frame.size(); ++size) {
    const std::string key = proto_key_of_beginning(frame.substr(0, size));
    EXPECT_TRUE(key.empty() || key == "big" || key == "t/big") << key;
  }
}

TEST(CutEvent, WhenSplittersGiveUp_T83_TheyKeepTheBeginning) {
  EventSplitter events(64);
  EXPECT_EQ(events.feed(kTyped.substr(0, 60), [](std::string_view) {}),
            EventSplitter::Fault::kNone);
  EXPECT_EQ(events.feed(kTyped.substr(60), [](std::string_view) {}),
            EventSplitter::Fault::kTooLarge);
  EXPECT_EQ(events.incomplete(), kTyped);

  const krm::Json object = *krm::Json::parse(
      R"({"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"big","namespace":"t"},"data":{"v":")" +
      std::string(20'000, 'x') + "\"}}");
  const std::string frame = krm::protobuf_watch_frame("ADDED", *krm::encode_protobuf(object));
  FrameSplitter frames(100);
  auto fault = EventSplitter::Fault::kNone;
  for (std::size_t at = 0; at < frame.size() && fault == EventSplitter::Fault::kNone; at += 7) {
    fault = frames.feed(std::string_view(frame).substr(at, 7), [](std::string_view) {});
  }
  EXPECT_EQ(fault, EventSplitter::Fault::kTooLarge);
  EXPECT_EQ(proto_key_of_beginning(frames.incomplete()), "t/big");
  EXPECT_LT(frames.incomplete().size(), 10'000U);
  FrameSplitter garbage(100);
  EXPECT_EQ(garbage.feed("{\"type\":", [](std::string_view) {}), EventSplitter::Fault::kTooLarge);
}

}  // namespace
}  // namespace kintsugi::aggregation
