#include "store/etcd/etcd_members.h"

#include <gtest/gtest.h>

#include "store/etcd/testing/etcd_raw.h"
#include "store/testing/etcd_replica.h"

namespace kintsugi::store {
namespace {

class EtcdMembersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (etcd_program().empty()) {
      GTEST_SKIP() << "no etcd on this machine";
    }
  }
  static std::unique_ptr<EtcdMembers> open(const std::vector<std::string>& urls) {
    EtcdParams params;
    params.endpoints = urls;
    auto opened = EtcdMembers::open(std::move(params));
    EXPECT_TRUE(opened) << opened.error().to_string();
    return std::move(*opened);
  }
};

TEST_F(EtcdMembersTest, GR_126_AFileIsSmallerAfterwards) {
  Replica replica(test_etcd().url(), "/defragmented");
  for (int i = 0; i < 16; ++i) {
    write(*replica, put("large-" + std::to_string(i), std::string(500'000, 'x')));
    write(*replica, erase("large-" + std::to_string(i)));
  }
  ASSERT_TRUE(compact_raw(test_etcd().url(), synchronized(*replica)));
  const auto etcd = open({test_etcd().url()});
  const auto before = etcd->look();
  ASSERT_TRUE(before) << before.error().to_string();
  ASSERT_EQ(before->size(), 1U);
  EXPECT_TRUE(before->front().is_leader);
  EXPECT_TRUE(etcd->others()->empty());
  const auto done = etcd->defragment(test_etcd().url());
  ASSERT_TRUE(done) << done.error().to_string();
  EXPECT_LT(etcd->look()->front().bytes, before->front().bytes);
  write(*replica, put("after", "1"));
  EXPECT_EQ(synchronized(*replica), replica->get("after")->modified);
}

TEST_F(EtcdMembersTest, GR_126_AMemberThatIsAwayIsNamed) {
  const std::string away = "http://127.0.0.1:1";
  const auto etcd = open({test_etcd().url(), away});
  const auto found = etcd->look();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code(), Errc::kUnavailable);
  EXPECT_NE(found.error().message().find(away), std::string::npos);
}

}  // namespace
}  // namespace kintsugi::store
