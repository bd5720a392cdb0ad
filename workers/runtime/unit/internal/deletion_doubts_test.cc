#include "workers/runtime/unit/internal/deletion_doubts.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "shards/testing/support.h"
#include "workers/runtime/reflector/object_cache.h"

namespace kintsugi::workers {
namespace {

using shards::testing::FakeServer;
using shards::testing::run_until;

constexpr const char* kNoObject =
    R"({"kind":"Status","code":404,"reason":"NotFound","details":{"name":"a","kind":"things"}})";
constexpr const char* kNoCluster404 = R"({"kind":"Status","code":404,"reason":"NotFound"})";

std::string shown(const std::string& uid) { return R"({"metadata":{"uid":")" + uid + R"("}})"; }

ApiAnswer answer(int status, const std::string& body) {
  ApiAnswer out;
  out.status = status;
  out.body = *krm::Json::parse(body);
  return out;
}

TEST(DeletionDoubts, RT14_OnlyWhoHasTheClusterSaysThatAnObjectWasDeleted) {
  const DoubtedObject object{0, "/a", "a", uid_hash("u1")};
  const auto judge = [&](int status, const std::string& body, Duration asked_for = {}) {
    return judge_deletion(answer(status, body), object, asked_for);
  };
  EXPECT_EQ(judge(200, shown("u1")), Deletion::kLives);
  EXPECT_EQ(judge(200, shown("u2")), Deletion::kDeleted) << "another one of its name";
  EXPECT_EQ(judge(404, kNoObject), Deletion::kDeleted);
  EXPECT_EQ(judge(404, kNoCluster404), Deletion::kUnknown);
  EXPECT_EQ(judge(403, kNoObject), Deletion::kUnknown);
  EXPECT_EQ(judge(503, kNoObject, kNoCluster), Deletion::kUnknown) << "it moves";
  EXPECT_EQ(judge(0, "null", kNoCluster), Deletion::kUnknown);
  EXPECT_EQ(judge(404, kNoCluster404, kNoCluster), Deletion::kDeleted);
  EXPECT_EQ(judge(403, kNoCluster404, kNoCluster), Deletion::kDeleted);
}

class DeletionDoubtsTest : public ::testing::Test {
 protected:
  DeletionDoubtsTest() : server(loop) {
    server.open();
    upstream = net::Upstream::make(loop, FakeServer::upstream(server.url()));
    proxy = std::make_unique<ApiClient>(loop, *upstream, ApiClient::Params{});
    doubts = std::make_unique<DeletionDoubts>(loop, *proxy);
  }
  void doubt(const std::string& name, UnitId unit = 0) {
    doubts->add({unit, "/" + name, name, uid_hash("u1")}, [this, name] { gone.push_back(name); });
  }
  net::Loop loop{"test"};
  FakeServer server;
  std::unique_ptr<net::Upstream> upstream;
  std::unique_ptr<ApiClient> proxy;
  std::unique_ptr<DeletionDoubts> doubts;
  std::vector<std::string> gone;
};

TEST_F(DeletionDoubtsTest, RT14_WhatLivesElsewhereIsForgotten_WhatIsNotAnsweredIsAskedAgain) {
  server.serve("/a", 404, kNoObject);
  server.serve("/b", 200, shown("u1"));
  server.serve("/c", 503, "{}");
  doubt("c");
  doubt("b");
  doubt("a");
  ASSERT_TRUE(run_until(loop, [&] { return doubts->size() == 1; }));
  EXPECT_EQ(gone, (std::vector<std::string>{"a"}));
  server.serve("/c", 200, shown("u3"));
  ASSERT_TRUE(run_until(loop, [&] { return doubts->size() == 0; }));
  EXPECT_EQ(gone, (std::vector<std::string>{"a", "c"}));
}

TEST_F(DeletionDoubtsTest, RT14_AUnitThatIsGoneIsToldNothing) {
  server.serve("/a", 404, kNoObject);
  doubt("a", 1);
  doubt("a", 2);
  doubts->drop(1);
  ASSERT_TRUE(run_until(loop, [&] { return doubts->size() == 0; }));
  EXPECT_EQ(gone.size(), 1U);
}

}  // namespace
}  // namespace kintsugi::workers
