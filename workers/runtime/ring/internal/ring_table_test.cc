#include "workers/runtime/ring/internal/ring_table.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "workers/runtime/ring/internal/ring_report.h"

namespace kintsugi::workers {
namespace {

RingTable sample() {
  RingTable out;
  out.generation = 9;
  out.members = {{"a", "u1", RingTableMember::State::kActive},
                 {"b", "u2", RingTableMember::State::kLeaving},
                 {"c", "u3", RingTableMember::State::kUnconfirmed}};
  for (std::size_t p = 0; p < kRingPartitions; ++p) {
    out.slots[p] = {static_cast<std::uint16_t>(p % 3), kNoMember,
                    static_cast<std::uint32_t>(p + 1)};
  }
  out.slots[1] = {kNoMember, 2, 0x01020304};
  return out;
}

TEST(RingTable, RT62_TextIsTheDocumentedOneAndComesBack) {
  const RingTable table = sample();
  const std::string text = table.encode();
  const Expected<RingTable> back = RingTable::parse(text);
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(*back, table);
  const Expected<krm::Json> json = krm::Json::parse(text);
  ASSERT_TRUE(json);
  EXPECT_EQ(json->at({"members"})->items()[1].dump(), R"({"id":"b","state":"leaving","uid":"u2"})");
  const auto bytes = base64_decode(json->text({"partitions"}));
  ASSERT_TRUE(bytes);
  ASSERT_EQ(bytes->size(), 8'192U);
  EXPECT_EQ(hex_encode(bytes->substr(0, 16)),
            "0000ffff01000000"
            "ffff020004030201");
  const krm::Json object = ring_config_map("ring-x", "7", table);
  EXPECT_EQ(ring_text(object), text);
  EXPECT_EQ(object.text({"metadata", "resourceVersion"}), "7");
}

TEST(RingTable, RT65_WhatWaitsForAnotherOwnerIsCounted) {
  EXPECT_EQ(RingTable().moving(), 0U);
  EXPECT_EQ(sample().moving(), 1U);
}

TEST(RingTable, Section18_BadTextIsRefused) {
  const Expected<krm::Json> good = krm::Json::parse(sample().encode());
  ASSERT_TRUE(good);
  const auto refused = [&good](auto change) {
    krm::Json json = *good;
    change(json);
    const Expected<RingTable> table = RingTable::parse(json.dump());
    return !table && table.error().code() == Errc::kCorrupt && !table.error().message().empty();
  };
  EXPECT_TRUE(RingTable::parse(good->dump()));
  EXPECT_FALSE(RingTable::parse(""));
  EXPECT_FALSE(RingTable::parse("[]"));
  EXPECT_TRUE(refused([](krm::Json& j) { j["version"] = 2; }));
  EXPECT_TRUE(refused([](krm::Json& j) { j["version"] = "1"; }));
  EXPECT_TRUE(refused([](krm::Json& j) { j["generation"] = 0; }));
  EXPECT_TRUE(refused([](krm::Json& j) { j["generation"] = -1; }));
  EXPECT_TRUE(refused([](krm::Json& j) { j["generation"] = INT64_MAX; }));
  EXPECT_TRUE(refused([](krm::Json& j) { j["members"] = nullptr; }));
  EXPECT_TRUE(refused([](krm::Json& j) { j["members"].edit_items().pop_back(); }));
  EXPECT_TRUE(refused([](krm::Json& j) { j["members"].edit_items()[0]["uid"] = "u2"; }));
  EXPECT_TRUE(refused([](krm::Json& j) { j["members"].edit_items()[0]["state"] = "odd"; }));
  EXPECT_TRUE(refused([](krm::Json& j) { j["members"].edit_items()[0].erase("id"); }));
  EXPECT_TRUE(refused([](krm::Json& j) { j["partitions"] = "%%"; }));
  EXPECT_TRUE(refused([](krm::Json& j) { j["partitions"] = base64_encode("short"); }));
  EXPECT_TRUE(
      refused([](krm::Json& j) { j["partitions"] = base64_encode(std::string(8'200, '\0')); }));
  EXPECT_TRUE(refused([](krm::Json& j) {
    j["partitions"] = base64_encode(std::string(8'192, '\xFF'));  // the last epoch
  }));
  krm::Json many = *good;
  for (int i = 0; i < 1'030; ++i) {
    const std::string id = "m" + std::to_string(i);
    many["members"].push_back(krm::Json::object({{"id", id}, {"uid", id}, {"state", "active"}}));
  }
  EXPECT_FALSE(RingTable::parse(many.dump()));
}

TEST(RingTable, Section18_EpochsAndGenerationsOnlyRise) {
  const RingTable before = sample();
  RingTable next = before;
  EXPECT_FALSE(check_successor(before, next));
  next.generation = 8;
  EXPECT_FALSE(check_successor(before, next));
  next.generation = 10;
  EXPECT_TRUE(check_successor(before, next));
  EXPECT_TRUE(check_successor(RingTable(), before));
  next.slots[700].epoch -= 1;
  EXPECT_FALSE(check_successor(before, next));
  next = before;
  next.generation = 10;
  next.slots[700].owner = next.slots[700].owner == 0 ? 1 : 0;
  EXPECT_FALSE(check_successor(before, next));
  next.slots[700].epoch += 1;
  EXPECT_TRUE(check_successor(before, next));
  // Members may change places, but not become others.
  next = before;
  next.generation = 10;
  std::swap(next.members[0], next.members[1]);
  EXPECT_FALSE(check_successor(before, next));
  for (RingSlot& slot : next.slots) {
    slot.owner = slot.owner == kNoMember || slot.owner == 2
                     ? slot.owner
                     : static_cast<std::uint16_t>(1 - slot.owner);
  }
  EXPECT_TRUE(check_successor(before, next));
  next.members[0].uid = "new";
  EXPECT_FALSE(check_successor(before, next));
}

TEST(RingTable, RT61_NamesOfLeases) {
  EXPECT_EQ(ring_name("delivery"), "ring-delivery");
  EXPECT_EQ(member_lease_name("delivery", "h-1-ab"), "ring-delivery-h-1-ab");
  EXPECT_EQ(member_identity("delivery", "ring-delivery-h-1-ab"), "h-1-ab");
  EXPECT_EQ(member_identity("delivery", coordinator_lease_name("delivery")), "");
  EXPECT_EQ(member_identity("delivery", "ring-network-h"), "");
  EXPECT_EQ(member_identity("delivery", "ring-delivery"), "");
  EXPECT_EQ(member_identity("delivery", "ring-delivery-"), "");
}

TEST(RingReport, RT65_GoesThroughTheLeaseAndBadTextReadsAsNothing) {
  RingReport report;
  report.ack = 5;
  report.seen = 6;
  report.rejected = 4;
  report.epoch = 77;
  report.leaving = true;
  report.raise = {{1'023, 12}, {0, 3}};
  LeaseRecord lease;
  lease.annotations = {{std::string(kRingAckAnnotation), "5"},
                       {std::string(kRingReportAnnotation), report.encode()}};
  EXPECT_EQ(RingReport::read(lease), report);
  for (const std::string_view text :
       {std::string_view(""), std::string_view("{"), std::string_view("[1]"),
        std::string_view(R"({"seen":-1,"epoch":4294967295,"raise":[[1024,1],[1],[-1,2],5]})"),
        std::string_view(R"({"seen":9007199254740991,"leaving":"yes","raise":{}})")}) {
    lease.annotations = {{std::string(kRingAckAnnotation), "-5"},
                         {std::string(kRingReportAnnotation), std::string(text)}};
    EXPECT_EQ(RingReport::read(lease), RingReport()) << text;
  }
}

}  // namespace
}  // namespace kintsugi::workers
