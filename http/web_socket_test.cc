#include "http/web_socket.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace kintsugi::http {
namespace {

using Controls = std::vector<std::pair<WebSocketOpcode, std::string>>;

RequestHead handshake() {
  RequestHead head;
  head.method = "GET";
  head.version = 1;
  head.protocol = "websocket";
  head.headers.add("sec-websocket-version", "13");
  head.headers.add("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
  return head;
}

/// A frame as clients send it.
std::string masked(unsigned first, std::string_view payload) {
  std::string frame = web_socket_frame(WebSocketOpcode::kText, payload);
  const std::size_t head = frame.size() - payload.size();
  frame[0] = static_cast<char>(first);
  frame[1] = static_cast<char>(static_cast<unsigned char>(frame[1]) | 0x80U);
  const std::string mask = "\x11\x92\x33\xf4";
  for (std::size_t i = 0; i < payload.size(); ++i) {
    frame[head + i] = static_cast<char>(frame[head + i] ^ mask[i % 4]);
  }
  return frame.insert(head, mask);
}

/// Feeds pieces of `step` bytes.
std::uint16_t read(WebSocketReader& reader, std::string_view bytes, Controls& seen,
                   std::size_t step = 1, TimePoint now = {}) {
  for (; !bytes.empty(); bytes.remove_prefix(std::min(step, bytes.size()))) {
    const std::uint16_t fault = reader.feed(bytes.substr(0, step), now,
                                            [&](WebSocketOpcode opcode, std::string_view payload) {
                                              seen.emplace_back(opcode, payload);
                                            });
    if (fault != 0) {
      return fault;
    }
  }
  return 0;
}

TEST(WebSocketHandshake, WhenItIsTheStandardsExample_AnswersAsThere) {
  EXPECT_TRUE(asks_for_web_socket(handshake()));
  EXPECT_EQ(*web_socket_accept(handshake()), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

TEST(WebSocketHandshake, WhenFieldsAreMissingOrWrong_IsBadRequest) {
  for (const auto& [name, value] :
       std::vector<std::pair<const char*, const char*>>{{"sec-websocket-version", "8"},
                                                        {"sec-websocket-key", "short"},
                                                        {"sec-websocket-key", "AAAA"},
                                                        {"sec-websocket-key", ""}}) {
    RequestHead head = handshake();
    head.headers.set(name, value);
    EXPECT_EQ(web_socket_accept(head).error().code(), Errc::kBadRequest) << name << value;
    head.headers.remove(name);
    EXPECT_EQ(web_socket_accept(head).error().code(), Errc::kBadRequest) << name;
  }
}

TEST(WebSocketHandshake, WhenItIsAnotherRequest_IsNone) {
  RequestHead head = handshake();
  head.method = "POST";
  EXPECT_FALSE(asks_for_web_socket(head));
  head = handshake();
  head.protocol = "spdy/3.1";
  EXPECT_FALSE(asks_for_web_socket(head));
}

TEST(WebSocketFrame, WhenPayloadGrows_TakesLongerLengths) {
  EXPECT_EQ(web_socket_frame(WebSocketOpcode::kText, "Hello"), "\x81\x05Hello");
  EXPECT_EQ(web_socket_frame(WebSocketOpcode::kBinary, std::string(125, 'x')).substr(0, 3),
            "\x82\x7dx");
  EXPECT_EQ(web_socket_frame(WebSocketOpcode::kBinary, std::string(256, 'x')).substr(0, 5),
            std::string("\x82\x7e\x01\x00x", 5));
  EXPECT_EQ(web_socket_frame(WebSocketOpcode::kBinary, std::string(65'536, 'x')).substr(0, 11),
            std::string("\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00x", 11));
  EXPECT_EQ(web_socket_close(1000), "\x88\x02\x03\xe8");
}

TEST(WebSocketFrame, WhenClientCloses_AnswersItsCode) {
  EXPECT_EQ(web_socket_close_answer(""), std::string("\x88\x00", 2));
  EXPECT_EQ(web_socket_close_answer("\x03\xe9gone"), web_socket_close(1001));
  EXPECT_EQ(web_socket_close_answer("\x03\xee"), web_socket_close(kWebSocketProtocolError));
}

TEST(WebSocketReader, WhenFramesAreCutAnywhere_TellsControlFrames) {
  const std::string bytes = masked(0x81, "text") + masked(0x89, "ping") +
                            masked(0x01, std::string(200, 'a')) + masked(0x8a, "") +
                            masked(0x80, "rest") + masked(0x82, std::string(60'000, 'b')) +
                            masked(0x88, "\x03\xe8") + "ignored";
  const Controls want = {{WebSocketOpcode::kPing, "ping"},
                         {WebSocketOpcode::kPong, ""},
                         {WebSocketOpcode::kClose, "\x03\xe8"}};
  for (const std::size_t step : {std::size_t{1}, std::size_t{3}, bytes.size()}) {
    WebSocketReader reader;
    Controls seen;
    EXPECT_EQ(read(reader, bytes, seen, step), 0);
    EXPECT_EQ(seen, want) << step;
  }
}

TEST(WebSocketReader, WhenAFrameIsMalformed_NamesTheCloseCode) {
  std::string huge = masked(0x82, std::string(65'536, 'x'));
  huge[7] = 2;
  const std::vector<std::pair<std::string, std::uint16_t>> cases = {
      {web_socket_frame(WebSocketOpcode::kText, "bare"), 1002},
      {masked(0xc1, "reserved bit"), 1002},
      {masked(0x83, "reserved opcode"), 1002},
      {masked(0x8b, "reserved control"), 1002},
      {masked(0x80, "nothing to continue"), 1002},
      {masked(0x01, "open") + masked(0x81, "another"), 1002},
      {masked(0x09, "cut ping"), 1002},
      {masked(0x89, std::string(126, 'x')), 1002},
      {masked(0x88, "x"), 1002},
      {std::string("\x81\xfe\x00\x05\x00\x00\x00\x00hello", 13), 1002},
      {std::string("\x81\xff\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", 14), 1002},
      {huge, 1009}};
  for (const auto& [bytes, code] : cases) {
    WebSocketReader reader;
    Controls seen;
    EXPECT_EQ(read(reader, bytes, seen), code) << bytes;
    EXPECT_EQ(read(reader, masked(0x89, "late"), seen), 0);
    EXPECT_TRUE(seen.empty()) << bytes;
  }
}

TEST(WebSocketReader, SE134_WhenAClientFloods_IsToldItsCode) {
  std::string fragments = masked(0x01, "a");
  for (std::size_t i = 1; i < WebSocketReader::kMaxFragments; ++i) {
    fragments += masked(0x00, "");
  }
  std::string pings;
  for (int i = 0; i < 10; ++i) {
    pings += masked(0x89, "p");
  }
  struct Case {
    std::string bytes;
    std::uint16_t code;
    std::size_t controls;
  };
  const Case cases[] = {{web_socket_frame(WebSocketOpcode::kPing, "bare"), 1002, 0},
                        {fragments + masked(0x80, "end") + fragments, 0, 0},
                        {fragments + masked(0x00, "one more"), 1008, 0},
                        {pings, 0, 10},
                        {pings + masked(0x8a, "unasked pong"), 1008, 10}};
  for (const Case& one : cases) {
    WebSocketReader reader;
    Controls seen;
    EXPECT_EQ(read(reader, one.bytes, seen, 1, TimePoint() + seconds(5)), one.code);
    EXPECT_EQ(seen.size(), one.controls);
  }
  WebSocketReader reader;
  Controls seen;
  for (int second = 0; second < 5; ++second) {
    EXPECT_EQ(read(reader, pings, seen, 64, TimePoint() + seconds(second)), 0);
  }
  EXPECT_EQ(seen.size(), 50U) << "ten a second, for ever";
  EXPECT_EQ(read(reader, masked(0x89, "p"), seen, 64, TimePoint() + seconds(4)), 1008);
}

}  // namespace
}  // namespace kintsugi::http
