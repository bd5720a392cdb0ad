#include "kinds/controllers/internal/token_secrets.h"

#include "apiserver/testing/controller_server.h"
#include "base/strings.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;

class TokenSecretsTest : public apiserver::ControllerTest {
 protected:
  void SetUp() override {
    TokenSecretsParams params;
    params.root_ca_pem = "PEM";
    params.now = [] { return std::int64_t{1'000}; };
    params.issue = [this](const auth::ServiceAccountClaims& claims) -> Expected<std::string> {
      claims_ = claims;
      ++issued_;
      return "token-of-" + claims.name;
    };
    controller_ = std::make_unique<TokenSecrets>(context(), std::move(params));
    controller_->start();
  }
  static apiserver::ObjectKey account(const char* name) {
    return {"c", "", "serviceaccounts", "t1", name};
  }
  static apiserver::ObjectKey secret(const char* name) { return {"c", "", "secrets", "t1", name}; }
  std::string put_secret(const char* name, const char* account_name) {
    return server_.put(secret(name),
                       std::string(R"({"type":"kubernetes.io/service-account-token","metadata":)"
                                   R"({"annotations":{"kubernetes.io/service-account.name":")") +
                           account_name + "\"}}}");
  }
  std::string data(const char* name, const char* key) {
    const Json* object = server_.find(secret(name));
    return object == nullptr ? "absent"
                             : base64_decode(object->text({"data", key})).value_or("bad base64");
  }

  std::unique_ptr<TokenSecrets> controller_;
  auth::ServiceAccountClaims claims_;
  int issued_ = 0;
};

TEST_F(TokenSecretsTest, WhenMade_AM332_IsFilledOnce) {
  const std::string account_uid = server_.put(account("robot"), "{}");
  const std::string uid = put_secret("s", "robot");
  server_.run(*controller_);
  EXPECT_EQ(data("s", "token"), "token-of-robot");
  EXPECT_EQ(data("s", "ca.crt"), "PEM");
  EXPECT_EQ(data("s", "namespace"), "t1");
  EXPECT_EQ(server_.find(secret("s"))
                ->text({"metadata", "annotations", "kubernetes.io/service-account.uid"}),
            account_uid);
  EXPECT_EQ(claims_.uid, account_uid);
  EXPECT_EQ(claims_.cluster, "c");
  EXPECT_EQ(claims_.bound_kind, "Secret");
  EXPECT_EQ(claims_.bound_uid, uid);
  EXPECT_GT(claims_.expires_at, 1'000 + std::int64_t{50} * 365 * 86'400);
  EXPECT_EQ(issued_, 1);
  controller_->add_cluster("c");
  server_.run(*controller_);
  EXPECT_EQ(issued_, 1);
}

TEST_F(TokenSecretsTest, WhenTheAccountGoes_AM332_ItsTokenSecretsGo) {
  server_.put(account("robot"), "{}");
  server_.put(account("other"), "{}");
  put_secret("a", "robot");
  put_secret("b", "other");
  server_.put(secret("plain"), R"({"type":"Opaque","metadata":{"annotations":{)"
                               R"("kubernetes.io/service-account.name":"robot"}}})");
  server_.run(*controller_);
  server_.erase(account("robot"));
  server_.run(*controller_);
  EXPECT_EQ(server_.find(secret("a")), nullptr);
  EXPECT_NE(server_.find(secret("b")), nullptr);
  EXPECT_NE(server_.find(secret("plain")), nullptr);
}

TEST_F(TokenSecretsTest, WhenTheAccountIsAbsentOrAnother_AM332_TheSecretGoes) {
  put_secret("early", "nobody");
  server_.run(*controller_);
  EXPECT_EQ(server_.find(secret("early")), nullptr);
  server_.put(account("robot"), "{}");
  put_secret("s", "robot");
  server_.run(*controller_);
  server_.objects.erase(account("robot").pack());
  Json again = Json::object();
  again.make({"metadata", "uid"}) = "another";
  server_.objects.emplace(account("robot").pack(), again);
  controller_->add_cluster("c");
  server_.run(*controller_);
  EXPECT_EQ(server_.find(secret("s")), nullptr);
}

}  // namespace
}  // namespace kintsugi::kinds
