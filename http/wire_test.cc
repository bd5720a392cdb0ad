#include "http/wire.h"

#include <gtest/gtest.h>

#include <random>

#include "http/handler.h"
#include "http/internal/protocol_limits.h"
#include "http/internal/send_queue.h"

namespace kintsugi::http {
namespace {

TEST(Wire, WhenNamesAreHopByHop_TheyAreKnown) {
  for (const std::string_view name :
       {"connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"}) {
    EXPECT_TRUE(is_hop_by_hop(name)) << name;
  }
  for (const std::string_view name : {"", "host", "trailer", "content-length", "upgrade2"}) {
    EXPECT_FALSE(is_hop_by_hop(name)) << name;
  }
}

TEST(Wire, WhenCharactersAreForbidden_TextIsRefused) {
  EXPECT_TRUE(is_token("X-a_1!#$%&'*+.^`|~"));
  for (const std::string_view text : {"", "a b", "a:", "a(", "a\x7f", "a\xc3", "a\t"}) {
    EXPECT_FALSE(is_token(text)) << text;
  }
  EXPECT_TRUE(is_field_value(""));
  EXPECT_TRUE(is_field_value("a\t b \xff"));
  for (const std::string_view text : {std::string_view("\r"), std::string_view("\n"),
                                      std::string_view("\0", 1), std::string_view("\x7f")}) {
    EXPECT_FALSE(is_field_value(text));
  }
  EXPECT_TRUE(is_target("/a?b=%20#c"));
  EXPECT_FALSE(is_target(""));
  EXPECT_FALSE(is_target("/a b"));
}

TEST(Wire, SE115_OnlyWhatNamesAServerIsAnAuthority) {
  const std::string longest(253, 'a');
  for (const std::string& text :
       {std::string("a"), std::string("A-z_0.~"), std::string("a.example:1"),
        std::string("127.0.0.1:65535"), std::string("[::1]"), std::string("[::1]:80"),
        std::string("[2001:db8::1:2]:443"), std::string("[::ffff:192.0.2.1]"), longest,
        longest + ":443"}) {
    EXPECT_TRUE(is_authority(text)) << text;
  }
  for (const std::string& text : {std::string(),
                                  std::string("a@b"),
                                  std::string("user@a"),
                                  std::string("a b"),
                                  std::string("a,b"),
                                  std::string("a%20"),
                                  std::string("a/b"),
                                  std::string("a:"),
                                  std::string("a:0"),
                                  std::string("a:65536"),
                                  std::string("a:080"),
                                  std::string("a:1:2"),
                                  std::string("a:b"),
                                  std::string(":80"),
                                  std::string("[::1"),
                                  std::string("[::1]x"),
                                  std::string("[::1]:"),
                                  std::string("[]"),
                                  std::string("[a]"),
                                  std::string("::1"),
                                  std::string("[::1%eth0]"),
                                  std::string("[::1]:99999"),
                                  longest + "a",
                                  std::string("a\xc3"),
                                  std::string("a\0b", 3),
                                  "[" + std::string(300, ':') + "]",
                                  std::string("a:+1")}) {
    EXPECT_FALSE(is_authority(text)) << text;
  }
}

TEST(Wire, SE116_MethodsAreToldApartByCase) {
  for (const std::string_view method :
       {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}) {
    EXPECT_TRUE(is_known_method(method));
  }
  for (const std::string_view method : {"get", "Get", "TRACE", "CONNECT", "PROPFIND", "", "GETS"}) {
    EXPECT_FALSE(is_known_method(method)) << method;
  }
}

TEST(Wire, SE118_WhatNoConnectionTakesIsToldBeforeItIsSent) {
  const auto fault = [](std::string method, std::string target, std::string authority) {
    RequestHead head;
    head.method = std::move(method);
    head.target = std::move(target);
    head.authority = std::move(authority);
    return std::string(request_fault(head));
  };
  EXPECT_EQ(fault("GET", "/a?b", "a:1"), "");
  EXPECT_EQ(fault("GET", "/", ""), "");
  EXPECT_EQ(fault("GE T", "/", "a"), "malformed method");
  EXPECT_EQ(fault("", "/", "a"), "malformed method");
  EXPECT_EQ(fault("GET", "/a b", "a"), "malformed request target");
  EXPECT_EQ(fault("GET", "", "a"), "malformed request target");
  EXPECT_EQ(fault("GET", "/\r\nx: y", "a"), "malformed request target");
  EXPECT_EQ(fault("GET", "/", "a@b"), "malformed authority");
  EXPECT_EQ(fault("CONNECT", "", "a:1"), "");
  RequestHead upgrade;
  upgrade.method = "GET";
  upgrade.target = "/";
  upgrade.protocol = "x\r\ny";
  EXPECT_EQ(request_fault(upgrade), "malformed protocol");
}

TEST(Wire, WhenListHoldsToken_CaseAndBlanksDoNotMatter) {
  EXPECT_TRUE(list_contains("keep-alive , Upgrade", "upgrade"));
  EXPECT_TRUE(list_contains("close", "close"));
  EXPECT_FALSE(list_contains("closed", "close"));
  EXPECT_FALSE(list_contains("", "close"));
  EXPECT_FALSE(list_contains(",,", "close"));
}

TEST(Wire, WhenStatusIsBuilt_ItIsAKubernetesStatus) {
  EXPECT_EQ(status_body(400, "no"),
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
            "\"message\":\"no\",\"reason\":\"BadRequest\",\"code\":400}\n");
  EXPECT_EQ(status_reason(503), "Service Unavailable");
  EXPECT_EQ(status_reason(299), "");
}

TEST(SendQueue, WhenPartsOfBothKindsAreMixed_OrderAndSizeHold) {
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    std::mt19937 random(seed);
    SendQueue queue;
    std::string expected, read;
    for (int i = 0; i < 200; ++i) {
      if (random() % 3 != 0) {
        const std::string part(random() % 900, static_cast<char>('a' + random() % 26));
        expected += part;
        if (random() % 2 == 0) {
          queue.append(std::string_view(part));
        } else {
          queue.append(SharedBytes(part));
        }
      } else {
        std::string out(random() % 3'000, '\0');
        out.resize(queue.read(out.data(), out.size()));
        read += out;
      }
      ASSERT_EQ(queue.size(), expected.size() - read.size()) << "seed " << seed;
    }
    std::string rest(queue.size(), '\0');
    EXPECT_EQ(queue.read(rest.data(), rest.size() + 100), rest.size());
    EXPECT_TRUE(read + rest == expected) << "seed " << seed;
    EXPECT_TRUE(queue.empty());
  }
}

TEST(SendQueue, WhenManyReferencesWait_TheyComeInOrder) {
  SendQueue queue;
  std::string expected, read;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 30; ++i) {
      const std::string part = std::to_string(i) + ",";
      expected += part;
      queue.append(SharedBytes(part));
    }
    std::string out(50, '\0');
    ASSERT_EQ(queue.read(out.data(), out.size()), out.size());
    read += out;
  }
  std::string rest(queue.size(), '\0');
  EXPECT_EQ(queue.read(rest.data(), rest.size()), rest.size());
  EXPECT_EQ(read + rest, expected);
}

TEST(SendQueue, WhenCleared_ReferencesGo) {
  SendQueue queue;
  queue.append(SharedBytes("one"));
  queue.append(SharedBytes("two"));
  queue.append(std::string_view("three"));
  queue.clear();
  EXPECT_TRUE(queue.empty());
  queue.append(std::string_view("x"));
  char out = 0;
  EXPECT_EQ(queue.read(&out, 1), 1U);
  EXPECT_EQ(out, 'x');
}

TEST(ProtocolLimits, WhenTimePasses_TokensComeBack) {
  using Kind = ProtocolLimits::Kind;
  ProtocolLimits limits(100);
  for (int i = 0; i < 1'000; ++i) {
    limits.take(Kind::kPing);
  }
  EXPECT_EQ(limits.glitches(), 0U) << "without time nothing is judged";
  TimePoint now{};
  limits.set_now(now);
  for (int i = 0; i < 110; ++i) {
    limits.take(Kind::kPing);
  }
  EXPECT_EQ(limits.glitches(), 10U);
  limits.take(Kind::kSettings);
  EXPECT_EQ(limits.glitches(), 10U);
  limits.set_now(now + seconds(1));
  for (int i = 0; i < 11; ++i) {
    limits.take(Kind::kPing);
  }
  EXPECT_EQ(limits.glitches(), 11U);
  limits.set_now(now + seconds(1'000'000));
  for (int i = 0; i < 100; ++i) {
    limits.take(Kind::kPing);
  }
  EXPECT_EQ(limits.glitches(), 11U);
  EXPECT_FALSE(limits.should_warn());
  for (int i = 0; i < 64; ++i) {
    limits.glitch(Abuse::kField);
  }
  EXPECT_TRUE(limits.should_warn());
  EXPECT_FALSE(limits.should_close());
}

TEST(HeaderList, WhenFieldsChange_OrderAndDuplicatesAreKept) {
  HeaderList list;
  list.add("Accept", "a");
  list.add("X", "1");
  list.add("accept", "b");
  EXPECT_EQ(list.get("accept"), "a");
  EXPECT_EQ(list.size(), 3U);
  list.set("X", "2");
  EXPECT_EQ(list[2].name, "x");
  EXPECT_EQ(list.remove("accept"), 2U);
  EXPECT_EQ(list.size(), 1U);
  EXPECT_EQ(list.get("accept").data(), nullptr);
  EXPECT_EQ(list.list_size(), 34U);
}

}  // namespace
}  // namespace kintsugi::http
