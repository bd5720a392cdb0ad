#include "store/etcd/wire/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/strings.h"
#include "krm/protobuf_wire.h"

// Bytes as protoc makes them of etcd's rpc.proto.
namespace kintsugi::store::etcd {
namespace {

std::string hex(const std::string& bytes) { return hex_encode(bytes); }

std::string header_of(std::uint64_t revision) {
  std::string header;
  krm::put_number(header, 1, 7);
  krm::put_number(header, 2, 8);
  krm::put_number(header, 3, revision);
  krm::put_number(header, 4, 2);
  return header;
}

TEST(Messages, GR_406_KeysThatGoWithALease) {
  EXPECT_EQ(hex(encode_put("k", {}, 300)),
            "0a016b"
            "18ac02");
  EXPECT_EQ(hex(encode_lease_grant(3'600)), "08901c");
  EXPECT_EQ(hex(encode_lease_revoke(300)), "08ac02");
  std::string answer;
  krm::put_number(answer, 2, 300);
  krm::put_number(answer, 3, 3'600);
  std::uint64_t lease = 0;
  EXPECT_TRUE(decode_lease_grant(answer, lease));
  EXPECT_EQ(lease, 300U);
  EXPECT_FALSE(decode_lease_grant("\x12", lease));
}

TEST(Messages, RequestsAreTheBytesThatEtcdReads) {
  RangeRequest range;
  range.key = "a";
  range.range_end = "b";
  range.limit = 500;
  range.revision = 9;
  range.keys_only = true;
  EXPECT_EQ(hex(encode(range)),
            "0a0161"
            "120162"
            "18f403"
            "2009"
            "4001");
  range = {};
  range.key = "a";
  range.count_only = true;
  range.serializable = true;
  EXPECT_EQ(hex(encode(range)),
            "0a0161"
            "3801"
            "4801");

  TxnRequest txn;
  txn.compares = {{"k", 0}, {"l", 5}};
  txn.success = {{TxnOp::Kind::kPut, "k", "v", 0}, {TxnOp::Kind::kDelete, "l", {}, 0}};
  txn.failure = {{TxnOp::Kind::kRange, "k", {}, 0}, {TxnOp::Kind::kRead, "l", {}, 3}};
  EXPECT_EQ(hex(encode(txn)),
            "0a07"
            "1002"
            "1a016b"
            "3000"
            "0a07"
            "1002"
            "1a016c"
            "3005"
            "1208"
            "1206"
            "0a016b"
            "120176"
            "1205"
            "1a03"
            "0a016c"
            "1a07"
            "0a05"
            "0a016b"
            "4001"
            "1a07"
            "0a05"
            "0a016c"
            "2003");

  WatchCreate watch{"a", "b", 4, true};
  EXPECT_EQ(hex(encode(watch)),
            "0a0a"
            "0a0161"
            "120162"
            "1804"
            "4001");
  EXPECT_EQ(hex(encode_progress_request()), "1a00");
  EXPECT_EQ(hex(encode_put("k", "v")),
            "0a016b"
            "120176");
  EXPECT_EQ(hex(encode_compaction(300)), "08ac02");
  EXPECT_EQ(hex(encode_authenticate("u", "p")),
            "0a0175"
            "120170");
  EXPECT_EQ(hex(encode_alarm(2, {9, 1})),
            "0802"
            "1009"
            "1801");
}

TEST(Messages, AnswersAreRead) {
  std::string kv;
  krm::put_bytes(kv, 1, "k");
  krm::put_number(kv, 2, 3);
  krm::put_number(kv, 3, 5);
  krm::put_number(kv, 4, 2);
  krm::put_bytes(kv, 5, "v");
  krm::put_number(kv, 6, 99);  // a lease: nobody's here
  std::string range;
  krm::put_bytes(range, 1, header_of(12));
  krm::put_bytes(range, 2, kv);
  krm::put_number(range, 3, 1);
  krm::put_number(range, 4, 44);
  RangeResponse out;
  ASSERT_TRUE(decode(range, out));
  EXPECT_EQ(out.header.revision, 12U);
  ASSERT_EQ(out.kvs.size(), 1U);
  EXPECT_EQ(out.kvs[0].key, "k");
  EXPECT_EQ(out.kvs[0].value, "v");
  EXPECT_EQ(out.kvs[0].create_revision, 3U);
  EXPECT_EQ(out.kvs[0].mod_revision, 5U);
  EXPECT_TRUE(out.more);
  EXPECT_EQ(out.count, 44U);

  std::string op;
  krm::put_bytes(op, 1, range);
  std::string txn;
  krm::put_bytes(txn, 1, header_of(13));
  krm::put_bytes(txn, 3, op);
  TxnResponse failed;
  ASSERT_TRUE(decode(txn, failed));
  EXPECT_FALSE(failed.succeeded);
  ASSERT_EQ(failed.ranges.size(), 1U);
  EXPECT_EQ(failed.ranges[0].kvs.at(0).mod_revision, 5U);

  std::string event;
  krm::put_number(event, 1, 1);
  krm::put_bytes(event, 2, kv);
  std::string watch;
  krm::put_bytes(watch, 1, header_of(14));
  krm::put_number(watch, 2, ~std::uint64_t{0});  // a watch id of -1
  krm::put_number(watch, 7, 1);
  krm::put_bytes(watch, 11, event);
  WatchResponse watched;
  ASSERT_TRUE(decode(watch, watched));
  EXPECT_TRUE(watched.fragment);
  ASSERT_EQ(watched.events.size(), 1U);
  EXPECT_TRUE(watched.events[0].is_delete);
  EXPECT_EQ(watched.events[0].kv.mod_revision, 5U);
}

TEST(Messages, CutAnswers_AreMalformedOrShorter) {
  std::string kv;
  krm::put_bytes(kv, 1, "key");
  krm::put_number(kv, 3, 5);
  std::string range;
  krm::put_bytes(range, 1, header_of(12));
  krm::put_bytes(range, 2, kv);
  for (std::size_t size = 0; size < range.size(); ++size) {
    RangeResponse out;
    if (decode(std::string_view(range).substr(0, size), out)) {
      EXPECT_TRUE(out.kvs.empty()) << size;
    }
  }
  RangeResponse out;
  EXPECT_FALSE(decode("\x0b", out)) << "a group";
}

TEST(Messages, EndOfAPrefix) {
  EXPECT_EQ(prefix_end("/a/"), "/a0");
  EXPECT_EQ(prefix_end("a\xff"), "b");
}

}  // namespace
}  // namespace kintsugi::store::etcd
