#include "workers/runtime/journal/internal/journal_row.h"

#include <gtest/gtest.h>

#include <random>

#include "workers/runtime/journal/internal/crc32c.h"

namespace kintsugi::workers {
namespace {

std::string reason_of(const JournalKey& key) {
  std::string bytes = "before";
  const auto result = append_journal_key(bytes, key);
  EXPECT_TRUE(result || bytes == "before");
  return result ? "" : result.error().detail().causes.at(0).reason;
}

TEST(JournalRow, RT71_CrcIsCastagnolisInBothForms) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);  // RFC 3720 and everybody else
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c("6789", crc32c("12345")), 0xE3069283U);
  std::mt19937 random(7);
  for (std::size_t size = 0; size < 100; ++size) {
    std::string bytes(size, '\0');
    for (char& c : bytes) {
      c = static_cast<char>(random());
    }
    EXPECT_EQ(crc32c(bytes, 99), internal::crc32c_by_table(bytes, 99)) << size;
  }
}

TEST(JournalRow, RT71_KeysAreTheThreeNamesAndSortAsThey) {
  std::string a;
  std::string b;
  ASSERT_TRUE(append_journal_key(a, {"c", "ns", "name"}));
  EXPECT_EQ(a, std::string("c\0ns\0name", 9));
  ASSERT_TRUE(append_journal_key(b, {"c1", "", "n"}));
  EXPECT_EQ(b, std::string("c1\0\0n", 5));
  EXPECT_LT(a, b);
  EXPECT_EQ(split_journal_key(a), (JournalKey{"c", "ns", "name"}));
  EXPECT_EQ(split_journal_key(b), (JournalKey{"c1", "", "n"}));
  for (const std::string_view broken :
       {std::string_view(""), std::string_view("c"), std::string_view("c\0n", 3),
        std::string_view("\0\0n", 3), std::string_view("c\0\0", 3),
        std::string_view("c\0n\0m\0", 6)}) {
    EXPECT_FALSE(split_journal_key(broken));
  }
}

TEST(JournalRow, RT71_TooLongNamesAreRefusedNeverCut) {
  const std::string name253(253, 'n');
  EXPECT_EQ(reason_of({"c", name253, name253}), "");    // 509
  EXPECT_EQ(reason_of({"ccc", name253, name253}), "");  // 511
  EXPECT_EQ(reason_of({"cccc", name253, name253}), "NameTooLong");
  EXPECT_EQ(reason_of({"c", "", name253 + "n"}), "NameTooLong");
  EXPECT_EQ(reason_of({"c", name253 + "n", "n"}), "NameTooLong");
  EXPECT_EQ(reason_of({"", "ns", "n"}), "NameInvalid");
  EXPECT_EQ(reason_of({"c", "ns", ""}), "NameInvalid");
  EXPECT_EQ(reason_of({std::string_view("c\0", 2), "", "n"}), "NameInvalid");
  EXPECT_EQ(reason_of({"c", std::string_view("\0", 1), "n"}), "NameInvalid");
  EXPECT_EQ(reason_of({"c", "", std::string_view("a\0b", 3)}), "NameInvalid");
}

TEST(JournalRow, RT71_AValueIsVersionCrcEpochRvPayload) {
  std::string bytes = "x";
  ASSERT_TRUE(append_journal_row(bytes, "key", {0x0102030405060708, "rv", "pay"}));
  ASSERT_EQ(bytes.size(), 1 + kRowHeader + 2 + 3);
  EXPECT_EQ(bytes[1], 1);
  EXPECT_EQ(bytes.substr(6, 8), "\x08\x07\x06\x05\x04\x03\x02\x01");
  EXPECT_EQ(bytes.substr(14), std::string("\x02\0rvpay", 7));
  const auto row = parse_journal_row("key", std::string_view(bytes).substr(1));
  ASSERT_TRUE(row);
  EXPECT_EQ(row->epoch, 0x0102030405060708U);
  EXPECT_EQ(row->rv, "rv");
  EXPECT_EQ(row->payload, "pay");
}

TEST(JournalRow, RT71_EveryFlippedBitAndEveryCutIsSeen) {
  std::string bytes;
  ASSERT_TRUE(append_journal_row(bytes, "key", {7, "12", "payload"}));
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const auto row = parse_journal_row("key", flipped);
    ASSERT_FALSE(row) << bit;
    EXPECT_EQ(row.error().code(), Errc::kCorrupt);
    EXPECT_EQ(row.error().message().substr(0, 6), bit < 8 ? "schema" : "checks");
  }
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(parse_journal_row("key", std::string_view(bytes).substr(0, size))) << size;
  }
  EXPECT_FALSE(parse_journal_row("other", bytes));
}

TEST(JournalRow, RT71_WhatIsTooLargeIsRefused) {
  std::string bytes;
  EXPECT_FALSE(append_journal_row(bytes, "k", {0, std::string(kMaxRowRv + 1, '1'), ""}));
  EXPECT_FALSE(append_journal_row(bytes, "k", {0, "", std::string(kMaxRowPayload + 1, 'p')}));
  EXPECT_EQ(bytes, "");
  EXPECT_TRUE(append_journal_row(
      bytes, "k", {0, std::string(kMaxRowRv, '1'), std::string(kMaxRowPayload, 'p')}));
  EXPECT_TRUE(parse_journal_row("k", bytes));
}

}  // namespace
}  // namespace kintsugi::workers
