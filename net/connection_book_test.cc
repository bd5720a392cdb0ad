#include "net/connection_book.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "net/testing/support.h"

namespace kintsugi::net {
namespace {

using Place = ConnectionBook::Place;
using Reason = ConnectionBook::Reason;
using Room = ConnectionBook::Room;

const TimePoint kStart = TimePoint() + seconds(1'000);

TEST(ConnectionBook, SE081_AProcessHasNoMoreThanItsBound) {
  ConnectionBook book({.process = 2});
  Place one, two, three;
  EXPECT_TRUE(book.admit(one, "192.0.2.1", kStart));
  EXPECT_TRUE(book.admit(two, "192.0.2.2", kStart));
  EXPECT_FALSE(book.admit(three, "192.0.2.3", kStart));
  EXPECT_EQ(book.refused(Reason::kProcess), 1U);
  one.give_back();
  EXPECT_EQ(book.connections(), 1U);
  EXPECT_TRUE(book.admit(three, "192.0.2.3", kStart));
}

TEST(ConnectionBook, SE081_AnAddressHasItsOwnBoundAndAnIPv6NetworkOne) {
  ConnectionBook book({.per_address = 2});
  std::deque<Place> places(6);
  EXPECT_TRUE(book.admit(places[0], "2001:db8::1", kStart));
  EXPECT_TRUE(book.admit(places[1], "2001:db8::ff:2", kStart));
  EXPECT_FALSE(book.admit(places[2], "2001:db8:0:ff::3", kStart)) << "the same /56";
  EXPECT_TRUE(book.admit(places[3], "2001:db8:1::1", kStart));
  EXPECT_TRUE(book.admit(places[4], "192.0.2.1", kStart));
  EXPECT_EQ(book.refused(Reason::kAddress), 1U);
  places[0].give_back();
  EXPECT_TRUE(book.admit(places[5], "2001:db8::9", kStart));
}

TEST(ConnectionBook, SE082_NewOnesOfAnAddressComeAtARate) {
  ConnectionBook book({.new_per_second = 50});
  std::deque<Place> places(200);
  std::size_t admitted = 0;
  for (std::size_t i = 0; i < 100; ++i) {
    admitted += book.admit(places[i], "192.0.2.1", kStart) ? 1U : 0U;
  }
  EXPECT_EQ(admitted, 50U);
  EXPECT_EQ(book.refused(Reason::kRate), 50U);
  EXPECT_TRUE(book.admit(places[100], "192.0.2.2", kStart)) << "others notice nothing";
  EXPECT_FALSE(book.admit(places[101], "192.0.2.1", kStart + milliseconds(19)));
  EXPECT_TRUE(book.admit(places[102], "192.0.2.1", kStart + milliseconds(20)));
}

TEST(ConnectionBook, LoopbackIsSparedUnlessSomebodySaysOtherwise) {
  const ConnectionLimits usual = connection_limits(0, 0, 0);
  EXPECT_TRUE(usual.spares_loopback);
  EXPECT_EQ(usual.per_address, 1'000U);
  EXPECT_EQ(usual.per_payer, 256U);
  EXPECT_EQ(usual.new_per_second, 50U);
  ConnectionBook book({.per_address = 1, .new_per_second = 1, .spares_loopback = true});
  std::deque<Place> places(8);
  for (const char* address : {"127.0.0.1", "127.0.0.1", "::1", "::1", "unix", "unix"}) {
    EXPECT_TRUE(book.admit(places.emplace_back(), address, kStart)) << address;
  }
  const ConnectionLimits said = connection_limits(7, 3, 2);
  EXPECT_FALSE(said.spares_loopback);
  EXPECT_EQ(said.process, 7U);
  EXPECT_EQ(said.per_payer, 2U);
}

TEST(ConnectionBook, SE092_ATenthOfTheDescriptorsIsKept) {
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  if (files.rlim_cur != RLIM_INFINITY) {
    EXPECT_LE(connection_limits(1'000'000'000, 0, 0).process, files.rlim_cur / 10 * 9);
  }
}

TEST(ConnectionBook, SE081_APayerIsCrowdedAndThenShutOut) {
  ConnectionBook book({.per_payer = 2});
  std::deque<Place> places(6);
  std::vector<Room> rooms;
  for (std::size_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(book.admit(places[i], "192.0.2.1", kStart));
    rooms.push_back(book.identify(places[i], "user a"));
  }
  EXPECT_EQ(rooms, (std::vector<Room>{Room::kThere, Room::kThere, Room::kCrowded, Room::kCrowded,
                                      Room::kNone}));
  EXPECT_EQ(book.refused(Reason::kPayer), 3U);
  EXPECT_EQ(book.largest_payer(), 4U);
  ASSERT_TRUE(book.admit(places[5], "192.0.2.1", kStart));
  EXPECT_EQ(book.identify(places[5], "user b"), Room::kThere);
  EXPECT_EQ(book.largest(1).front(), (std::pair<std::string, std::size_t>("user a", 4)));
  EXPECT_EQ(book.largest(9).size(), 2U);
  for (Place& place : places) {
    place.give_back();
  }
  EXPECT_EQ(book.largest_payer(), 0U);
  EXPECT_EQ(book.connections(), 0U);
}

TEST(ConnectionBook, ServersOfTheInstallationDoNotCountForTheirAddress) {
  ConnectionBook book({.per_address = 1, .new_per_second = 1});
  std::deque<Place> places(20);
  for (Place& place : places) {
    ASSERT_TRUE(book.admit(place, "192.0.2.1", kStart));
    book.exempt(place);
  }
  EXPECT_EQ(book.connections(), 20U);
}

TEST(ConnectionBook, SE089_OnlyWhoOwesNothingIsForgotten) {
  ConnectionBook book({.per_address = 5, .new_per_second = 50});
  Place kept;
  ASSERT_TRUE(book.admit(kept, "192.0.2.1", kStart));
  for (int i = 0; i < 20'000; ++i) {
    Place place;
    ASSERT_TRUE(book.admit(place,
                           "198.51." + std::to_string(i / 250) + "." + std::to_string(i % 250),
                           kStart + milliseconds(i)));
  }
  EXPECT_LT(book.owners(), 3'000U);
  Place more[4];
  for (Place& place : more) {
    EXPECT_TRUE(book.admit(place, "192.0.2.1", kStart + seconds(60)));
  }
  Place last;
  EXPECT_FALSE(book.admit(last, "192.0.2.1", kStart + seconds(60))) << "it was forgotten";
}

TEST(ConnectionBook, ManyThreadsComeAndGo) {
  ConnectionBook book({.process = 1'000, .per_address = 1'000, .per_payer = 1'000});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&book, t] {
      for (int i = 0; i < 2'000; ++i) {
        Place place;
        EXPECT_TRUE(book.admit(place, "192.0.2." + std::to_string(i % 7), kStart));
        EXPECT_EQ(book.identify(place, "user " + std::to_string((i + t) % 3)), Room::kThere);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(book.connections(), 0U);
  EXPECT_EQ(book.largest_payer(), 0U);
}

/// Answers as a listener's crowded handler does.
class Refusal final : public http::Handler {
 public:
  std::unique_ptr<http::RequestHandler> on_request(http::RequestHead /*head*/,
                                                   http::ResponseStream& stream) noexcept override {
    struct Nothing final : http::RequestHandler {
      void on_data(std::string_view /*bytes*/, bool /*end*/) noexcept override {}
      void on_close(Errc /*cause*/) noexcept override {}
    };
    stream.close_connection_after();
    stream.send_head(429, {}, true);
    return std::make_unique<Nothing>();
  }
};

/// A server whose users may have `most` connections each.
struct Crowd {
  explicit Crowd(const ConnectionLimits& limits, testing::Pair::Mode mode)
      : book(std::make_shared<ConnectionBook>(limits)),
        pair(mode, [this](ListenerParams& listening, UpstreamParams& params) {
          listening.book = book;
          listening.crowded = &refusal;
          listening.identify = [](const http::PeerInfo&) { return std::make_shared<const int>(1); };
          listening.owner = [this](const http::PeerInfo&) {
            return ConnectionOwner{"user alice", exempt};
          };
          params.max_connections = 1;
        }) {}
  /// The status of one request on a connection of its own.
  int ask() {
    auto upstream = Upstream::make(pair.loop, pair.upstream_params);
    testing::Client client;
    client.stream =
        &upstream->open(UpstreamClass::kRead, testing::make_request("GET", "/small"), client);
    EXPECT_TRUE(pair.until([&] { return client.closed; }));
    upstreams.push_back(std::move(upstream));
    return client.status;
  }
  Refusal refusal;
  bool exempt = false;
  std::shared_ptr<ConnectionBook> book;
  testing::Pair pair;
  std::vector<std::unique_ptr<Upstream>> upstreams;
};

TEST(ConnectionBook, SE081_WhoHasTooManyConnectionsGets429AndThenNoMore) {
  for (const auto mode : {testing::Pair::Mode::kH2Tls, testing::Pair::Mode::kH1Plain}) {
    Crowd crowd({.per_payer = 2}, mode);
    EXPECT_EQ(crowd.ask(), 200);
    EXPECT_EQ(crowd.ask(), 200);
    EXPECT_EQ(crowd.book->largest_payer(), 2U);
    EXPECT_EQ(crowd.ask(), 429);
    EXPECT_TRUE(crowd.pair.until([&] { return crowd.book->largest_payer() == 2; }))
        << "the refused connection has ended";
    crowd.exempt = true;
    EXPECT_EQ(crowd.ask(), 200);
    EXPECT_EQ(crowd.book->refused(Reason::kPayer), 1U);
    crowd.upstreams.clear();
    EXPECT_TRUE(crowd.pair.until([&] { return crowd.book->connections() == 0; }));
  }
}

TEST(ConnectionBook, SE081_BeyondTheBoundOfTheProcessConnectionsAreClosed) {
  Crowd crowd({.process = 1}, testing::Pair::Mode::kH1Plain);
  EXPECT_EQ(crowd.ask(), 200);
  crowd.pair.upstream_params.queue_timeout = milliseconds(200);
  EXPECT_EQ(crowd.ask(), 0);
  EXPECT_GE(crowd.book->refused(Reason::kProcess), 1U);
}

TEST(ConnectionBook, SE091_IdleConnectionsEndThoseOfTheLargestPayerFirst) {
  Crowd crowd({.per_payer = 100}, testing::Pair::Mode::kH2Tls);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(crowd.ask(), 200);
  }
  crowd.exempt = true;
  EXPECT_EQ(crowd.ask(), 200);
  testing::Client waits;
  crowd.exempt = false;
  crowd.pair.send(waits, testing::make_request("GET", "/hold"));
  EXPECT_TRUE(crowd.pair.until([&] { return !crowd.pair.server.held.empty(); }));
  EXPECT_EQ(crowd.pair.listener->shed_idle(2), 2U);
  EXPECT_TRUE(crowd.pair.until([&] { return crowd.book->connections() == 3; }));
  EXPECT_EQ(crowd.pair.listener->shed_idle(9), 1U) << "the exempt one and the busy one stay";
  crowd.pair.server.release();
  EXPECT_TRUE(crowd.pair.until([&] { return waits.closed; }));
  EXPECT_EQ(waits.status, 200);
}

}  // namespace
}  // namespace kintsugi::net
