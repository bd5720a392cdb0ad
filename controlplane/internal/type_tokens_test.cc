#include "controlplane/internal/type_tokens.h"

#include <gtest/gtest.h>

#include <map>

#include "base/strings.h"
#include "controlplane/internal/names.h"
#include "net/testing/support.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;
using net::testing::run_until;

class MapReader final : public apiserver::ObjectReader {
 public:
  std::optional<Json> get(std::string_view cluster, std::string_view group, std::string_view,
                          std::string_view, std::string_view name) const override {
    ++reads;
    const auto found =
        objects.find(std::string(cluster) + "/" + std::string(group) + "/" + std::string(name));
    return found == objects.end() ? std::nullopt : std::optional<Json>(found->second);
  }
  void list(std::string_view, std::string_view, std::string_view, std::string_view,
            const std::function<bool(const Json&)>&) const override {}
  std::map<std::string, Json> objects;
  mutable int reads = 0;
};

/// A token that nobody signed, of this issuer.
std::string token_of(const std::string& issuer) {
  return base64url_encode(R"({"alg":"ES256","kid":"k"})") + "." +
         base64url_encode(R"({"iss":")" + issuer + R"(","sub":"ann","aud":["a"]})") + "." +
         base64url_encode(std::string(64, 'x'));
}

/// Cluster c is of type root:t, which names configuration "own" of root.
class TypeTokensTest : public ::testing::Test {
 protected:
  TypeTokensTest() : types_(index_, root_) {
    Json type = Json::object();
    type.make({"metadata", "name"}) = "t";
    type.make({"spec", "authenticationConfigurations"})
        .push_back(Json::object({{"name", Json("own")}}));
    root_.put_type("t", &type);
    Json cluster = Json::object();
    cluster.make({"metadata", "annotations", "internal.tenancy.kcp.io/type"}) = "root:t";
    index_.put_cluster("c", &cluster);
    Json plain = Json::object();
    index_.put_cluster("plain", &plain);
    tokens_ = std::make_unique<TypeTokens>(
        loop_, TypeTokens::Params{types_,
                                  [this]() -> const apiserver::ObjectReader& { return reader_; },
                                  [this](std::string_view) { return root_is_here_; },
                                  {"https://kcp.default.svc"},
                                  std::make_shared<net::Outgoing>(loop_)});
  }
  void configure(std::string_view group, const std::string& url, const char* version = "1") {
    Json object = *Json::parse(
        R"({"spec":{"jwt":[{"issuer":{"audiences":["a"]},
            "claimMappings":{"username":{"claim":"sub","prefix":""}}}]}})");
    object.at({"spec", "jwt"})->edit_items()[0].make({"issuer", "url"}) = url;
    object.make({"metadata", "resourceVersion"}) = version;
    reader_.objects["root/" + std::string(group) + "/own"] = std::move(object);
  }
  std::string ask(const std::string& token, const std::string& cluster = "c",
                  const std::vector<std::string>& audiences = {}) {
    std::string out = "?";
    tokens_->authenticate_token(std::make_shared<const auth::Bearer>(token), audiences, cluster,
                                [&](auto result) {
                                  out = !result    ? std::string(errc_name(result.error().code()))
                                        : !*result ? "none"
                                                   : (*result)->user.name;
                                });
    run_until(loop_, [&] { return out != "?"; });
    return out;
  }

  net::Loop loop_{"test"};
  ClusterIndex index_;
  RootView root_;
  WorkspaceTypeLookup types_;
  MapReader reader_;
  bool root_is_here_ = true;
  std::unique_ptr<TypeTokens> tokens_;
  const std::string url_ = "https://127.0.0.1:1";  // where nobody of tenants' is asked
};

TEST_F(TypeTokensTest, KK120_WhenTheTypeNamesTheIssuer_ItIsAsked) {
  EXPECT_EQ(ask(token_of(url_)), "none") << "no such configuration";
  configure(kTenancyGroup, url_);
  EXPECT_EQ(ask(token_of(url_)), "Unavailable") << "its keys cannot be had";
  EXPECT_EQ(ask(token_of("https://other.example")), "none");
  EXPECT_EQ(ask(token_of(url_), "plain"), "none");
  EXPECT_EQ(ask(token_of(url_), "nowhere"), "none");
  EXPECT_EQ(ask("opaque"), "none");
}

TEST_F(TypeTokensTest, WhenOtherAudiencesAreAskedFor_ItIsNoneOfTheirs) {
  configure(kTenancyGroup, url_);
  EXPECT_EQ(ask(token_of(url_), "c", {"vault"}), "none");
  EXPECT_EQ(ask(token_of(url_), "c", {"vault", "https://kcp.default.svc"}), "Unavailable");
}

TEST_F(TypeTokensTest, WhenTheConfigurationChanges_TheNewOneCounts) {
  configure(kTenancyGroup, "https://other.example");
  EXPECT_EQ(ask(token_of(url_)), "none");
  configure(kTenancyGroup, url_, "2");
  EXPECT_EQ(ask(token_of(url_)), "Unavailable");
  reader_.objects.clear();
  EXPECT_EQ(ask(token_of(url_)), "none");
}

TEST_F(TypeTokensTest, WhenTheTypeIsOnAnotherShard_ItsCopyCounts) {
  configure(kinds::kReplicaGroup, url_);
  EXPECT_EQ(ask(token_of(url_)), "none") << "others have no say about clusters of this shard";
  root_is_here_ = false;
  EXPECT_EQ(ask(token_of(url_)), "Unavailable");
}

}  // namespace
}  // namespace kintsugi::controlplane
