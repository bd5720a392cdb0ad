#include <gtest/gtest.h>

#include "http/testing/support.h"

// However the bytes of both directions are cut, and whatever the order of turns, the result is the
// same.
namespace kintsugi::http {
namespace {

using testing::fields;
using testing::make_head;
using testing::Pair;
using testing::pattern;
using testing::ServerExchange;
using testing::TestResponse;

struct Outcome {
  std::vector<std::string> lines;
  bool operator==(const Outcome&) const = default;
};

void echo(ServerExchange& exchange) {
  if (exchange.head.end_stream) {
    exchange.stream->send_head(200, fields({{"x-path", exchange.head.target}}), false);
    exchange.stream->send_data(SharedBytes(pattern(5'000, 3)), false);
    exchange.stream->send_data(std::string_view("tail"), true);
    return;
  }
  exchange.on_data = [](ServerExchange& self, std::string_view bytes, bool end) {
    if (self.in.body.size() == bytes.size()) {
      self.stream->send_head(201, {}, false);
    }
    self.stream->send_data(bytes, false);
    if (end) {
      self.stream->send_trailers(fields({{"x-end", "yes"}}));
    }
  };
}

void note(Outcome& outcome, const TestResponse& response) {
  outcome.lines.push_back(
      std::to_string(response.status) + " " + std::string(response.headers.get("x-path")) + " " +
      response.in.body + " " + std::string(response.in.trailers.get("x-end")) + " " +
      std::string(errc_name(response.in.cause)) + " " + std::to_string(response.in.ends) +
      std::to_string(response.in.closes) + std::to_string(response.in.late));
}

Outcome run_h2(std::mt19937* random) {
  SessionLimits limits;
  limits.stream_window = 3'000;
  auto pair = Pair::h2(limits, limits);
  pair->handler.on_open = echo;
  if (random != nullptr) {
    pair->wire = {1'000, 700, random};
  }
  std::list<TestResponse> responses;
  for (int i = 0; i < 12; ++i) {
    TestResponse& response = responses.emplace_back();
    const bool post = i % 3 == 0;
    auto opened = pair->client->open(
        make_head(post ? "POST" : "GET", "/" + std::to_string(i), !post), response);
    EXPECT_TRUE(opened.has_value());
    response.stream = *opened;
    if (post) {
      response.stream->send_data(std::string_view(pattern(9'000, 7)), true);
    }
    if (i % 5 == 4) {
      pair->run();
    }
  }
  pair->run();
  Outcome outcome;
  for (const TestResponse& response : responses) {
    note(outcome, response);
  }
  for (const ServerExchange& exchange : pair->handler.exchanges) {
    outcome.lines.push_back(exchange.head.target + " " + exchange.in.body + " " +
                            std::string(errc_name(exchange.in.cause)) +
                            std::to_string(exchange.in.closes));
  }
  EXPECT_EQ(pair->client->stream_count(), 0U);
  EXPECT_EQ(pair->server->stream_count(), 0U);
  return outcome;
}

Outcome run_h1(std::mt19937* random) {
  auto pair = Pair::h1();
  pair->handler.on_open = echo;
  if (random != nullptr) {
    pair->wire = {300, 200, random};
  }
  Outcome outcome;
  for (int i = 0; i < 6; ++i) {
    TestResponse response;
    const bool post = i % 3 == 0;
    auto opened = pair->client->open(
        make_head(post ? "POST" : "GET", "/" + std::to_string(i), !post), response);
    EXPECT_TRUE(opened.has_value());
    response.stream = *opened;
    if (post) {
      response.stream->send_data(std::string_view(pattern(9'000, 7)), true);
    }
    pair->run();
    note(outcome, response);
  }
  return outcome;
}

TEST(EngineProperty, WhenHttp2BytesAreCutAnywhere_OutcomeIsTheSame) {
  const Outcome whole = run_h2(nullptr);
  ASSERT_EQ(whole.lines.size(), 24U);
  EXPECT_NE(whole.lines[0].find("yes Ok 110"), std::string::npos);
  for (std::uint32_t seed = 1; seed <= 30; ++seed) {
    std::mt19937 random(seed);
    const Outcome cut = run_h2(&random);
    for (std::size_t i = 0; i < whole.lines.size(); ++i) {
      ASSERT_TRUE(i < cut.lines.size() && cut.lines[i] == whole.lines[i]) << "seed " << seed;
    }
  }
}

TEST(EngineProperty, WhenHttp1BytesAreCutAnywhere_OutcomeIsTheSame) {
  const Outcome whole = run_h1(nullptr);
  EXPECT_NE(whole.lines[0].find("yes Ok 110"), std::string::npos);
  for (std::uint32_t seed = 1; seed <= 30; ++seed) {
    std::mt19937 random(seed);
    EXPECT_TRUE(run_h1(&random) == whole) << "seed " << seed;
  }
}

// A random user on both sides of many streams; whatever it does, the rules of handler.h hold.
TEST(EngineProperty, WhenUsersActAtRandom_PERF252_EveryExchangeClosesOnceAndLast) {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(seed);
    SessionLimits limits;
    limits.stream_window = 2'000;
    auto pair = Pair::h2(limits, limits);
    pair->wire = {2'000, 900, &random};
    pair->handler.on_open = [&](ServerExchange& exchange) {
      exchange.auto_consume = random() % 4 != 0;
      switch (random() % 5) {
        case 0:
          exchange.stream->reset(Errc::kNotProcessed);
          break;
        case 1:
          exchange.stream->send_head(200, {}, true);
          break;
        case 2:
          exchange.stream->send_head(200, {}, false);
          exchange.stream->send_data(std::string_view(pattern(random() % 90'000)), random() % 2);
          break;
        default:
          break;
      }
    };
    std::list<TestResponse> responses;
    std::list<bool> detached;
    for (int step = 0; step < 120; ++step) {
      const auto action = random() % 6;
      if (action == 0) {
        TestResponse& response = responses.emplace_back();
        detached.push_back(false);
        auto opened = pair->client->open(make_head("POST", "/", random() % 2), response);
        if (!opened) {
          responses.pop_back();
          detached.pop_back();
        } else {
          response.stream = *opened;
          response.auto_consume = random() % 3 != 0;
        }
      }
      auto gone = detached.begin();
      for (TestResponse& response : responses) {
        if (response.stream != nullptr && random() % 8 == 0) {
          switch (random() % 5) {
            case 0:
              response.stream->reset(Errc::kCancelled);
              break;
            case 1:
              response.stream->detach();
              response.stream = nullptr;
              *gone = true;
              break;
            case 2:
              response.stream->send_data(std::string_view(pattern(random() % 9'000)), false);
              break;
            case 3:
              response.stream->send_trailers(fields({{"x", "y"}}));
              break;
            default:
              response.stream->consume(random() % 5'000);
              break;
          }
        }
        ++gone;
      }
      for (ServerExchange& exchange : pair->handler.exchanges) {
        if (exchange.stream != nullptr && random() % 8 == 0) {
          switch (random() % 5) {
            case 0:
              exchange.stream->reset(Errc::kInternal);
              break;
            case 1:
              exchange.stream->send_head(200, {}, false);
              break;
            case 2:
              exchange.stream->send_data(SharedBytes(pattern(random() % 9'000)), random() % 4 == 0);
              break;
            case 3:
              exchange.stream->send_trailers({});
              break;
            default:
              exchange.stream->consume(random() % 5'000);
              break;
          }
        }
      }
      if (random() % 3 == 0) {
        pair->run();
      }
      if (step == 100 && seed % 3 == 0) {
        pair->server->start_drain();
      }
    }
    pair->run();
    pair->close(Errc::kReset);
    auto gone = detached.begin();
    for (const TestResponse& response : responses) {
      EXPECT_EQ(response.in.closes, *gone++ ? 0 : 1) << "seed " << seed;
      EXPECT_FALSE(response.in.late) << "seed " << seed;
    }
    for (const ServerExchange& exchange : pair->handler.exchanges) {
      EXPECT_EQ(exchange.in.closes, 1) << "seed " << seed;
      EXPECT_FALSE(exchange.in.late) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace kintsugi::http
