#include "aggregation/position/internal/sequence_book.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "aggregation/position/continue_token.h"
#include "aggregation/position/cursor.h"
#include "base/strings.h"

namespace kintsugi::aggregation {
namespace {

const ScopeId kMaps = "configmaps-here.";
const ScopeId kPods = "pods-are-here...";
const TimePoint kStart{};

SequenceBook::Limits limits(std::size_t least, Duration age, std::size_t bytes) {
  SequenceBook::Limits out;
  out.least = least;
  out.age = age;
  out.bytes = bytes;
  return out;
}

TEST(SequenceBook, WhenNumbersAreMade_T107_TheyAreTheExampleOfTheSpecification) {
  EXPECT_EQ(sequence_number(5, 1'234'567), 87'960'931'456'647U);
  EXPECT_EQ(sequence_number(1, 0), kFirstSequence);
  EXPECT_EQ(kFirstSequence, 17'592'186'044'416U);
  EXPECT_GT(sequence_number(kMaxEpoch, kFirstSequence - 1), sequence_number(kMaxEpoch, 0));
  SequenceBook book;
  book.begin(5, 1'234'567);
  EXPECT_EQ(book.mint(kMaps, 1, {7, 8}, kStart), 87'960'931'456'647U);
}

TEST(SequenceBook, WhenAVectorIsMintedAgain_AGG516_OnlyTheLatestKeepsItsNumber) {
  SequenceBook book;
  const std::uint64_t one = book.mint(kMaps, 1, {7, 8}, kStart);
  EXPECT_EQ(book.mint(kMaps, 1, {7, 8}, kStart), one);
  const std::uint64_t two = book.mint(kMaps, 1, {7, 9}, kStart);
  EXPECT_GT(two, one);
  // A stream that comes to an earlier vector late must not see a smaller number.
  EXPECT_GT(book.mint(kMaps, 1, {7, 8}, kStart), two);
  EXPECT_GT(book.mint(kMaps, 2, {7, 8}, kStart), two);
  EXPECT_EQ(book.stats().minted, 4U);
}

TEST(SequenceBook, WhenLookedUp_AGG518_IsFoundInItsScopeOnly) {
  SequenceBook book;
  const std::uint64_t one = book.mint(kMaps, 3, {7, 8}, kStart);
  const auto found = book.find(kMaps, one);
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, (SequenceBook::Vector{3, {7, 8}}));
  EXPECT_FALSE(book.find(kPods, one));
  EXPECT_FALSE(book.find(kMaps, one + 1));
  EXPECT_FALSE(book.find(kMaps, one - 1));
}

TEST(SequenceBook, WhenARingIsLong_AGG518_KeepsSoManyAndAllThatAreYoung) {
  SequenceBook book(limits(4, seconds(10), 1 << 20));
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t i = 0; i < 10; ++i) {
    numbers.push_back(book.mint(kMaps, 1, {i}, kStart));
  }
  EXPECT_EQ(book.stats().vectors, 10U);
  numbers.push_back(book.mint(kMaps, 1, {10}, kStart + seconds(11)));
  EXPECT_EQ(book.stats().vectors, 4U);
  EXPECT_FALSE(book.find(kMaps, numbers[6]));
  EXPECT_TRUE(book.find(kMaps, numbers[7]));
  EXPECT_TRUE(book.find(kMaps, numbers[10]));
}

TEST(SequenceBook, WhenItIsFull_AGG518_TheOldestGo) {
  SequenceBook book(limits(4'096, seconds(600), 10'000));
  const ScopeId other = "configmaps-there";  // of the same stripe
  const std::uint64_t first = book.mint(other, 1, {1}, kStart);
  std::uint64_t last = 0;
  for (std::uint64_t i = 0; i < 500; ++i) {
    last = book.mint(kMaps, 1, std::vector<std::uint64_t>(10, i), kStart + seconds(1));
    EXPECT_LE(book.stats().bytes, 10'000U);
  }
  EXPECT_FALSE(book.find(other, first));
  EXPECT_TRUE(book.find(kMaps, last));
  EXPECT_EQ(book.stats().scopes, 1U);
}

TEST(SequenceBook, WhenThreadsMint_NumbersAreUniqueAndRise) {
  SequenceBook book;
  std::vector<std::vector<std::uint64_t>> got(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < got.size(); ++t) {
    threads.emplace_back([&book, &got, t] {
      for (std::uint64_t i = 0; i < 500; ++i) {
        got[t].push_back(book.mint(t % 2 == 0 ? kMaps : kPods, 1, {t, i}, kStart));
      }
    });
  }
  for (std::thread& one : threads) {
    one.join();
  }
  std::set<std::uint64_t> all;
  for (std::size_t t = 0; t < got.size(); ++t) {
    for (std::uint64_t i = 0; i < got[t].size(); ++i) {
      EXPECT_TRUE(i == 0 || got[t][i] > got[t][i - 1]);
      EXPECT_TRUE(all.insert(got[t][i]).second);
      const auto found = book.find(t % 2 == 0 ? kMaps : kPods, got[t][i]);
      ASSERT_TRUE(found);
      EXPECT_EQ(found->components, (Components{t, i}));
    }
  }
}

SlotHistoryPtr history_of(std::size_t slots, const SlotHistoryPtr& before = nullptr) {
  SlotChange change;
  for (std::size_t i = 0; i < slots; ++i) {
    change.present.push_back("uid-" + std::to_string(i));
  }
  const SlotHistory start = before == nullptr ? SlotHistory() : *before;
  return std::make_shared<const SlotHistory>(*start.changed(change, 1));
}

const Scope kScope{"/clusters/*", "apps", "deployments"};

class SequenceCursors : public ::testing::Test {
 protected:
  CursorCodec codec(const SlotHistoryPtr& history, bool option = false,
                    const Scope& scope = kScope) {
    return {scope, history, book_, option};
  }
  std::shared_ptr<SequenceBook> book_ = std::make_shared<SequenceBook>();
};

TEST_F(SequenceCursors, WhenThereAreMoreThan1024Slots_AGG516_NumbersTakeThePlaceOfVectors) {
  EXPECT_FALSE(codec(history_of(1'024)).is_sequence());
  EXPECT_TRUE(codec(history_of(64), true).is_sequence());
  const CursorCodec wide = codec(history_of(1'025));
  EXPECT_TRUE(wide.is_sequence());
  book_->begin(5, 1'234'567);
  Components at(1'025, 3);
  at[1'024] = 9;
  EXPECT_EQ(wide.format(at), "87960931456647");
  const DecodedVersion read = wide.decode("87960931456647", std::vector<bool>(1'025, true));
  EXPECT_EQ(read.kind, VersionClass::kCursor);
  EXPECT_EQ(read.components, at);
  EXPECT_EQ(wide.format(at), "87960931456647");
}

TEST_F(SequenceCursors, WhenReadInSequenceMode_56_TellsTheClasses) {
  const CursorCodec numbers = codec(history_of(2), true);
  const std::vector<bool> members{true, true};
  const std::string own = numbers.format({4, 5});
  const std::string begun = numbers.format({4, kBegun});
  const std::string vector = CursorCodec(kScope, history_of(2)).format({4, 5});
  const auto kind = [&](std::string_view text) { return numbers.decode(text, members).kind; };
  EXPECT_EQ(kind(own), VersionClass::kCursor);
  EXPECT_EQ(kind("17592186044415"), VersionClass::kNative);
  EXPECT_EQ(kind("17592186044416"), VersionClass::kUnknown);
  EXPECT_EQ(kind(begun), VersionClass::kUnknown);
  EXPECT_EQ(kind(vector), VersionClass::kUnknown);
  EXPECT_EQ(kind("18446744073709551615"), VersionClass::kUnknown);
  EXPECT_EQ(kind("99999999999999999999"), VersionClass::kUnknown);
  EXPECT_EQ(kind("abc"), VersionClass::kMalformed);
  EXPECT_EQ(kind("01"), VersionClass::kMalformed);
  EXPECT_EQ(kind(std::string(2'049, '9')), VersionClass::kMalformed);
  EXPECT_EQ(kind(""), VersionClass::kUnset);
  EXPECT_EQ(kind("0"), VersionClass::kZero);
  EXPECT_EQ(numbers.decode("17592186044416", members).reason, "sequence");
  // Of another resource, or another process.
  EXPECT_EQ(codec(history_of(2), true, {"/clusters/*", "", "configmaps"}).decode(own, members).kind,
            VersionClass::kUnknown);
  EXPECT_EQ(CursorCodec(kScope, history_of(2), std::make_shared<SequenceBook>(), true)
                .decode(own, members)
                .kind,
            VersionClass::kUnknown);
}

TEST_F(SequenceCursors, WhenTheSlotsChange_AGG511_NumbersAreTranslatedAsVectorsAre) {
  const SlotHistoryPtr first = history_of(66);
  const std::string cursor = codec(first, true).format(Components(66, 7));
  const SlotHistoryPtr more = history_of(67, first);
  const DecodedVersion joined = codec(more, true).decode(cursor, std::vector<bool>(67, true));
  EXPECT_EQ(joined.kind, VersionClass::kCursor);
  Components expected(66, 7);
  expected.push_back(0);
  EXPECT_EQ(joined.components, expected);
  const SlotHistoryPtr fewer = history_of(65, more);
  std::vector<bool> members(67, true);
  members[65] = members[66] = false;
  EXPECT_EQ(codec(fewer, true).decode(cursor, members).departed,
            (std::vector<std::string>{"uid-65"}));
}

TEST_F(SequenceCursors, WhenATokenIsMade_62_NamesTheNumberOfItsPins) {
  const SlotHistoryPtr history = history_of(70);
  const CursorCodec wide = codec(history, true);
  const ListQuestion question{kScope, "v1", "", "", "", ""};
  const TokenKey key(3, Secret(std::string(32, 'k')));
  MergedContinue token;
  token.generation = history->current().generation;
  token.check = wide.check();
  token.slot = 68;
  token.pins.assign(70, 12);
  token.pins[3] = 0;
  token.sequence = parse_decimal(wide.format(token.pins)).value_or(0);
  ASSERT_NE(token.sequence, 0U);
  token.member_token = "MEMBERTOKEN";
  const std::string text = encode_continue(token, question, key);
  EXPECT_LT(text.size(), 120U);  // 70 pins are not in it
  const auto read = decode_continue(text, question, {key});
  ASSERT_TRUE(read);
  EXPECT_EQ(read->sequence, token.sequence);
  EXPECT_TRUE(read->pins.empty());
  EXPECT_EQ(read->member_token, "MEMBERTOKEN");
  const std::vector<bool> all(70, true);
  const auto here = translate_continue(*read, wide, all);
  ASSERT_TRUE(here);
  EXPECT_EQ(here->pins, token.pins);
  EXPECT_EQ(here->slot, 68);
  // Where the number means nothing, neither does the token.
  const CursorCodec other(kScope, history, std::make_shared<SequenceBook>(), true);
  const auto there = translate_continue(*read, other, all);
  ASSERT_FALSE(there);
  EXPECT_EQ(there.error().code(), Errc::kExpired);
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(decode_continue(text.substr(0, length), question, {key}));
  }
}

}  // namespace
}  // namespace kintsugi::aggregation
