#include "aggregation/position/internal/move_book.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace kintsugi::aggregation {
namespace {

const Scope kMaps{"/clusters/*", "", "configmaps"};
const Scope kSecrets{"/clusters/*", "", "secrets"};

TEST(MoveBook, WhenAClusterArrives_T110_ItIsLeftOutNoLonger) {
  MoveBook book;
  EXPECT_TRUE(book.left_out("uid-b", kMaps).empty());
  book.leave_out("uid-b", kMaps, "moving", 20);
  book.leave_out("uid-b", kMaps, "moving", 15);  // another stream is behind
  book.leave_out("uid-b", kMaps, "other", 3);
  EXPECT_EQ(book.left_out("uid-b", kMaps), (MoveBook::LeftOut{{"moving", 20}, {"other", 3}}));
  EXPECT_TRUE(book.left_out("uid-b", kSecrets).empty());
  EXPECT_TRUE(book.left_out("uid-a", kMaps).empty());
  EXPECT_EQ(book.arrival("uid-b", kMaps).revision, 0U);
  book.note_arrival("uid-b", kMaps, "moving", {30, 2});
  book.note_arrival("uid-b", kMaps, "moving", {25, 2});
  EXPECT_EQ(book.left_out("uid-b", kMaps), (MoveBook::LeftOut{{"other", 3}}));
  EXPECT_EQ(book.arrival("uid-b", kMaps).revision, 30U);
  EXPECT_EQ(book.arrival("uid-b", kSecrets).revision, 0U);
}

TEST(MoveBook, WhenAProcessStartsAgain_T110_KnowsWhatTheLastOneKnew) {
  MoveBook book;
  book.leave_out("uid-b", kMaps, "moving", 1'000'000'000'000'000'007);
  book.note_arrival("uid-c", kSecrets, "here", {30, 2});
  const auto json = krm::Json::parse(book.record().to_json().dump());
  ASSERT_TRUE(json);
  const auto record = MoveBook::Record::from_json(*json);
  ASSERT_TRUE(record);
  MoveBook later;
  later.take({}, *record);
  EXPECT_EQ(later.left_out("uid-b", kMaps),
            (MoveBook::LeftOut{{"moving", 1'000'000'000'000'000'007}}));
  EXPECT_EQ(later.arrival("uid-c", kSecrets).revision, 30U);
  EXPECT_EQ(later.arrival("uid-c", kSecrets).generation, 2U);
  EXPECT_EQ(later.record(), book.record());
}

TEST(MoveBook, GR_201_WhatAnotherProxyHasWrittenSinceIsTakenIn) {
  MoveBook book;
  book.leave_out("uid-b", kMaps, "moving", 20);
  book.leave_out("uid-b", kMaps, "staying", 7);
  const MoveBook::Record known = book.record();
  MoveBook other;
  other.take({}, known);
  other.note_arrival("uid-b", kMaps, "moving", {30, 2});
  other.leave_out("uid-c", kSecrets, "theirs", 5);
  other.leave_out("uid-b", kMaps, "staying", 9);
  book.leave_out("uid-c", kSecrets, "mine", 6);
  book.take(known, other.record());
  EXPECT_EQ(book.left_out("uid-b", kMaps), (MoveBook::LeftOut{{"staying", 9}}));
  EXPECT_EQ(book.left_out("uid-c", kSecrets), (MoveBook::LeftOut{{"mine", 6}, {"theirs", 5}}));
  EXPECT_EQ(book.arrival("uid-b", kMaps).revision, 30U);
}

TEST(MoveBook, GR_201_WhatIsNewerHereStays) {
  MoveBook book;
  book.leave_out("uid-b", kMaps, "moving", 20);
  book.note_arrival("uid-c", kMaps, "here", {30, 2});
  const MoveBook::Record known = book.record();
  MoveBook other;
  other.take({}, known);
  other.note_arrival("uid-b", kMaps, "moving", {25, 2});  // and it left again, which we have seen
  other.note_arrival("uid-c", kMaps, "here", {35, 2});
  book.leave_out("uid-b", kMaps, "moving", 40);
  book.note_arrival("uid-c", kMaps, "here", {50, 3});
  book.take(known, other.record());
  EXPECT_EQ(book.left_out("uid-b", kMaps), (MoveBook::LeftOut{{"moving", 40}}));
  EXPECT_EQ(book.arrival("uid-c", kMaps).revision, 50U);
  EXPECT_EQ(book.arrival("uid-c", kMaps).generation, 3U);
}

TEST(MoveBook, WhenARecordIsNoRecord_SaysSo) {
  for (const char* text : {"{}", "[]", R"({"leftOut":[{"of":["a"]}],"arrivals":[]})",
                           R"({"leftOut":[]})", R"({"leftOut":[],"arrivals":[{"revision":1}]})",
                           R"({"leftOut":[{"of":["a","b","c","d"]}],"arrivals":[]})"}) {
    EXPECT_FALSE(MoveBook::Record::from_json(*krm::Json::parse(text))) << text;
  }
}

TEST(MoveBook, WhenThereIsSomethingNew_TellsOnceUntilItIsRead) {
  MoveBook book;
  int told = 0;
  book.on_change([&] { ++told; });
  book.leave_out("uid-b", kMaps, "moving", 20);
  book.leave_out("uid-b", kMaps, "moving", 21);
  EXPECT_EQ(told, 1);
  (void)book.record();
  book.leave_out("uid-b", kMaps, "moving", 21);  // is known
  EXPECT_EQ(told, 1);
  book.note_arrival("uid-b", kMaps, "moving", {22, 1});
  EXPECT_EQ(told, 2);
}

TEST(MoveBook, WhenThereIsTooMuch_StaysWithinItsBounds) {
  MoveBook book;
  for (std::size_t i = 0; i < 2 * MoveBook::kMostClusters; ++i) {
    book.leave_out("uid-b", kMaps, "c" + std::to_string(i), i + 1);
  }
  EXPECT_EQ(book.left_out("uid-b", kMaps).size(), MoveBook::kMostClusters);
  for (std::size_t i = 0; i < MoveBook::kMost + 10; ++i) {
    book.note_arrival("u" + std::to_string(i), kMaps, "c", {i + 1, 1});
  }
  EXPECT_EQ(book.record().arrivals.size(), MoveBook::kMost);
  for (int n = 0; n < 100; ++n) {
    for (std::size_t i = 0; i < MoveBook::kMostClusters; ++i) {
      book.leave_out("u" + std::to_string(n), kSecrets, "c" + std::to_string(i), 1);
    }
  }
  std::size_t all = 0;
  for (const auto& [key, clusters] : book.record().left_out) {
    all += clusters.size();
  }
  EXPECT_EQ(all, 16'384U);
}

TEST(MoveBook, GR_211_WhatLaterProgramsSayStays) {
  const auto theirs = MoveBook::Record::from_json(
      *krm::Json::parse(R"({"leftOut":[],"arrivals":[],"moons":{"of":["mars"]}})"));
  ASSERT_TRUE(theirs);
  MoveBook book;
  book.take({}, *theirs);
  EXPECT_TRUE(book.record() == *theirs) << "nothing has to be written";
  book.note_arrival("uid-b", kMaps, "c", {7, 1});
  EXPECT_EQ(book.record().to_json().at({"moons"})->dump(), R"({"of":["mars"]})");
}

TEST(MoveBook, WhenSeveralLoopsTell_NothingIsLost) {
  MoveBook book;
  std::vector<std::thread> threads;
  for (int n = 0; n < 3; ++n) {
    threads.emplace_back([&book, n] {
      for (std::uint64_t i = 1; i <= 500; ++i) {
        book.leave_out("uid-b", kMaps, "c" + std::to_string(n), i);
        (void)book.left_out("uid-b", kMaps);
        book.note_arrival("uid-c", kMaps, "c", {i, 1});
        (void)book.arrival("uid-c", kMaps);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(book.left_out("uid-b", kMaps),
            (MoveBook::LeftOut{{"c0", 500}, {"c1", 500}, {"c2", 500}}));
  EXPECT_EQ(book.arrival("uid-c", kMaps).revision, 500U);
}

}  // namespace
}  // namespace kintsugi::aggregation
