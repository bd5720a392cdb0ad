#include "aggregation/position/cursor.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace kintsugi::aggregation {
namespace {

const Scope kDeployments{"/clusters/*", "apps", "deployments"};

SlotHistory history_of(std::vector<std::string> uids, std::uint32_t generation) {
  krm::Json list = krm::Json::array();
  krm::Json present = krm::Json::array();
  for (const std::string& uid : uids) {
    list.push_back(uid);
    present.push_back(krm::Json(true));
  }
  const krm::Json record = krm::Json::object(
      {{"generations", krm::Json::array({krm::Json::object(
                           {{"generation", krm::Json(static_cast<std::int64_t>(generation))},
                            {"madeAt", krm::Json(std::int64_t{1})},
                            {"uids", std::move(list)}})})},
       {"present", std::move(present)}});
  return *SlotHistory::from_json(record);
}

SlotHistoryPtr shared(SlotHistory history) {
  return std::make_shared<const SlotHistory>(std::move(history));
}

SlotChange shards(std::vector<std::string> uids) {
  SlotChange change;
  change.present = std::move(uids);
  return change;
}

const std::vector<bool> kThree{true, true, true};
constexpr std::string_view kExample =
    "120000007830422000000000000000047110000000000000000000000000000000000000982";

class CursorTest : public ::testing::Test {
 protected:
  SlotHistory history_ = history_of({"uid-a", "uid-b", "uid-c"}, 7);
  CursorCodec codec_{kDeployments, shared(history_)};
};

TEST_F(CursorTest, WhenFormatted_T100_IsTheWorkedExample) {
  EXPECT_EQ(codec_.format({4711, 0, 982}), kExample);
  EXPECT_EQ(codec_.check(), 830422U);
  EXPECT_EQ(cursor_check({"/clusters/*", "", "configmaps"}, history_.current().uids, 0), 111506U);
  EXPECT_EQ(cursor_check({"/partitions/2hk9/eu/clusters/*", "apps", "deployments"},
                         history_.current().uids, 0),
            733746U);
}

TEST_F(CursorTest, WhenAShardJoins_T100_CursorGrowsAndTheOldOneStillHolds) {
  const auto grown = history_.changed(shards({"uid-a", "uid-b", "uid-c", "uid-d"}), 2);
  ASSERT_TRUE(grown);
  const CursorCodec next(kDeployments, shared(*grown));
  const std::string text = next.format({4711, 15, 982, 0});
  EXPECT_TRUE(text.starts_with("120000008187897")) << text;
  EXPECT_EQ(text.size(), 95U);
  EXPECT_TRUE(is_newer_version(text, kExample));
  const DecodedVersion old = next.decode(kExample, {true, true, true, true});
  EXPECT_EQ(old.kind, VersionClass::kCursor);
  EXPECT_EQ(old.generation, 7U);
  EXPECT_EQ(old.components, (Components{4711, 0, 982, 0}));
  EXPECT_TRUE(old.departed.empty());
}

TEST_F(CursorTest, WhenFormatted_T12_LengthTellsTheSlots) {
  for (const std::size_t slots : {1U, 3U, 8U, 32U, 64U}) {
    std::vector<std::string> uids;
    for (std::size_t i = 0; i < slots; ++i) {
      uids.push_back("shard-" + std::to_string(i));
    }
    const CursorCodec codec(kDeployments, shared(history_of(uids, 3)));
    EXPECT_EQ(codec.format(Components(slots, ~std::uint64_t{0})).size(), 15 + 20 * slots);
  }
}

TEST_F(CursorTest, WhenTextIsNoVersion_T57_IsMalformed) {
  for (const std::string& text : {std::string("abc"), std::string("-1"), std::string("01"),
                                  std::string("1.0"), std::string(10'000, '1')}) {
    EXPECT_EQ(codec_.decode(text, kThree).kind, VersionClass::kMalformed) << text.substr(0, 20);
  }
}

TEST_F(CursorTest, WhenSomebodyElseMadeIt_T57_T112_IsUnknown) {
  const std::string good(kExample);
  std::string layout = good;
  layout[0] = '2';
  std::string width = good;
  width[2] = '1';
  width[1] = '1';
  std::string check = good;
  check[10] = check[10] == '9' ? '8' : '9';
  const std::string short_one = good.substr(0, good.size() - 1);
  const std::string longer = good + std::string(20, '0');
  std::string begun = good;
  begun.replace(15, 20, "00000000000000000001");
  std::string too_large = good;
  too_large.replace(15, 20, "99999999999999999999");
  for (const std::string& text : {layout, width, check, short_one, longer, begun, too_large}) {
    EXPECT_EQ(codec_.decode(text, kThree).kind, VersionClass::kUnknown) << text;
  }
  const CursorCodec other({"/clusters/*", "", "configmaps"}, shared(history_));
  EXPECT_EQ(other.decode(good, kThree).kind, VersionClass::kUnknown);
}

TEST_F(CursorTest, WhenGenerationIsAhead_T57_IsFuture) {
  std::string text(kExample);
  text.replace(3, 6, "000008");
  EXPECT_EQ(codec_.decode(text, kThree).kind, VersionClass::kFuture);
  text.replace(3, 6, "000006");
  const DecodedVersion old = codec_.decode(text, kThree);
  EXPECT_EQ(old.kind, VersionClass::kUnknown);
  EXPECT_EQ(old.reason, "generation");
}

TEST_F(CursorTest, WhenShort_T17_IsNative) {
  EXPECT_EQ(codec_.decode("4711", kThree).native, 4711U);
  EXPECT_EQ(codec_.decode("18446744073709551615", kThree).kind, VersionClass::kNative);
  EXPECT_EQ(codec_.decode("18446744073709551616", kThree).kind, VersionClass::kUnknown);
  EXPECT_EQ(codec_.decode("", kThree).kind, VersionClass::kUnset);
  EXPECT_EQ(codec_.decode("0", kThree).kind, VersionClass::kZero);
}

TEST_F(CursorTest, WhenAMemberLeft_T72_T74_OnlyAnEmptyComponentIsForgotten) {
  const DecodedVersion without_b = codec_.decode(kExample, {true, false, true});
  EXPECT_EQ(without_b.kind, VersionClass::kCursor);
  EXPECT_TRUE(without_b.departed.empty());
  const DecodedVersion without_c = codec_.decode(kExample, {true, true, false});
  EXPECT_EQ(without_c.departed, std::vector<std::string>{"uid-c"});
  EXPECT_EQ(without_c.reason, "removed");
}

TEST_F(CursorTest, WhenAShardWasRolledBack_T58_ItsOldComponentsAreVoid) {
  SlotChange change = shards({"uid-a", "uid-b", "uid-c"});
  change.rolled_back = {"uid-c"};
  const auto after = history_.changed(change, 2);
  ASSERT_TRUE(after);
  EXPECT_EQ(after->current().generation, 8U);
  const CursorCodec next(kDeployments, shared(*after));
  EXPECT_EQ(next.decode(kExample, kThree).reason, "rollback");
  const std::string fresh = next.format({4711, 0, 40});
  EXPECT_EQ(next.decode(fresh, kThree).kind, VersionClass::kCursor);
}

TEST_F(CursorTest, WhenCursorsAreNumbers_AGG516_AGG517_TheBookKnowsWhatTheyStandFor) {
  const auto book = std::make_shared<SequenceBook>();
  const CursorCodec numbers(kDeployments, shared(history_), book, true);
  EXPECT_TRUE(numbers.is_sequence());
  const std::string one = numbers.format({4711, 0, 982});
  EXPECT_LE(one.size(), 20U);
  EXPECT_EQ(numbers.format({4711, 0, 982}), one) << "the latest is not minted again";
  const DecodedVersion read = numbers.decode(one, kThree);
  EXPECT_EQ(read.kind, VersionClass::kCursor);
  EXPECT_EQ(read.generation, 7U);
  EXPECT_EQ(read.components, (Components{4711, 0, 982}));
  const DecodedVersion never = numbers.decode(std::to_string(std::stoull(one) + 1), kThree);
  EXPECT_EQ(never.kind, VersionClass::kUnknown);
  EXPECT_EQ(never.reason, "sequence");
  EXPECT_EQ(numbers.decode(std::to_string(kFirstSequence - 1), kThree).kind, VersionClass::kNative);
  EXPECT_EQ(numbers.decode(kExample, kThree).kind, VersionClass::kUnknown) << "a vector is none";
  EXPECT_EQ(codec_.decode(one, kThree).kind, VersionClass::kNative) << "of a shard, to others";
  const CursorCodec other({"/clusters/*", "", "configmaps"}, shared(history_), book, true);
  EXPECT_EQ(other.decode(one, kThree).kind, VersionClass::kUnknown) << "of another scope";
}

TEST_F(CursorTest, WhenAListBeganUnderAnEarlierTable_T28_ItsCursorIsInThoseWords) {
  const auto grown = history_.changed(shards({"uid-a", "uid-b", "uid-c", "uid-d"}), 2);
  ASSERT_TRUE(grown);
  const CursorCodec next(kDeployments, shared(*grown));
  const Components now{4711, 0, 982, 5};
  EXPECT_EQ(next.format_as_of(7, now), kExample);
  EXPECT_EQ(next.format_as_of(8, now), next.format(now));
  EXPECT_EQ(next.format_as_of(99, now), next.format(now)) << "not kept any more";
  // A table so large that its cursors are numbers, and a smaller one after it.
  std::vector<std::string> many;
  for (std::size_t i = 0; i <= kMaxVectorSlots; ++i) {
    many.push_back("uid-" + std::to_string(i));
  }
  const SlotHistory large = history_of(many, 7);
  const auto book = std::make_shared<SequenceBook>();
  const CursorCodec numbers(kDeployments, shared(large), book);
  EXPECT_TRUE(numbers.is_sequence());
  Components places(many.size(), 3);
  EXPECT_EQ(numbers.decode(numbers.format(places), std::vector<bool>(many.size(), true)).components,
            places);
}

/// A table of shards "shard-0", "shard-1", …
SlotHistory many(std::size_t slots, std::uint32_t generation = 3) {
  std::vector<std::string> uids;
  for (std::size_t i = 0; i < slots; ++i) {
    uids.push_back("shard-" + std::to_string(i));
  }
  return history_of(std::move(uids), generation);
}

TEST(ManySlots, GR_201_AGG516_ACursorSaysAllAtEveryProxy) {
  for (const std::size_t slots : {65U, 92U, 93U, 70U, 1'000U, 1'024U}) {
    // Another process: a table that was read, and a book that knows nothing.
    const CursorCodec here(kDeployments, shared(many(slots)), std::make_shared<SequenceBook>());
    const CursorCodec there(kDeployments, shared(*SlotHistory::from_json(many(slots).to_json())),
                            std::make_shared<SequenceBook>());
    EXPECT_FALSE(here.is_sequence());
    Components components(slots);
    for (std::size_t i = 0; i < slots; ++i) {
      components[i] = i % 7 == 0 ? 0 : kFirstSequence - 1 - i;
    }
    const std::string text = here.format(components);
    EXPECT_EQ(text.size(), std::max<std::size_t>(1'315, 15 + 14 * slots));
    EXPECT_EQ(named_generation(text), 3U);
    const DecodedVersion read = there.decode(text, std::vector<bool>(slots, true));
    EXPECT_EQ(read.kind, VersionClass::kCursor) << slots;
    EXPECT_EQ(read.components, components) << slots;
    EXPECT_EQ(there.format(components), text) << "all proxies mint the same";
  }
  EXPECT_TRUE(CursorCodec(kDeployments, shared(many(1'025)), std::make_shared<SequenceBook>())
                  .is_sequence());
}

TEST(ManySlots, AGG504_CursorsGrowWithTheTableUpToNumbers) {
  std::string last;
  std::vector<std::string> uids;
  SlotHistory history;
  for (std::size_t slots = 1; slots <= 120; ++slots) {
    uids.push_back("shard-" + std::to_string(slots));
    history = *history.changed(shards(uids), static_cast<std::int64_t>(slots));
    const CursorCodec codec(kDeployments, shared(history));
    const Components components(slots, 7);
    std::string text = codec.format(components);
    EXPECT_TRUE(last.empty() || is_newer_version(text, last)) << slots;
    if (slots == 65) {  // what was written under the last table of full width holds on
      const DecodedVersion before = codec.decode(last, std::vector<bool>(slots, true));
      EXPECT_EQ(before.kind, VersionClass::kCursor);
      EXPECT_EQ(before.components.front(), 7U);
      EXPECT_EQ(before.components.back(), 0U);
    }
    if (slots > 64) {  // in the words of an earlier table, of either width
      EXPECT_EQ(
          codec.decode(codec.format_as_of(64, components), std::vector<bool>(slots, true)).kind,
          VersionClass::kCursor);
    }
    last = std::move(text);
  }
}

TEST(ManySlots, AGG517_AComponentWithoutAPlaceMeansAList) {
  const CursorCodec codec(kDeployments, shared(many(80)));
  Components components(80, 5);
  components[9] = ~std::uint64_t{0};
  const std::string text = codec.format(components);
  EXPECT_EQ(text.size(), 1'315U);
  EXPECT_EQ(codec.decode(text, std::vector<bool>(80, true)).kind, VersionClass::kUnknown);
}

TEST(ManySlots, AGG503_OnlyWhatSomebodyCanHaveMadeIsNoFaultOfTheClient) {
  const CursorCodec codec(kDeployments, shared(many(200)));
  const std::vector<bool> members(200, true);
  const std::string good = codec.format(Components(200, 5));
  const auto kind_of = [&](const std::string& text) { return codec.decode(text, members).kind; };
  EXPECT_EQ(kind_of(good), VersionClass::kCursor);
  EXPECT_EQ(kind_of(good + std::string(14, '0')), VersionClass::kUnknown) << "a slot too many";
  EXPECT_EQ(kind_of(good + "0"), VersionClass::kMalformed);
  EXPECT_EQ(kind_of("120" + good.substr(3)), VersionClass::kMalformed) << "of 140 slots";
  EXPECT_EQ(kind_of("114" + std::string(14 * 1'025 + 12, '0')), VersionClass::kMalformed);
  std::string letter = good;
  letter.back() = 'x';
  EXPECT_EQ(kind_of(letter), VersionClass::kMalformed);
  std::string later = good;
  later.replace(3, 6, "000004");
  EXPECT_EQ(kind_of(later), VersionClass::kFuture);
  std::string check = good;
  check[9] = check[9] == '0' ? '1' : '0';
  EXPECT_EQ(kind_of(check), VersionClass::kUnknown);
}

TEST_F(CursorTest, WhenDigitsAreMissingOrTooMany_T57_NothingIsRead) {
  EXPECT_EQ(named_generation(kExample), 7U);
  for (const std::string& bad :
       {std::string(), std::string(kExample.substr(0, 15)), std::string(kExample) + "0",
        "220" + std::string(kExample.substr(3)), "120x00007" + std::string(kExample.substr(9)),
        "120" + std::string(2'060, '0')}) {
    EXPECT_EQ(named_generation(bad), std::nullopt) << bad.substr(0, 40);
  }
  std::string beyond(kExample);
  beyond.replace(15, 20, "99999999999999999999");  // more than 64 bits
  EXPECT_EQ(codec_.decode(beyond, kThree).kind, VersionClass::kUnknown);
  EXPECT_EQ(codec_.decode("99999999999999999999", kThree).kind, VersionClass::kUnknown);
  EXPECT_TRUE(is_newer_version("10", "9"));
  EXPECT_FALSE(is_newer_version("9", "9"));
}

TEST(SlotHistory, WhenShardsComeAndGo_SlotsStayAndAreReused) {
  SlotHistory history = *SlotHistory().changed(shards({"a", "b"}), 1);
  EXPECT_EQ(history.current().generation, 1U);
  EXPECT_FALSE(history.changed(shards({"b", "a"}), 2));
  history = *history.changed(shards({"b"}), 3);
  EXPECT_EQ(history.current().generation, 2U);
  EXPECT_EQ(history.current().uids, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(history.slot_of("a"));
  history = *history.changed(shards({"b", "c", "d"}), 4);
  EXPECT_EQ(history.current().uids, (std::vector<std::string>{"c", "b", "d"}));
  EXPECT_EQ(history.slot_of("c"), 0U);
  // One that leaves while another comes keeps its slot for now.
  history = *history.changed(shards({"b", "c", "e"}), 5);
  EXPECT_EQ(history.current().uids, (std::vector<std::string>{"c", "b", "d", "e"}));
}

TEST(SlotHistory, WhenLabelsChange_GenerationRises) {
  SlotChange change = shards({"a"});
  change.labels["a"] = "region=eu";
  const SlotHistory history = *SlotHistory().changed(change, 1);
  EXPECT_FALSE(history.changed(change, 2));
  change.labels["a"] = "region=us";
  EXPECT_EQ(history.changed(change, 2)->current().generation, 2U);
}

TEST(SlotHistory, WhenWrittenAndRead_T29_NothingIsLost) {
  SlotHistory history = *SlotHistory().changed(shards({"a", "b"}), 1);
  SlotChange change = shards({"b", "c"});
  change.rolled_back = {"b"};
  change.labels["b"] = "x";
  history = *history.changed(change, 9);
  const Expected<SlotHistory> read = SlotHistory::from_json(history.to_json());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->to_json(), history.to_json());
  EXPECT_TRUE(read->rolled_back_since("b", 1));
  EXPECT_FALSE(read->rolled_back_since("b", 2));
}

TEST(SlotHistory, GR_211_WhatLaterProgramsSayStays) {
  const auto history = SlotHistory::from_json(*krm::Json::parse(
      R"({"generations":[{"generation":1,"madeAt":1,"uids":["a"]}],"present":[true],"era":0,)"
      R"("moons":{"of":["mars"]}})"));
  ASSERT_TRUE(history);
  SlotChange change;
  change.present = {"a", "b"};
  const auto changed = history->changed(change, 2);
  const auto fixed = history->fixed(change, 5, 2);
  ASSERT_TRUE(changed && fixed);
  for (const SlotHistory& one : {*changed, *fixed, history->restored(1)}) {
    EXPECT_EQ(one.to_json().at({"moons"})->dump(), R"({"of":["mars"]})");
  }
}

TEST(SlotHistory, WhenThousandShardsChangeOften_AGG509_TheRecordFitsATransaction) {
  std::vector<std::string> uids;
  for (int i = 0; i < 1'000; ++i) {
    uids.push_back("5f0c1f9e-0000-4000-8000-" + std::to_string(100'000'000'000 + i));
  }
  SlotChange change;
  change.present = uids;
  SlotHistory history = *SlotHistory().changed(change, 1);
  for (int i = 0; i < 300; ++i) {
    change.present[static_cast<std::size_t>(i * 7 % 1'000)] =
        "5f0c1f9e-1111-4000-8000-" + std::to_string(100'000'000'000 + i);
    history = *history.changed(change, i + 2);
  }
  const std::string text = history.to_json().dump();
  EXPECT_LT(text.size(), 300'000U);
  const Expected<SlotHistory> read = SlotHistory::from_json(*krm::Json::parse(text));
  ASSERT_TRUE(read);
  for (std::uint32_t generation = 1; generation <= history.current().generation; ++generation) {
    const SlotTable* const table = history.find(generation);
    ASSERT_EQ(table == nullptr, read->find(generation) == nullptr);
    EXPECT_TRUE(table == nullptr || *table == *read->find(generation)) << generation;
  }
}

TEST(SlotHistory, WhenGenerationsRunOut_TheyBeginAnewUnderAnotherCheck) {
  SlotHistory history = history_of({"uid-a"}, kMaxGeneration);
  const std::uint32_t before = cursor_check(kDeployments, history.current().uids, history.era());
  const auto next = history.changed(shards({"uid-a", "uid-b"}), 2);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->current().generation, 1U);
  EXPECT_NE(cursor_check(kDeployments, {"uid-a"}, next->era()), before);
}

TEST(SlotHistory, WhenRecordIsBroken_SaysSo) {
  for (
      const char* text :
      {"{}", R"({"generations":[],"present":[]})",
       R"({"generations":[{"generation":2,"uids":["a"]}],"present":[]})",
       R"({"generations":[{"generation":2,"uids":[]},{"generation":2,"uids":[]}],"present":[]})",
       R"({"generations":[{"generation":0,"uids":[]}],"present":[]})",
       R"({"generations":[{"generation":1,"uids":["a"]},{"generation":2,"set":[[2,"c"]]}],"present":[true]})",
       R"({"generations":[{"generation":1,"uids":["a"]},{"generation":2,"set":[[-1,"c"]]}],"present":[true]})",
       R"({"generations":[{"generation":1,"uids":["a"]},{"generation":2,"set":[[1]]}],"present":[true]})"}) {
    EXPECT_FALSE(SlotHistory::from_json(*krm::Json::parse(text))) << text;
  }
}

TEST(Cursor, WhenShardsChangeAtRandom_T13_CursorsOfOneStreamNeverShrink) {
  std::mt19937 random(7);
  SlotHistory history = *SlotHistory().changed(shards({"s0"}), 1);
  std::vector<std::string> present{"s0"};
  std::map<std::string, std::uint64_t> position;
  std::string last;
  int next = 1;
  for (int step = 0; step < 2'000; ++step) {
    if (random() % 10 == 0) {
      if (present.size() > 1 && random() % 2 == 0) {
        position.erase(present.back());
        present.pop_back();
      } else if (present.size() < 20) {
        present.push_back("s" + std::to_string(next++));
      }
      if (auto changed = history.changed(shards(present), step)) {
        history = std::move(*changed);
      }
    } else {
      position[present[random() % present.size()]] += 2 + random() % 1'000;
    }
    Components components(history.current().uids.size());
    for (const auto& [uid, value] : position) {
      components[*history.slot_of(uid)] = value;
    }
    const CursorCodec codec(kDeployments, shared(history));
    const std::string text = codec.format(components);
    EXPECT_FALSE(is_newer_version(last, text)) << last << " " << text;
    last = text;
    std::vector<bool> members(components.size(), true);
    EXPECT_EQ(codec.decode(text, members).components, components);
  }
}

TEST(SlotHistory, WhenFixedByTheConfiguration_AGG509_T100_MintsWhatItSays) {
  const SlotChange listed = shards({"uid-a", "uid-b", "uid-c"});
  const auto history = SlotHistory().fixed(listed, 7, 100);
  ASSERT_TRUE(history);
  EXPECT_FALSE(history->fixed(listed, 7, 200));
  const CursorCodec deployments({"/clusters/*", "apps", "deployments"}, shared(*history));
  EXPECT_EQ(deployments.format({4711, 0, 982}),
            "120000007830422000000000000000047110000000000000000000000000000000000000982");
  const CursorCodec maps({"/clusters/*", "", "configmaps"}, shared(*history));
  EXPECT_TRUE(maps.format({1, 2, 3}).starts_with("120000007111506"));
}

TEST(SlotHistory, WhenTheConfigurationRaisesTheGeneration_AGG511_CursorsAreCarriedOver) {
  const SlotHistory before = *SlotHistory().fixed(shards({"a", "b"}), 7, 100);
  const std::string cursor = CursorCodec(kDeployments, shared(before)).format({5, 6});
  const auto after = before.fixed(shards({"c", "b", "a"}), 8, 200);
  ASSERT_TRUE(after);
  const DecodedVersion read =
      CursorCodec(kDeployments, shared(*after)).decode(cursor, {true, true, true});
  EXPECT_EQ(read.kind, VersionClass::kCursor);
  EXPECT_EQ(read.components, (Components{0, 6, 5}));
  const auto without = before.fixed(shards({"b"}), 8, 200);
  ASSERT_TRUE(without);
  EXPECT_EQ(CursorCodec(kDeployments, shared(*without)).decode(cursor, {true}).departed,
            (std::vector<std::string>{"a"}));
  // One that goes back cannot be told from another installation.
  const auto older = before.fixed(shards({"a", "b", "c"}), 3, 200);
  ASSERT_TRUE(older);
  EXPECT_EQ(older->find(7), nullptr);
}

}  // namespace
}  // namespace kintsugi::aggregation
