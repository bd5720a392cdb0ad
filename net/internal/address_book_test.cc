#include "net/internal/address_book.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace kintsugi::net {
namespace {

SocketAddress address(int last) { return *numeric_address("10.0.0." + std::to_string(last), 443); }

int last_of(const SocketAddress& address) {
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(address.storage);
  return static_cast<int>(ntohl(v4.sin_addr.s_addr) & 255U);
}

std::vector<int> order(AddressBook& book, TimePoint now) {
  std::vector<int> result;
  for (const SocketAddress& one : book.order(now)) {
    result.push_back(last_of(one));
  }
  return result;
}

void fail(AddressBook& book, int last, TimePoint now,
          std::uint32_t times = AddressBook::kFailures) {
  for (std::uint32_t i = 0; i < times; ++i) {
    book.on_result(address(last), false, now);
  }
}

TEST(AddressBook, WhenAllAreWell_ConnectionsRotate) {
  AddressBook book;
  EXPECT_TRUE(book.empty());
  EXPECT_EQ(order(book, {}), std::vector<int>());
  book.set({address(1), address(2), address(3)});
  EXPECT_EQ(order(book, {}), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(order(book, {}), (std::vector<int>{2, 3, 1}));
  EXPECT_EQ(order(book, {}), (std::vector<int>{3, 1, 2}));
}

TEST(AddressBook, WhenOneFailsFiveTimes_ItIsLeftOutForLongerAndLonger_FP137) {
  AddressBook book;
  TimePoint now{seconds(1000)};
  book.set({address(1), address(2), address(3)});
  fail(book, 2, now, 4);
  EXPECT_EQ(order(book, now).size(), 3U);
  fail(book, 2, now, 1);
  EXPECT_EQ(order(book, now), (std::vector<int>{3, 1}));
  EXPECT_EQ(order(book, now + milliseconds(29'999)).size(), 2U);
  for (int n = 1; n <= 12; ++n) {
    const Duration pause = std::min<Duration>(seconds(30) * n, seconds(300));
    EXPECT_EQ(order(book, now + pause - milliseconds(1)).size(), 2U) << n;
    now += pause;
    EXPECT_EQ(order(book, now).size(), 3U) << n;
    fail(book, 2, now, 1);
  }
  book.on_result(address(2), true, now);
  EXPECT_EQ(order(book, now).size(), 3U);
  fail(book, 2, now, 4);
  EXPECT_EQ(order(book, now).size(), 3U);
}

TEST(AddressBook, WhenAllFail_HalfAreStillTried_FP137) {
  AddressBook book;
  const TimePoint now{seconds(1000)};
  book.set({address(1), address(2), address(3), address(4)});
  for (int i = 1; i <= 4; ++i) {
    fail(book, i, now + seconds(i));
  }
  const std::vector<int> tried = order(book, now + seconds(5));
  EXPECT_EQ(std::set<int>(tried.begin(), tried.end()), (std::set<int>{1, 2}));
  AddressBook single;
  single.set({address(9)});
  fail(single, 9, now, 50);
  EXPECT_EQ(order(single, now), std::vector<int>{9});
}

TEST(AddressBook, WhenTheNameIsLookedUpAgain_WhatIsKnownStays) {
  AddressBook book;
  const TimePoint now{seconds(1000)};
  book.set({address(1), address(2)});
  fail(book, 1, now);
  book.set({address(1), address(3), address(4)});
  const std::vector<int> tried = order(book, now);
  EXPECT_EQ(std::set<int>(tried.begin(), tried.end()), (std::set<int>{3, 4}));
}

}  // namespace
}  // namespace kintsugi::net
