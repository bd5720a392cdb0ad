#include "server/internal/shard_credentials.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include "server/files.h"
#include "server/shard_files.h"

namespace kintsugi::server {
namespace {

class ShardCredentialsTest : public ::testing::Test {
 protected:
  ShardCredentialsTest() {
    char name[] = "/tmp/kintsugi-credentials-XXXXXX";
    layout.dir = ::mkdtemp(name);
    EXPECT_TRUE(make_directories(layout.pki()));
    EXPECT_TRUE(Pki(layout.pki()).ensure({"127.0.0.1"}));
  }
  ~ShardCredentialsTest() override { std::filesystem::remove_all(layout.dir); }
  [[nodiscard]] ShardCredentials make(ShardRevocations lists = {}) const {
    return ShardCredentials(layout, "west", std::move(lists));
  }
  Layout layout;
};

TEST_F(ShardCredentialsTest, WhenEnsured_EverythingLoadsAndHasAnEnd) {
  const ShardCredentials credentials = make();
  EXPECT_FALSE(credentials.load_serving()) << "there is no serving certificate yet";
  ASSERT_TRUE(credentials.ensure({"127.0.0.1"}));
  const auto serving = credentials.load_serving();
  ASSERT_TRUE(serving) << serving.error().to_string();
  EXPECT_NE(serving->tls, nullptr);
  EXPECT_FALSE(serving->account_keys.empty());
  EXPECT_TRUE(credentials.load_outgoing());
  EXPECT_TRUE(credentials.root_ca());
  std::set<std::string> names;
  for (const CertificateEnd& end : credentials.ends()) {
    EXPECT_GT(end.at, 0) << end.name;
    names.insert(end.use + " " + end.name);
  }
  EXPECT_EQ(names, (std::set<std::string>{"ca client-ca", "ca requestheader-ca", "ca serving-ca",
                                          "client kintsugi-proxy", "client shard-admin",
                                          "client shard-west-client", "serving shard-west"}));
}

TEST_F(ShardCredentialsTest, WhenFollowed_EveryFileOfTheSetIsAmongThem) {
  const ShardCredentials credentials = make({"/crl/client", "/crl/header", "/crl/backend", {}});
  ASSERT_TRUE(credentials.ensure({"127.0.0.1"}));
  ASSERT_TRUE(make().load_serving()) << "makes the account key";
  const std::vector<std::string> followed = credentials.followed();
  const auto follows = [&](const std::string& path) {
    return std::find(followed.begin(), followed.end(), path) != followed.end();
  };
  EXPECT_TRUE(follows("/crl/client"));
  EXPECT_TRUE(follows("/crl/header"));
  EXPECT_TRUE(follows(account_key_file(layout)));
  for (const std::string& path : make().followed()) {
    EXPECT_TRUE(file_exists(path)) << path;
    EXPECT_TRUE(follows(path)) << path;
  }
}

TEST_F(ShardCredentialsTest, WhenAListIsMissing_NothingOfTheSetIsTaken) {
  const ShardCredentials credentials = make({layout.dir + "/none.pem", "", "", {}});
  ASSERT_TRUE(credentials.ensure({"127.0.0.1"}));
  const auto serving = credentials.load_serving();
  ASSERT_FALSE(serving);
  EXPECT_EQ(serving.error().code(), Errc::kConfig);
  EXPECT_NE(serving.error().message().find("none.pem"), std::string_view::npos);
  EXPECT_TRUE(credentials.load_outgoing()) << "has a list of its own";
}

}  // namespace
}  // namespace kintsugi::server
