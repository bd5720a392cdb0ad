#include <gtest/gtest.h>

#include "apiserver/testing/fake_server.h"
#include "http/web_socket.h"
#include "kinds/builtin_kinds.h"

namespace kintsugi::apiserver {
namespace {

using http::web_socket_close;
using http::web_socket_frame;
using http::WebSocketOpcode;
using testing::config_map;
using testing::Exchange;
using testing::FakeServer;

constexpr const char* kMaps = "/api/v1/namespaces/t1/configmaps";

struct Frame {
  unsigned char first;
  std::string payload;
};

class WatchSocket : public ::testing::Test {
 protected:
  WatchSocket() : server(kinds::builtin_kinds(), "lc") {
    krm::Json ns = krm::Json::object();
    ns.make({"metadata", "name"}) = "t1";
    EXPECT_EQ(server.send("POST", "/api/v1/namespaces", ns).status(), 201);
  }
  void create(const char* name) {
    ASSERT_EQ(server.send("POST", kMaps, config_map(name, {{"x", "1"}})).status(), 201);
  }
  Exchange open(const std::string& query, const testing::Fields& fields = {}) {
    http::RequestHead head;
    head.method = "GET";
    head.scheme = "https";
    head.version = 1;
    head.protocol = "WebSocket";
    head.target = std::string(kMaps) + "?watch=1" + query;
    head.headers.add("sec-websocket-version", "13");
    head.headers.add("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    for (const auto& [name, value] : fields) {
      head.headers.set(name, value);
    }
    Exchange exchange(server.server(), std::move(head), "");
    EXPECT_TRUE(server.run_until([&] { return exchange.status() != 0; }));
    server.settle();
    return exchange;
  }
  std::string now() { return "&resourceVersion=" + std::to_string(server.store().current()); }

  static std::vector<Frame> frames(const Exchange& exchange) {
    std::vector<Frame> out;
    std::string_view rest = exchange.body();
    while (rest.size() >= 2) {
      const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(rest[i]); };
      std::size_t size = byte(1);
      std::size_t head = 2;
      if (size == 126 && rest.size() >= 4) {
        size = static_cast<std::size_t>(byte(2)) << 8U | byte(3);
        head = 4;
      }
      EXPECT_LT(size, std::size_t{1} << 16U);
      EXPECT_LE(head + size, rest.size());
      out.push_back({byte(0), std::string(rest.substr(head, size))});
      rest.remove_prefix(std::min(head + size, rest.size()));
    }
    return out;
  }
  /// A frame of a client with the mask 0.
  static std::string from_client(WebSocketOpcode opcode, std::string_view payload) {
    std::string frame = web_socket_frame(opcode, payload);
    frame[1] = static_cast<char>(static_cast<unsigned char>(frame[1]) | 0x80U);
    return frame.insert(2, std::string(4, '\0'));
  }

  FakeServer server;
};

TEST_F(WatchSocket, WhenOpened_AM313_SendsOneTextFramePerEvent) {
  create("a");
  Exchange stream = open("", {{"sec-websocket-protocol", "base64.binary.k8s.io"}});
  EXPECT_EQ(stream.status(), 101);
  EXPECT_EQ(stream.header("upgrade"), "websocket");
  EXPECT_EQ(stream.header("sec-websocket-accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  EXPECT_EQ(stream.header("sec-websocket-protocol"), "base64.binary.k8s.io");
  create("b");
  const std::vector<Frame> seen = frames(stream);
  ASSERT_EQ(seen.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(seen[i].first, 0x81);
    EXPECT_EQ(seen[i].payload.back(), '}');
    const Expected<krm::Json> event = krm::Json::parse(seen[i].payload);
    ASSERT_TRUE(event.has_value());
    EXPECT_EQ(event->text({"type"}), "ADDED");
    EXPECT_EQ(event->text({"object", "metadata", "name"}), i == 0 ? "a" : "b");
  }
  EXPECT_FALSE(stream.stream().ended);
}

TEST_F(WatchSocket, WhenProtobufIsAccepted_AM313_SendsBinaryFramesWithoutLength) {
  create("a");
  Exchange stream = open("", {{"accept", "application/vnd.kubernetes.protobuf"}});
  EXPECT_EQ(stream.header("sec-websocket-protocol"), "");
  const std::vector<Frame> seen = frames(stream);
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].first, 0x82);
  EXPECT_TRUE(
      seen[0].payload.starts_with("\x0a\x05"
                                  "ADDED\x12"));
}

TEST_F(WatchSocket, WhenClientPingsAndCloses_AM313_AnswersAndEnds) {
  Exchange stream = open(now());
  const std::string bytes = from_client(WebSocketOpcode::kText, "unheard") +
                            from_client(WebSocketOpcode::kPing, "p") +
                            from_client(WebSocketOpcode::kClose, "\x03\xe9");
  for (const char byte : bytes) {
    stream.handler().on_data({&byte, 1}, false);
  }
  EXPECT_EQ(stream.body(), web_socket_frame(WebSocketOpcode::kPong, "p") + web_socket_close(1001));
  EXPECT_TRUE(stream.stream().ended);
  EXPECT_EQ(stream.stream().consumed, bytes.size());
  create("late");
  EXPECT_EQ(frames(stream).size(), 2U);
}

TEST_F(WatchSocket, WhenClientBreaksTheProtocolOrGoes_Ends) {
  Exchange bad = open(now());
  bad.handler().on_data(web_socket_frame(WebSocketOpcode::kText, "unmasked"), false);
  EXPECT_EQ(bad.body(), web_socket_close(1002));
  EXPECT_TRUE(bad.stream().ended);
  Exchange gone = open(now());
  gone.handler().on_data({}, true);
  EXPECT_TRUE(gone.stream().ended);
}

TEST_F(WatchSocket, WhenTheWatchFails_AM313_SendsTheErrorAndCode1000) {
  const std::string start = now();
  create("a");
  server.store().compact(server.store().current());
  Exchange old = open(start);
  Exchange future =
      open("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=" +
           std::to_string(server.store().current() + 9));
  for (Exchange* stream : {&old, &future}) {
    EXPECT_EQ(stream->status(), 101);
    const std::vector<Frame> seen = frames(*stream);
    ASSERT_EQ(seen.size(), 2U);
    EXPECT_TRUE(seen[0].payload.starts_with(R"({"type":"ERROR")"));
    EXPECT_TRUE(stream->body().ends_with(web_socket_close(1000)));
    EXPECT_TRUE(stream->stream().ended);
  }
}

TEST_F(WatchSocket, WhenClientDoesNotAnswerTheClose_IsReset) {
  Exchange silent = open(now());
  silent.handler().on_data(from_client(WebSocketOpcode::kClose, ""), false);
  EXPECT_TRUE(silent.stream().ended);
  EXPECT_FALSE(silent.stream().was_reset);
  EXPECT_TRUE(server.run_until([&] { return silent.stream().was_reset; }));
}

TEST_F(WatchSocket, WhenRequestIsWrong_IsRefusedBeforeTheHandshake) {
  EXPECT_EQ(open("", {{"sec-websocket-version", "8"}}).status(), 400);
  EXPECT_EQ(open("", {{"sec-websocket-key", "short"}}).status(), 400);
  EXPECT_EQ(open("&resourceVersion=abc").status(), 500);
  EXPECT_EQ(open("&labelSelector=a%20b").status(), 400);
}

}  // namespace
}  // namespace kintsugi::apiserver
