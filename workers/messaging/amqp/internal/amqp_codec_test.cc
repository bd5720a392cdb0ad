#include "workers/messaging/amqp/internal/amqp_codec.h"

#include <gtest/gtest.h>
#include <proton/codec.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "workers/messaging/amqp/internal/amqp_frames.h"

namespace kintsugi::workers {
namespace {

using namespace std::string_view_literals;
using krm::Json;

/// As JSON, or "no" when it cannot be read.
std::string read(std::string_view bytes) {
  Json out;
  AmqpReader reader(bytes);
  return reader.read(out) && reader.at_end() ? out.dump() : "no";
}

TEST(AmqpCodec, EveryTypeIsReadAsTheStandardWritesIt) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"\x40"sv, "null"},
      {"\x41"sv, "true"},
      {"\x42"sv, "false"},
      {"\x56\x01"sv, "true"},
      {"\x56\x00"sv, "false"},
      {"\x50\xff"sv, "255"},
      {"\x51\xff"sv, "-1"},
      {"\x60\xff\xfe"sv, "65534"},
      {"\x61\xff\xfe"sv, "-2"},
      {"\x70\xff\xff\xff\xff"sv, "4294967295"},
      {"\x52\xff"sv, "255"},
      {"\x43"sv, "0"},
      {"\x71\xff\xff\xff\xfe"sv, "-2"},
      {"\x54\x80"sv, "-128"},
      {"\x80\xff\xff\xff\xff\xff\xff\xff\xff"sv, "18446744073709551615"},
      {"\x53\x80"sv, "128"},
      {"\x44"sv, "0"},
      {"\x81\x80\x00\x00\x00\x00\x00\x00\x00"sv, "-9223372036854775808"},
      {"\x55\x7f"sv, "127"},
      {"\x72\x3f\xc0\x00\x00"sv, "1.5"},
      {"\x82\x3f\xf8\x00\x00\x00\x00\x00\x00"sv, "1.5"},
      {"\x72\x7f\x80\x00\x00"sv, "null"},                  // infinite
      {"\x82\x7f\xf8\x00\x00\x00\x00\x00\x00"sv, "null"},  // no number
      {"\x73\x00\x00\x00\x41"sv, "null"},                  // char
      {"\x74\x00\x00\x00\x00"sv, "null"},                  // decimals
      {"\x84\x00\x00\x00\x00\x00\x00\x00\x00"sv, "null"},
      {"\x98"
       "0123456789abcdef"sv,
       "null"},                                           // UUID
      {"\x83\x00\x00\x00\x00\x00\x00\x01\x00"sv, "256"},  // timestamp
      {"\xa0\x02xy"sv, "null"},                           // binary
      {"\xa1\x02xy"sv, R"("xy")"},
      {"\xb1\x00\x00\x00\x02xy"sv, R"("xy")"},
      {"\xa3\x02xy"sv, R"("xy")"},
      {"\xa1\x01\xff"sv, "null"},  // no UTF-8
      {"\x45"sv, "[]"},
      {"\xc0\x03\x02\x41\x42"sv, "[true,false]"},
      {"\xd0\x00\x00\x00\x05\x00\x00\x00\x01\x40"sv, "[null]"},
      {"\xc1\x06\x02\xa1\x01x\x54\x01"sv, R"({"x":1})"},
      {"\xc1\x0a\x04\xa1\x01y\x54\x01\xa3\x01x\x41"sv, R"({"x":true,"y":1})"},
      {"\xc1\x0a\x04\xa1\x01x\x54\x01\xa1\x01x\x41"sv, R"({"x":true})"},
      {"\xc1\x05\x02\x54\x01\x54\x02"sv, "{}"},  // a key that is no text
      {"\xe0\x04\x02\x54\x01\x02"sv, "[1,2]"},
      {"\xe0\x02\x03\x41"sv, "[true,true,true]"},
      {"\xe0\x06\x01\x00\x53\x05\x54\x07"sv, "[7]"},  // described
      {"\x00\x53\x24\x54\x05"sv, "5"},
      {"\x00\xa3\x01x\x00\x53\x01\x45"sv, "[]"},
  };
  for (const auto& [bytes, expected] : cases) {
    EXPECT_EQ(read(bytes), expected) << static_cast<int>(bytes[0]);
    EXPECT_TRUE(AmqpReader(bytes).check());
    AmqpReader skipped(bytes);
    EXPECT_TRUE(skipped.skip() && skipped.at_end());
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_EQ(read(bytes.substr(0, size)), "no");
      EXPECT_FALSE(AmqpReader(bytes.substr(0, size)).check());
      EXPECT_FALSE(AmqpReader(bytes.substr(0, size)).skip());
    }
  }
}

TEST(AmqpCodec, WhatIsMalformedIsNotRead) {
  for (const std::string_view bytes :
       {""sv, "\x99"sv, "\x46"sv, "\x57\x00"sv, "\x10"sv, "\x56\x02"sv, "\xc0\x00"sv,
        "\xd0\x00\x00\x00\x03\x00\x00\x00"sv, "\xc0\x03\x01\x41\x42"sv, "\xc0\x02\x02\x41"sv,
        "\xc1\x04\x01\xa1\x01x"sv, "\xd0\xff\xff\xff\xff\xff\xff\xff\xff"sv, "\xe0\x01\x01"sv,
        "\xb1\xff\xff\xff\xffx"sv, "\x00\x53"sv}) {
    EXPECT_EQ(read(bytes), "no");
  }
}

TEST(AmqpCodec, ElementsWithoutBytesAreCounted) {
  const auto array = [](std::uint32_t count) {
    return std::string("\xf0\x00\x00\x00\x05"sv) +
           std::string{static_cast<char>(count >> 24), static_cast<char>(count >> 16),
                       static_cast<char>(count >> 8), static_cast<char>(count), '\x40'};
  };
  Json out;
  EXPECT_TRUE(AmqpReader(array(200'000)).read(out));
  EXPECT_EQ(out.size(), 200'000U);
  EXPECT_FALSE(AmqpReader(array(300'000)).read(out));
  EXPECT_FALSE(AmqpReader(array(0xffffffffU)).read(out));
  EXPECT_TRUE(AmqpReader(array(0xffffffffU)).check());  // cheap
}

TEST(AmqpCodec, DepthIsBounded) {
  const auto deep = [](std::string_view each, unsigned depth) {
    std::string out;
    for (unsigned i = 0; i < depth; ++i) {
      out += each;
    }
    return out;
  };
  for (const unsigned depth : {33U, 1'000U, 1'000'000U}) {
    // A descriptor within a descriptor, a described one within a described one.
    EXPECT_FALSE(AmqpReader(deep("\x00"sv, depth)).check());
    EXPECT_FALSE(AmqpReader(deep("\x00\x43"sv, depth)).check());
    EXPECT_EQ(read(deep("\x00\x43"sv, depth)), "no");
    EXPECT_EQ(read(deep("\x00"sv, depth)), "no");
  }
}

/// A value as Proton writes it, and what it is as JSON.
Json put_random(pn_data_t* data, std::mt19937& random, unsigned depth) {
  const auto text = [&] {
    return std::string(random() % 5 == 0 ? 300 : random() % 9,
                       static_cast<char>('a' + random() % 26));
  };
  const auto bytes_of = [](const std::string& of) { return pn_bytes(of.size(), of.data()); };
  const auto bits = static_cast<std::uint64_t>(random()) << (random() % 33);
  switch (random() % (depth == 0 ? 9 : 12)) {
    case 0:
      pn_data_put_null(data);
      return {};
    case 1:
      pn_data_put_bool(data, bits % 2 == 0);
      return bits % 2 == 0;
    case 2:
      pn_data_put_ulong(data, bits);
      return bits;
    case 3:
      pn_data_put_long(data, -static_cast<std::int64_t>(bits >> 1));
      return -static_cast<std::int64_t>(bits >> 1);
    case 4:
      pn_data_put_int(data, static_cast<std::int32_t>(bits));
      return static_cast<std::int64_t>(static_cast<std::int32_t>(bits));
    case 5:
      pn_data_put_uint(data, static_cast<std::uint32_t>(bits));
      return static_cast<std::int64_t>(static_cast<std::uint32_t>(bits));
    case 6:
      pn_data_put_double(data, static_cast<double>(bits) / 8);
      return static_cast<double>(bits) / 8;
    case 7: {
      const std::string is = text();
      pn_data_put_string(data, bytes_of(is));
      return is;
    }
    case 8: {
      const std::string is = text();
      pn_data_put_symbol(data, bytes_of(is));
      return is;
    }
    case 9: {
      Json list = Json::array();
      pn_data_put_list(data);
      pn_data_enter(data);
      for (auto i = random() % 6; i > 0; --i) {
        list.push_back(put_random(data, random, depth - 1));
      }
      pn_data_exit(data);
      return list;
    }
    case 10: {
      Json map = Json::object();
      pn_data_put_map(data);
      pn_data_enter(data);
      for (auto i = random() % 6; i > 0; --i) {
        const std::string key = text();
        pn_data_put_string(data, bytes_of(key));
        map[key] = put_random(data, random, depth - 1);
      }
      pn_data_exit(data);
      return map;
    }
    default: {
      Json list = Json::array();
      pn_data_put_array(data, false, PN_LONG);
      pn_data_enter(data);
      for (auto i = random() % 6; i > 0; --i) {
        const auto is = static_cast<std::int64_t>(random());
        pn_data_put_long(data, is);
        list.push_back(is);
      }
      pn_data_exit(data);
      return list;
    }
  }
}

TEST(AmqpCodec, WhatProtonWritesIsReadAsItWas) {
  constexpr unsigned kSeed = 20;
  std::mt19937 random(kSeed);
  pn_data_t* data = pn_data(0);
  std::string bytes(1U << 20U, '\0');
  for (int round = 0; round < 3'000; ++round) {
    pn_data_clear(data);
    const Json expected = put_random(data, random, 4);
    const ssize_t size = pn_data_encode(data, bytes.data(), bytes.size());
    ASSERT_GT(size, 0);
    const auto written = std::string_view(bytes).substr(0, static_cast<std::size_t>(size));
    ASSERT_EQ(read(written), expected.dump()) << "seed " << kSeed << " round " << round;
    ASSERT_TRUE(AmqpReader(written).check());
  }
  pn_data_free(data);
}

TEST(AmqpCodec, MH6_ARequestIsWrittenToTheByte) {
  ManagementRequest request;
  request.properties = {{"name", std::string("n")}, {"o", true}};
  request.body = std::string("[]");
  std::string out = "of before";
  encode_request(out, request, "r", "0.1");
  EXPECT_EQ(out,
            "\x00\x53\x73\xd0\x00\x00\x00\x10\x00\x00\x00\x06\x40\x40\x40\x40\xa1\x01r\xa1\x03"
            "0.1"
            "\x00\x53\x74\xd1\x00\x00\x00\x11\x00\x00\x00\x04\xa1\x04name\xa1\x01n\xa1\x01o\x41"
            "\x00\x53\x77\xa1\x02[]"sv);
  const auto parts = split_reply(out);
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->correlation, "0.1");
  const ManagementReply again = decode_reply(*parts);
  EXPECT_EQ(again.properties.dump(), R"({"name":"n","o":true})");
  EXPECT_EQ(again.body.as_string(), "[]");
}

TEST(AmqpCodec, ListsOfTextsAreLists) {
  ManagementRequest request;
  request.body = Attributes{{"attributeNames", std::vector<std::string>{"a", "b"}},
                            {"none", std::vector<std::string>{}}};
  std::string out;
  encode_request(out, request, "r", "0.1");
  EXPECT_EQ(decode_reply(*split_reply(out)).body.dump(),
            R"({"attributeNames":["a","b"],"none":[]})");
}

TEST(AmqpCodec, OfAnAnswerOtherSectionsAreLeftOut) {
  const std::string_view header = "\x00\x53\x70\xc0\x02\x01\x41"sv;
  const std::string_view notes = "\x00\x80\x00\x00\x00\x00\x00\x00\x00\x72\xc1\x01\x00"sv;
  const std::string_view ids = "\x00\x53\x73\xc0\x09\x06\x40\x40\x40\x40\x40\xa1\x01z"sv;
  const std::string_view number = "\x00\x53\x73\xc0\x08\x06\x40\x40\x40\x40\x40\x53\x01"sv;
  const std::string all = std::string(header) + std::string(notes) + std::string(ids);
  const auto join = [](std::string_view a, std::string_view b) {
    return std::string(a) + std::string(b);
  };
  EXPECT_EQ(split_reply(join(all, "\x00\x53\x75\xa0\x01x"sv))->body, "");
  EXPECT_EQ(split_reply(join(all, "\x00\x53\x77\x41\x00\x53\x78\xc1\x01\x00"sv))->correlation, "z");
  EXPECT_TRUE(
      decode_reply(*split_reply(join(all, "\x00\x53\x77\x41\x00\x53\x78"sv))).body.as_bool());
  EXPECT_EQ(decode_reply(*split_reply(join(all, "\x00\x53\x76\xc0\x02\x01\x41"sv))).body.dump(),
            "[true]");
  EXPECT_EQ(split_reply(number)->correlation, "");
  EXPECT_EQ(split_reply("\x00\x53\x73\x45"sv)->correlation, "");
  EXPECT_EQ(split_reply("")->correlation, "");
  for (const std::string_view none : {"\x41"sv, "\x00\x53\x10\x45"sv, "\x00\x53\x73\x41"sv,
                                      "\x00\xa3\x01x\x45"sv, "\x00\x53\x70"sv}) {
    EXPECT_FALSE(split_reply(none));
  }
}

TEST(AmqpFrames, FramesAreWholeHoweverTheyCome) {
  std::string bytes("AMQP\x00\x01\x00\x00"sv);
  for (const std::size_t size : {8U, 300U, 9U, 70'000U, 8U}) {
    const std::string head{'\0', static_cast<char>(size >> 16), static_cast<char>(size >> 8),
                           static_cast<char>(size)};
    bytes += head + std::string(size - 4, static_cast<char>('a' + size % 26));
  }
  for (const std::size_t piece :
       {std::size_t{1}, std::size_t{7}, std::size_t{1'000}, bytes.size()}) {
    AmqpFrames frames(70'000);
    std::string joined;
    std::size_t count = 0;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      const std::string part = bytes.substr(at, piece);
      frames.feed(part);
      while (const auto whole = frames.next()) {
        joined += *whole;
        ++count;
      }
    }
    EXPECT_EQ(count, 6U);
    EXPECT_TRUE(joined == bytes);
  }
  AmqpFrames small(69'999);
  small.feed(bytes);
  std::size_t count = 0;
  while (small.next()) {
    ++count;
  }
  EXPECT_EQ(count, 4U);
  EXPECT_TRUE(small.fault());
}

}  // namespace
}  // namespace kintsugi::workers
