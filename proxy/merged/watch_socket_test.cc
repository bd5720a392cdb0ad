#include "aggregation/watch/watch_socket.h"

#include <gtest/gtest.h>

#include "http/web_socket.h"
#include "proxy/testing/watch_rig.h"

namespace kintsugi::proxy {
namespace {

using http::web_socket_close;
using http::web_socket_frame;
using http::WebSocketOpcode;
using krm::Json;
using testing::Answer;
using testing::event;
using testing::kMaps;
using testing::kNewest;
using testing::Rig;

struct Frame {
  unsigned char first;
  std::string payload;
};

std::vector<Frame> frames(std::string_view rest) {
  std::vector<Frame> out;
  while (rest.size() >= 2) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(rest[i]); };
    std::size_t size = byte(1);
    std::size_t head = 2;
    if (size == 126 && rest.size() >= 4) {
      size = static_cast<std::size_t>(byte(2)) << 8U | byte(3);
      head = 4;
    }
    if (head + size > rest.size()) {
      break;
    }
    out.push_back({byte(0), std::string(rest.substr(head, size))});
    rest.remove_prefix(head + size);
  }
  return out;
}

/// A frame of a client with the mask 0.
std::string from_client(WebSocketOpcode opcode, std::string_view payload) {
  std::string frame = web_socket_frame(opcode, payload);
  frame[1] = static_cast<char>(static_cast<unsigned char>(frame[1]) | 0x80U);
  return frame.insert(2, std::string(4, '\0'));
}

class WatchSocket : public testing::MergedWatches {
 protected:
  Answer& open(const std::string& query, testing::Fields fields = {}) {
    http::RequestHead head = Rig::get(kMaps + query);
    head.protocol = "websocket";
    head.end_stream = false;
    head.headers.add("sec-websocket-version", "13");
    head.headers.add("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    for (const auto& [name, value] : fields) {
      head.headers.set(name, value);
    }
    Answer& answer = answers_.emplace_back();
    rig_->send(answer, head);
    return answer;
  }
};

TEST_F(WatchSocket, WhenOpened_T42_SendsOneTextMessagePerEvent) {
  start();
  Answer& answer = open(kNewest, {{"sec-websocket-protocol", "base64.binary.k8s.io"}});
  EXPECT_TRUE(until([&] { return frames(answer.body).size() == 3; })) << answer.body;
  EXPECT_EQ(answer.status, 101);
  EXPECT_EQ(answer.header("sec-websocket-accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  EXPECT_EQ(answer.header("sec-websocket-protocol"), "base64.binary.k8s.io");
  tell(0, event("ADDED", "x", "15") + event("DELETED", "x", "16"));
  EXPECT_TRUE(until([&] { return frames(answer.body).size() >= 5; }));
  std::vector<std::string> types;
  for (const Frame& frame : frames(answer.body)) {
    EXPECT_EQ(frame.first, 0x81);
    const Expected<Json> one = Json::parse(frame.payload);
    ASSERT_TRUE(one.has_value());
    types.emplace_back(one->text({"type"}));
  }
  types.resize(5);
  EXPECT_EQ(types, (Told{"ADDED", "ADDED", "BOOKMARK", "ADDED", "DELETED"}));
  for (const auto* one : open_[0]) {
    EXPECT_EQ(one->head.protocol, "");
    EXPECT_FALSE(one->head.headers.contains("sec-websocket-key"));
  }
}

TEST_F(WatchSocket, WhenOthersAskTheSame_T42_SharesTheirStreams) {
  start();
  Answer& plain = synced();
  Answer& answer = open("?watch=1&resourceVersion=" + cursor(plain));
  EXPECT_TRUE(until([&] { return answer.status == 101; }));
  tell(1, event("ADDED", "x", "25"));
  EXPECT_TRUE(until([&] { return frames(answer.body).size() == 1; }));
  EXPECT_EQ(streams(0) + streams(1), 2U);
}

TEST_F(WatchSocket, WhenClientPingsAndCloses_T42_AnswersAndEnds) {
  start();
  Answer& answer = open("?watch=1&resourceVersion=" + cursor(synced()));
  EXPECT_TRUE(until([&] { return answer.status == 101; }));
  const std::string bytes = from_client(WebSocketOpcode::kText, "unheard") +
                            from_client(WebSocketOpcode::kPing, "p") +
                            from_client(WebSocketOpcode::kClose, "\x03\xe9");
  for (const char byte : bytes) {
    answer.stream->send_data(std::string_view(&byte, 1), false);
  }
  EXPECT_TRUE(until([&] { return answer.ended; }));
  EXPECT_EQ(answer.body, web_socket_frame(WebSocketOpcode::kPong, "p") + web_socket_close(1001));
  EXPECT_EQ(rig_->handler->merge_stats().of_api_group.at("").watches, 1U);
}

TEST_F(WatchSocket, WhenTheWatchEnds_T42_SendsTheErrorAndCode1000) {
  start({.resync = aggregation::Resync::kExpire});
  Answer& answer = open(kNewest);
  EXPECT_TRUE(until([&] { return frames(answer.body).size() == 3; }));
  tell(1, testing::gone());
  EXPECT_TRUE(until([&] { return answer.ended; }));
  const std::vector<Frame> seen = frames(answer.body);
  EXPECT_EQ(Json::parse(seen[seen.size() - 2].payload)->find("object")->find("code")->as_integer(),
            410);
  EXPECT_EQ(seen.back().first, 0x88);
  EXPECT_TRUE(answer.body.ends_with(web_socket_close(1000)));
}

TEST_F(WatchSocket, WhenClientBreaksTheProtocol_T42_ItIsTold) {
  start();
  Answer& answer = open(kNewest);
  EXPECT_TRUE(until([&] { return answer.status == 101; }));
  answer.stream->send_data(web_socket_frame(WebSocketOpcode::kText, "unmasked"), false);
  EXPECT_TRUE(until([&] { return answer.ended; }));
  EXPECT_TRUE(answer.body.ends_with(web_socket_close(1002)));
}

TEST_F(WatchSocket, WhenTheWatchIsRefused_T42_NothingIsUpgraded) {
  start();
  constexpr std::string_view kProtobuf = "application/vnd.kubernetes.protobuf";
  for (const auto& [query, version, accept, status] :
       {std::tuple("?watch=1&resourceVersion=abc", "13", "application/json", 400),
        std::tuple("?watch=1", "8", "application/json", 400),
        std::tuple("?watch=1", "13", kProtobuf.data(), 406),
        std::tuple("", "13", "application/json", 200)}) {
    Answer& answer = open(query, {{"sec-websocket-version", version}, {"accept", accept}});
    EXPECT_TRUE(until([&] { return answer.closed || Json::parse(answer.body).has_value(); }))
        << query << answer.body;
    EXPECT_EQ(answer.status, status) << query;
  }
}

}  // namespace
}  // namespace kintsugi::proxy
