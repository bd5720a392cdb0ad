#include "server/internal/join_service.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "net/x509_maker.h"
#include "server/files.h"
#include "server/join_files.h"

namespace kintsugi::server {
namespace {

using krm::Json;

class JoinServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(make_directories(pki_.folder()));
    ASSERT_TRUE(pki_.ensure({"127.0.0.1"}));
  }
  void TearDown() override { std::filesystem::remove_all(pki_.folder()); }

  std::string token(JoinRole role, std::string name = "far") {
    JoinToken token;
    token.role = role;
    token.name = std::move(name);
    token.hosts = {"10.0.0.7", "far.example"};
    token.ends_at = now_ + 3600;
    const auto made = tokens_.create(token);
    EXPECT_TRUE(made);
    return made.value_or("");
  }
  static std::string body(const std::string& token, const JoinKeys& keys) {
    Json asked = Json::object({{"token", token}});
    for (const auto& [use, request] : keys.request_pem) {
      asked.make({"requests", use}) = request;
    }
    return asked.dump();
  }
  /// Each try from an address of its own: how many one may have is another test's.
  Expected<Json> join(const std::string& text) {
    return service_.join("10.1.0." + std::to_string(++tries_), text);
  }
  Errc code_of(const Expected<Json>& result) { return result ? Errc::kOk : result.error().code(); }

  const Pki pki_{::testing::TempDir() + "kintsugi_join_test." + std::to_string(::getpid())};
  const JoinTokens tokens_{pki_.folder()};
  std::int64_t now_ = std::time(nullptr);
  std::vector<std::string> audit_;
  int tries_ = 0;
  JoinService service_{{pki_.folder(), [] { return std::string("https://root"); },
                        [] { return std::string("https://proxy"); },
                        [this](std::string line) { audit_.push_back(std::move(line)); },
                        [this] { return now_; }}};
};

TEST_F(JoinServiceTest, SE_147_WhatTheBearerBecomesStandsInTheToken) {
  struct Case {
    JoinRole role;
    const char* file;
    std::vector<std::string> uses;
  };
  const Case cases[] = {
      {JoinRole::kShard, "shard-far-client", {"client", "serving"}},
      {JoinRole::kProxy, "kintsugi-proxy", {"client", "request-header", "serving"}},
      {JoinRole::kReviewed, "kintsugi-proxy-reviewed", {"client"}}};
  for (const Case& one : cases) {
    const auto keys = make_join_keys();
    ASSERT_TRUE(keys);
    const auto answer = join(body(token(one.role), *keys));
    ASSERT_TRUE(answer) << answer.error().to_string();
    std::vector<std::string> uses;
    for (const krm::JsonMember& given : answer->find("certificates")->members()) {
      uses.push_back(given.key);
      EXPECT_TRUE(
          net::is_key_of(std::string(given.value.text({"pem"})), keys->key_pem.at(given.key)));
    }
    EXPECT_EQ(uses, one.uses);
    EXPECT_EQ(answer->text({"certificates", "client", "file"}), one.file);
    EXPECT_TRUE(net::is_issued_by(std::string(answer->text({"certificates", "client", "pem"})),
                                  *read_file(pki_.certificate("client-ca"))));
    EXPECT_EQ(answer->text({"root"}), "https://root");
    EXPECT_NE(audit_.back().find("\"code\":201"), std::string::npos);

    JoinPlace place;
    place.layout = {pki_.folder() + "/there-" + one.file};
    const auto next = write_joined(place, *answer, *keys);
    ASSERT_TRUE(next) << next.error().to_string();
    struct stat status {};
    ASSERT_EQ(::stat(Pki(place.layout.pki()).key(one.file).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U);
  }
}

TEST_F(JoinServiceTest, SE_T063_ATokenIsGoodOnceAndInItsTime) {
  const auto keys = make_join_keys();
  ASSERT_TRUE(keys);
  const std::string good = token(JoinRole::kReviewed);
  EXPECT_EQ(code_of(join(body(good, *keys))), Errc::kOk);
  EXPECT_EQ(code_of(join(body(good, *keys))), Errc::kForbidden);
  const std::string late = token(JoinRole::kReviewed);
  now_ += 3600;
  EXPECT_EQ(code_of(join(body(late, *keys))), Errc::kForbidden);
  now_ -= 3600;
  const std::string gone = token(JoinRole::kReviewed);
  ASSERT_TRUE(tokens_.revoke(gone.substr(0, 8)));
  EXPECT_FALSE(tokens_.revoke(gone.substr(0, 8)));
  EXPECT_EQ(code_of(join(body(gone, *keys))), Errc::kForbidden);
  const std::string real = token(JoinRole::kReviewed);
  for (const std::string& wrong :
       {std::string(), std::string("."), real.substr(0, 9), real.substr(0, real.size() - 1),
        real + "0", real.substr(0, 8), "ffffffff" + real.substr(8), std::string(1000, 'a')}) {
    EXPECT_EQ(code_of(join(body(wrong, *keys))), Errc::kForbidden) << wrong;
  }
  EXPECT_EQ(code_of(join(body(real, *keys))), Errc::kOk);
  EXPECT_EQ(audit_.size(), 13U);
  for (const std::string& line : audit_) {
    for (const std::string& secret : {good, late, gone, real}) {
      EXPECT_EQ(line.find(secret.substr(9)), std::string::npos);
    }
  }
  const auto list = tokens_.list();
  ASSERT_TRUE(list);
  EXPECT_EQ(std::count_if(list->begin(), list->end(),
                          [](const JoinToken& one) { return one.used_at != 0; }),
            2);
}

TEST_F(JoinServiceTest, SE_T063_ARequestForMoreIsRefusedAndTheTokenUsedUp) {
  for (const auto& [name, groups] :
       {std::pair<std::string, std::vector<std::string>>{"shard-far", {"system:masters"}},
        {"kcp-admin", {}},
        {"shard-far", {"system:kintsugi:proxy"}},
        {"shard-near", {"system:kintsugi:shard"}}}) {
    auto keys = make_join_keys();
    ASSERT_TRUE(keys);
    const auto asks = net::make_signing_request(name, groups);
    ASSERT_TRUE(asks);
    const std::string one = token(JoinRole::kShard);
    const std::string honest = keys->request_pem["client"];
    keys->request_pem["client"] = asks->request_pem;
    EXPECT_EQ(code_of(join(body(one, *keys))), Errc::kForbidden) << name;
    keys->request_pem["client"] = honest;
    EXPECT_EQ(code_of(join(body(one, *keys))), Errc::kForbidden) << "used up";
  }
  // Who asks for just what he gets may say so.
  auto keys = make_join_keys();
  const auto same = net::make_signing_request("shard-far", {"system:kintsugi:shard"});
  ASSERT_TRUE(keys && same);
  keys->request_pem["client"] = same->request_pem;
  EXPECT_EQ(code_of(join(body(token(JoinRole::kShard), *keys))), Errc::kOk);
  keys->request_pem["client"] = "nonsense";
  EXPECT_EQ(code_of(join(body(token(JoinRole::kShard), *keys))), Errc::kBadRequest);
}

TEST_F(JoinServiceTest, SE_147_FiveTriesAMinuteOfAnAddress) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(code_of(service_.join("10.0.0.1", "{}")), Errc::kForbidden);
  }
  EXPECT_EQ(code_of(service_.join("10.0.0.1", "{}")), Errc::kTooManyRequests);
  EXPECT_EQ(code_of(service_.join("10.0.0.2", "{}")), Errc::kForbidden);
  now_ += 60;
  EXPECT_EQ(code_of(service_.join("10.0.0.1", "{}")), Errc::kForbidden);
  for (int i = 0; i < 2'000; ++i) {
    (void)service_.join("10.9." + std::to_string(i / 250) + "." + std::to_string(i % 250), "{");
  }
  EXPECT_EQ(code_of(service_.join("10.8.0.1", "{")), Errc::kTooManyRequests) << "bounded";
  now_ += 60;
  EXPECT_EQ(code_of(service_.join("10.8.0.1", "{")), Errc::kBadRequest);
}

TEST_F(JoinServiceTest, SE_147_AnAnswerThatNamesOthersFilesIsNone) {
  const auto keys = make_join_keys();
  ASSERT_TRUE(keys);
  const auto answer = join(body(token(JoinRole::kReviewed), *keys));
  ASSERT_TRUE(answer);
  JoinPlace place;
  place.layout = {pki_.folder() + "/bad"};
  for (const char* file : {"../../x", "a/b", "", ".hidden", "client-ca", "a..b", "A"}) {
    Json changed = *answer;
    changed.make({"certificates", "client", "file"}) = file;
    EXPECT_FALSE(write_joined(place, changed, *keys)) << file;
  }
  Json others = *answer;
  others.make({"certificates", "client", "pem"}) = *read_file(pki_.certificate("admin"));
  EXPECT_FALSE(write_joined(place, others, *keys)) << "of another's key";
  EXPECT_FALSE(write_joined(place, Json::object(), *keys));
  EXPECT_FALSE(file_exists(place.layout.pki()));
}

TEST_F(JoinServiceTest, SE_147_ThePinChoosesAmongTheAuthorities) {
  const auto ours = read_file(pki_.certificate("serving-ca"));
  const auto theirs = net::make_ca("theirs");
  ASSERT_TRUE(ours && theirs);
  const std::string hash = net::public_key_hash(*ours);
  EXPECT_EQ(hash.size(), 7U + 64U);
  EXPECT_EQ(pinned_authorities(theirs->certificate_pem + *ours, hash), *ours);
  EXPECT_EQ(pinned_authorities(theirs->certificate_pem, hash), "");
  EXPECT_EQ(pinned_authorities(*ours, ""), "");
  EXPECT_EQ(net::public_key_hash("no PEM"), "");
}

}  // namespace
}  // namespace kintsugi::server
