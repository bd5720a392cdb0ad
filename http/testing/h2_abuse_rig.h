#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/testing/support.h"

/// For tests: a client's connection to an HTTP/2 server, frame by frame.
namespace kintsugi::http::testing {

inline constexpr int kData = 0, kHeaders = 1, kPriority = 2, kRstStream = 3, kSettings = 4,
                     kPing = 6, kGoaway = 7, kWindowUpdate = 8, kContinuation = 9;
inline constexpr int kEndStream = 1, kEndHeaders = 4;
inline constexpr std::uint32_t kEnhanceYourCalm = 11, kProtocolError = 1;

inline std::string word(std::uint32_t value) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) {
    text += static_cast<char>((value >> shift) & 0xff);
  }
  return text;
}

inline std::string frame(int type, int flags, std::uint32_t id, std::string_view payload) {
  std::string text = word(static_cast<std::uint32_t>(payload.size())).substr(1);
  text += static_cast<char>(type);
  text += static_cast<char>(flags);
  return text + word(id) + std::string(payload);
}

inline std::string literal(std::string_view name, std::string_view value) {
  std::string text(1, '\0');
  for (const std::string_view part : {name, value}) {
    if (part.size() < 127) {
      text += static_cast<char>(part.size());
    } else {
      std::size_t rest = part.size() - 127;
      text += '\x7f';
      for (; rest >= 128; rest /= 128) {
        text += static_cast<char>(rest % 128 + 128);
      }
      text += static_cast<char>(rest);
    }
    text.append(part);
  }
  return text;
}

/// :method, :scheme https, :path /, :authority h
inline std::string request(bool post = false) {
  return std::string(post ? "\x83" : "\x82") + "\x87\x84\x41\x01h";
}

inline const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(kSettings, 0, 0, "");

struct Frame {
  int type, flags;
  std::uint32_t id;
  std::string payload;
};

inline std::vector<Frame> split_frames(std::string_view bytes) {
  std::vector<Frame> frames;
  while (bytes.size() >= 9) {
    const auto byte = [&](std::size_t i) {
      return static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i]));
    };
    const std::size_t length = byte(0) << 16 | byte(1) << 8 | byte(2);
    frames.push_back({static_cast<int>(byte(3)), static_cast<int>(byte(4)),
                      byte(5) << 24 | byte(6) << 16 | byte(7) << 8 | byte(8),
                      std::string(bytes.substr(9, length))});
    bytes.remove_prefix(std::min(bytes.size(), 9 + length));
  }
  return frames;
}

inline std::uint32_t number(std::string_view text, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value = value << 8 | static_cast<unsigned char>(text.at(at + i));
  }
  return value;
}

class H2Abuse : public ::testing::Test {
 protected:
  explicit H2Abuse(const SessionLimits& limits = {})
      : server(make_h2_server(handler, peer, host, limits)) {
    EXPECT_TRUE(server->feed(kPreface));
    hello = take_all(*server);
    server->set_now(now);
  }
  ~H2Abuse() override {
    server->on_transport_closed(Errc::kClosed);
    for (const ServerExchange& exchange : handler.exchanges) {
      EXPECT_EQ(exchange.in.closes, 1);
      EXPECT_FALSE(exchange.in.late);
    }
  }
  /// The error code of the GOAWAY that the server sends now; -1: none.
  std::int64_t goaway() {
    std::int64_t code = -1;
    for (const Frame& sent : split_frames(take_all(*server))) {
      if (sent.type == kGoaway) {
        code = number(sent.payload, 4);
      }
    }
    return code;
  }
  std::int64_t reset_code(std::uint32_t id) {
    for (const Frame& sent : split_frames(take_all(*server))) {
      if (sent.type == kRstStream && sent.id == id) {
        return number(sent.payload, 0);
      }
    }
    return -1;
  }

  TestHandler handler;
  PeerInfo peer;
  CountingHost host;
  TimePoint now{};
  std::unique_ptr<Session> server;
  std::string hello;
};

}  // namespace kintsugi::http::testing
