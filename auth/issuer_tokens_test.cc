#include "auth/issuer_tokens.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "base/time.h"
#include "net/testing/support.h"

namespace kintsugi::auth {
namespace {

using krm::Json;
using net::testing::Certificates;
using net::testing::must;
using net::testing::run_until;

/// The server of an issuer: its two documents.
class IssuerServer final : public http::Handler {
 public:
  explicit IssuerServer(net::Loop& loop) {
    net::ListenerParams params;
    params.tls = Certificates::server_tls();
    listener_ = must(net::Listener::open(loop, params, *this));
    url = "https://127.0.0.1:" + std::to_string(listener_->port()) + "/tenant";
    issuer = url;
  }
  std::unique_ptr<http::RequestHandler> on_request(http::RequestHead head,
                                                   http::ResponseStream& stream) noexcept override {
    ++requests;
    Json body;
    if (head.target == "/tenant/.well-known/openid-configuration") {
      body = Json::object({{"issuer", Json(issuer)}, {"jwks_uri", Json(url + "/keys?v=1")}});
    } else if (head.target == "/tenant/keys?v=1") {
      body["keys"] = Json::array();
      for (const auto& key : keys) {
        body["keys"].push_back(key->jwk());
      }
    }
    const std::string text = body.dump();
    http::HeaderList headers;
    headers.add("content-length", std::to_string(text.size()));
    const bool fails = down || requests <= failing || body.is_null();
    stream.send_head(fails ? 503 : 200, headers, false);
    stream.send_data(text, true);
    struct Nothing final : http::RequestHandler {
      void on_data(std::string_view, bool) noexcept override {}
      void on_close(Errc) noexcept override {}
    };
    return std::make_unique<Nothing>();
  }

  std::string url, issuer;
  JwtKeys keys{*JwtKey::generate()};
  bool down = false;
  int requests = 0;
  int failing = 0;  ///< so many of the first

 private:
  std::unique_ptr<net::Listener> listener_;
};

class IssuerTokensTest : public ::testing::Test {
 protected:
  IssuerTokensTest() : server(loop) {}

  static std::shared_ptr<const JwtIssuer> issuer(const std::string& url,
                                                 const std::string& prefix = "o:") {
    JwtIssuerConfig config;
    config.url = url;
    config.ca_pem = Certificates::get().ca.certificate_pem;
    config.audiences = {"us"};
    config.username = {"sub", "", prefix};
    std::vector<Cause> causes;
    auto made = JwtIssuer::make(std::move(config), "jwt[0]", causes);
    EXPECT_TRUE(causes.empty());
    return made;
  }
  /// Tokens wait for as long as fetches go on.
  static IssuerTokens::Limits patient() {
    IssuerTokens::Limits limits;
    limits.wait = seconds(60);
    return limits;
  }
  void make(bool eager = false, IssuerTokens::Limits limits = {}) {
    tokens = std::make_unique<IssuerTokens>(loop, JwtIssuers{issuer(server.url)}, eager, limits);
  }
  [[nodiscard]] std::string token(const JwtKey& key, const std::string& user = "ann",
                                  std::int64_t age = 0) const {
    return *sign_jwt(Json::object({{"iss", Json(server.url)},
                                   {"aud", "us"},
                                   {"sub", Json(user)},
                                   {"exp", Json(unix_seconds() + 100 - age)}}),
                     key);
  }
  /// The user, "none" for nobody's token, else the error.
  std::string ask(const std::string& text) {
    std::optional<std::string> answer;
    tokens->authenticate_token(std::make_shared<const Bearer>(text), {}, "", [&](auto result) {
      answer = !result    ? std::string(errc_name(result.error().code()))
               : !*result ? "none"
                          : (*result)->user.name;
    });
    run_until(loop, [&] { return answer.has_value(); });
    return *answer;
  }

  net::Loop loop{"test"};
  IssuerServer server;
  std::unique_ptr<IssuerTokens> tokens;
};

TEST_F(IssuerTokensTest, WhenATokenHolds_ItsKeysAreFetchedOnceAndItIsRemembered) {
  make();
  EXPECT_EQ(server.requests, 0);
  const std::string good = token(*server.keys[0]);
  EXPECT_EQ(ask(good), "o:ann");
  EXPECT_EQ(ask(good), "o:ann");
  EXPECT_EQ(ask(token(*server.keys[0], "bob")), "o:bob");
  EXPECT_EQ(server.requests, 2);
  EXPECT_EQ(ask("opaque"), "none");
  EXPECT_EQ(ask(*sign_jwt(Json::object({{"iss", "https://other.example"}}), *server.keys[0])),
            "none");
  EXPECT_EQ(ask(token(*server.keys[0], "ann", 200)), "Unauthorized");
  EXPECT_EQ(ask(good + "x"), "Unauthorized");
}

TEST_F(IssuerTokensTest, FP128_WhileKeysWereNeverFetched_IsUnavailableAndThenWorks) {
  server.down = true;
  make(true, patient());
  const std::string good = token(*server.keys[0]);
  EXPECT_EQ(ask(good), "Unavailable");
  EXPECT_EQ(server.requests, 4) << "tries that follow closely, and no more";
  EXPECT_EQ(ask("opaque"), "none");
  server.down = false;
  EXPECT_TRUE(run_until(loop, [&] { return server.requests >= 6; }));
  EXPECT_EQ(ask(good), "o:ann");
}

TEST_F(IssuerTokensTest, FP128_WhenTheFirstFetchesFailAtOnce_TokensWaitForTheNext) {
  for (const bool eager : {false, true}) {
    server.requests = 0;
    server.failing = 3;
    make(eager, patient());
    EXPECT_EQ(ask(token(*server.keys[0])), "o:ann");
    EXPECT_EQ(server.requests, 5);
  }
}

TEST_F(IssuerTokensTest, FP128_WhenIssuersChange_KeysOfTheOthersStay) {
  make();
  EXPECT_EQ(ask(token(*server.keys[0])), "o:ann");
  server.down = true;
  const std::string second = "https://127.0.0.1:1/second";
  const auto change = [&](const JwtIssuers& issuers) {
    tokens =
        std::make_unique<IssuerTokens>(loop, issuers, true, IssuerTokens::Limits(), tokens.get());
  };
  change({issuer(second), issuer(server.url)});
  EXPECT_EQ(ask(token(*server.keys[0], "bob")), "o:bob");
  change({issuer(server.url, "new:")});
  EXPECT_EQ(ask(token(*server.keys[0], "bob")), "new:bob") << "by the rules of now";
  change({issuer(second)});
  EXPECT_EQ(ask(token(*server.keys[0], "bob")), "none");
  change({issuer(second), issuer(server.url)});
  EXPECT_EQ(ask(token(*server.keys[0], "bob")), "Unavailable") << "it was gone";
}

TEST_F(IssuerTokensTest, WhenIssuersChangeWhileATokenWaits_ItIsToldAndTheNextGetsTheKeys) {
  make(true);
  std::string answer;
  tokens->authenticate_token(
      std::make_shared<const Bearer>(token(*server.keys[0])), {}, "",
      [&](auto result) { answer = result ? "?" : std::string(errc_name(result.error().code())); });
  EXPECT_EQ(answer, "");
  tokens = std::make_unique<IssuerTokens>(loop, JwtIssuers{issuer(server.url)}, true,
                                          IssuerTokens::Limits(), tokens.get());
  EXPECT_EQ(answer, "Unavailable");
  EXPECT_EQ(ask(token(*server.keys[0])), "o:ann");
  EXPECT_EQ(server.requests, 2) << "one fetch";
}

TEST_F(IssuerTokensTest, WhenTheDocumentIsOfAnotherIssuer_NothingIsBelieved) {
  server.issuer = "https://other.example";
  make(true);
  EXPECT_EQ(ask(token(*server.keys[0])), "Unavailable");
}

TEST_F(IssuerTokensTest, WhenAnUnknownKeySigned_AsksAgainButNotTooOften) {
  make();
  EXPECT_EQ(ask(token(*server.keys[0])), "o:ann");
  const JwtKeys next{*JwtKey::generate()};
  const int before = server.requests;
  EXPECT_EQ(ask(token(*next[0])), "Unauthorized") << "the last fetch is too fresh";
  EXPECT_EQ(server.requests, before);
}

TEST_F(IssuerTokensTest, WhenItDies_ThoseWhoWaitAreTold) {
  server.down = true;
  make(true);
  std::string answer;
  tokens->authenticate_token(
      std::make_shared<const Bearer>(token(*server.keys[0])), {}, "",
      [&](auto result) { answer = result ? "?" : std::string(errc_name(result.error().code())); });
  EXPECT_EQ(answer, "");
  tokens.reset();
  EXPECT_EQ(answer, "Unavailable");
}

}  // namespace
}  // namespace kintsugi::auth
