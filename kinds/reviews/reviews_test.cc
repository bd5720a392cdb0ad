#include "kinds/reviews/reviews.h"

#include <gtest/gtest.h>

#include "krm/status.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;
using Texts = std::vector<std::string>;
constexpr std::int64_t kNow = 1'800'000'000;

Json json(std::string_view text) {
  Expected<Json> parsed = Json::parse(text);
  EXPECT_TRUE(parsed) << text;
  return parsed ? std::move(*parsed) : Json();
}

/// Objects by "resource/ns/name".
class MapReader final : public apiserver::ObjectReader {
 public:
  std::optional<Json> get(std::string_view, std::string_view, std::string_view resource,
                          std::string_view ns, std::string_view name) const override {
    const auto found =
        objects.find(std::string(resource) + "/" + std::string(ns) + "/" + std::string(name));
    return found == objects.end() ? std::nullopt : std::optional<Json>(found->second);
  }
  void list(std::string_view, std::string_view, std::string_view, std::string_view,
            const std::function<bool(const Json&)>&) const override {}
  std::map<std::string, Json> objects;
};

class Reviews : public ::testing::Test {
 protected:
  void SetUp() override {
    RbacParams rbac;
    rbac.mask_reasons = true;
    rbac_ = std::make_unique<RbacAuthorizer>(std::move(rbac));
    const Json role =
        json(R"({"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]}]})");
    rbac_->apply("c", "roles", "t1", "r", &role);
    const Json binding = json(
        R"({"metadata":{"name":"b"},"roleRef":{"kind":"Role","name":"r"},
            "subjects":[{"kind":"User","name":"frank"}]})");
    rbac_->apply("c", "rolebindings", "t1", "b", &binding);
    reader_.objects["serviceaccounts/t1/s"] = json(R"({"metadata":{"uid":"uid-1"}})");
    reader_.objects["secrets/t1/x"] = json(R"({"metadata":{"uid":"uid-x"}})");

    auth::ServiceAccountTokenConfig config;
    config.keys = {*auth::JwtKey::generate()};
    tokens_ = std::make_shared<const auth::ServiceAccountTokens>(std::move(config));
    auth::ServiceAccountAuthenticator::Params accounts;
    accounts.tokens = tokens_;
    accounts.check = make_account_check(reader_);
    accounts.now = [] { return kNow; };
    params_ = std::make_unique<ReviewParams>(
        ReviewParams{*rbac_, rbac_.get(),
                     std::make_shared<auth::ServiceAccountAuthenticator>(std::move(accounts)),
                     tokens_, [] { return kNow; }});
    kinds_ = review_kinds(*params_);
    user_.name = "frank";
    user_.groups = {"system:authenticated"};
  }

  apiserver::WriteContext context() {
    return {user_, "c", "create", "", false, reader_, warnings_};
  }

  Expected<Json> create(std::string_view plural, const char* body) {
    for (const apiserver::ResourcePtr& kind : kinds_) {
      if (kind->plural == plural) {
        Expected<Json> answer = fail(Errc::kInternal, "no answer");
        kind->hooks.answer(context(), json(body),
                           [&](Expected<Json> result) { answer = std::move(result); });
        return answer;
      }
    }
    return fail(Errc::kNotFound);
  }

  Expected<Json> token(const char* name, const char* body) {
    auto accounts = std::make_shared<apiserver::ResourceDef>();
    accounts->plural = "serviceaccounts";
    const apiserver::ResourcePtr with = with_token_subresource(accounts, *params_);
    Expected<Json> answer = fail(Errc::kInternal, "no answer");
    with->subresources.front().answer(context(), "t1", name, json(body),
                                      [&](Expected<Json> result) { answer = std::move(result); });
    return answer;
  }

  std::unique_ptr<RbacAuthorizer> rbac_;
  MapReader reader_;
  std::shared_ptr<const auth::ServiceAccountTokens> tokens_;
  std::unique_ptr<ReviewParams> params_;
  std::vector<apiserver::ResourcePtr> kinds_;
  auth::UserInfo user_;
  std::vector<std::string> warnings_;
};

TEST_F(Reviews, WhenListed_EveryKindHasASchemaAndOnlyCreate) {
  EXPECT_EQ(kinds_.size(), 6U);
  for (const apiserver::ResourcePtr& kind : kinds_) {
    EXPECT_TRUE(kind->virtual_create_only) << kind->kind;
    EXPECT_EQ(kind->verbs, Texts{"create"});
    ASSERT_EQ(kind->versions.size(), 1U);
    EXPECT_NE(kind->versions.front().schema, nullptr) << kind->kind;
    EXPECT_EQ(kind->namespaced, kind->kind == "LocalSubjectAccessReview");
  }
}

TEST_F(Reviews, WhenAskedWhoIAm_AnswersTheEffectiveUser_AM434) {
  user_.uid = "7";
  user_.extra = {{"k", {"v"}}};
  const Expected<Json> answer = create("selfsubjectreviews", R"({"kind":"SelfSubjectReview"})");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->at({"status", "userInfo"})->dump(),
            R"({"extra":{"k":["v"]},"groups":["system:authenticated"],"uid":"7",)"
            R"("username":"frank"})");
}

TEST_F(Reviews, WhenAskedWhatIMay_AnswersAllowedAndReason_AM451) {
  const auto ask = [&](const char* spec) {
    const Expected<Json> answer =
        create("selfsubjectaccessreviews", (std::string(R"({"spec":)") + spec + "}").c_str());
    return answer ? answer->at({"status"})->dump() : answer.error().to_string();
  };
  EXPECT_EQ(
      ask(R"({"resourceAttributes":{"verb":"get","resource":"configmaps","namespace":"t1"}})"),
      R"({"allowed":true,"reason":"access granted"})");
  EXPECT_EQ(
      ask(R"({"resourceAttributes":{"verb":"delete","resource":"configmaps","namespace":"t1"}})"),
      R"({"allowed":false,"reason":"access denied"})");
  EXPECT_EQ(ask(R"({"nonResourceAttributes":{"path":"/api","verb":"get"}})"),
            R"({"allowed":true,"reason":"access granted"})");
}

TEST_F(Reviews, WhenAttributesAreBothOrMissing_IsInvalid_AM452) {
  const Expected<Json> none = create("selfsubjectaccessreviews", R"({"spec":{}})");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message(),
            ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes: Invalid value: null: "
            "exactly one of nonResourceAttributes or resourceAttributes must be specified");
  EXPECT_EQ(none.error().detail().group, "authorization.k8s.io");
  EXPECT_EQ(none.error().detail().kind, "");
  const Expected<Json> both = create(
      "selfsubjectaccessreviews",
      R"({"spec":{"resourceAttributes":{"verb":"get"},"nonResourceAttributes":{"path":"/","verb":"get"}}})");
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().message(),
            ".authorization.k8s.io \"\" is invalid: spec.nonResourceAttributes: Invalid value: "
            "{\"Path\":\"/\",\"Verb\":\"get\"}: cannot be specified in combination with "
            "resourceAttributes");
}

TEST_F(Reviews, WhenASubjectIsAsked_TheSubjectCounts_AM452) {
  user_.name = "admin";
  const Expected<Json> granted = create(
      "subjectaccessreviews",
      R"({"spec":{"user":"frank","resourceAttributes":{"verb":"get","resource":"configmaps","namespace":"t1"}}})");
  EXPECT_TRUE(granted->at({"status", "allowed"})->as_bool());
  const Expected<Json> masters = create(
      "subjectaccessreviews",
      R"({"spec":{"user":"x","groups":["system:masters"],"resourceAttributes":{"verb":"delete","resource":"any"}}})");
  EXPECT_TRUE(masters->at({"status", "allowed"})->as_bool());
  const Expected<Json> nobody = create(
      "subjectaccessreviews",
      R"({"spec":{"resourceAttributes":{"verb":"get"},"nonResourceAttributes":{"verb":"get","path":"/"}}})");
  ASSERT_FALSE(nobody);
  ASSERT_EQ(nobody.error().detail().causes.size(), 2U);
  EXPECT_EQ(nobody.error().detail().causes[0].field, "spec.nonResourceAttributes");
  EXPECT_EQ(nobody.error().detail().causes[1].field, "spec.user");
  EXPECT_EQ(nobody.error().detail().causes[1].message,
            "Invalid value: \"\": at least one of user or group must be specified");
}

TEST_F(Reviews, WhenLocal_TheNamespaceMustMatch_AM452) {
  const char* body =
      R"({"metadata":{"namespace":"%"},"spec":{"user":"frank","resourceAttributes":{"verb":"get","resource":"configmaps","namespace":"t1"}}})";
  const auto ask = [&](const char* ns) {
    std::string text = body;
    text.replace(text.find('%'), 1, ns);
    return create("localsubjectaccessreviews", text.c_str());
  };
  EXPECT_TRUE(ask("t1")->at({"status", "allowed"})->as_bool());
  const Expected<Json> other = ask("t2");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().message(),
            ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes.namespace: Invalid "
            "value: \"t1\": must match metadata.namespace");
}

TEST_F(Reviews, WhenRulesAreAsked_AllOfTheNamespaceCome_AM453) {
  const Expected<Json> answer = create("selfsubjectrulesreviews", R"({"spec":{"namespace":"t1"}})");
  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->at({"status", "incomplete"})->as_bool(true));
  EXPECT_TRUE(answer->at({"status", "nonResourceRules"})->is_array());
  const Json wanted = json(R"({"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]})");
  const auto& rules = answer->at({"status", "resourceRules"})->items();
  EXPECT_NE(std::find(rules.begin(), rules.end(), wanted), rules.end());
  const Expected<Json> missing = create("selfsubjectrulesreviews", R"({"spec":{}})");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), Errc::kBadRequest);
}

TEST_F(Reviews, WhenATokenIsRequested_ItCarriesTheAccount_AM430) {
  const Expected<Json> answer =
      token("s", R"({"spec":{"audiences":["example.test"],"expirationSeconds":600}})");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->text({"kind"}), "TokenRequest");
  EXPECT_EQ(answer->text({"metadata", "name"}), "s");
  EXPECT_EQ(answer->text({"metadata", "namespace"}), "t1");
  EXPECT_EQ(answer->at({"spec"})->dump(),
            R"({"audiences":["example.test"],"boundObjectRef":null,"expirationSeconds":600})");
  EXPECT_EQ(answer->text({"status", "expirationTimestamp"}), rfc3339(kNow + 600));
  const auto claims =
      tokens_->verify(auth::Bearer(answer->text({"status", "token"})), {"example.test"}, kNow);
  ASSERT_TRUE(claims);
  EXPECT_EQ(claims->uid, "uid-1");
  EXPECT_EQ(claims->cluster, "c");
  const Expected<Json> defaults = token("s", R"({"spec":{}})");
  EXPECT_EQ(defaults->at({"spec", "expirationSeconds"})->as_integer(), 3600);
}

TEST_F(Reviews, WhenATokenRequestIsWrong_SaysWhy_AM431) {
  const Expected<Json> brief = token("s", R"({"spec":{"expirationSeconds":5}})");
  ASSERT_FALSE(brief);
  EXPECT_EQ(brief.error().message(),
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid "
            "value: 5: may not specify a duration less than 10 minutes");
  EXPECT_EQ(token("nope", R"({"spec":{}})").error().message(),
            "serviceaccounts \"nope\" not found");
  const char* bound =
      R"({"spec":{"boundObjectRef":{"kind":"Secret","apiVersion":"v1","name":"nope"}}})";
  EXPECT_EQ(token("s", bound).error().message(), "secrets \"nope\" not found");
  const char* other =
      R"({"spec":{"boundObjectRef":{"kind":"Secret","apiVersion":"v1","name":"x","uid":"y"}}})";
  EXPECT_EQ(token("s", other).error().code(), Errc::kConflict);
}

TEST_F(Reviews, WhenATokenIsReviewed_GoodAndBadDiffer_AM433) {
  const Expected<Json> made = token("s", R"({"spec":{}})");
  const std::string good(made->text({"status", "token"}));
  const auto review = [&](const std::string& spec) {
    return create("tokenreviews", (R"({"spec":)" + spec + "}").c_str());
  };
  const Expected<Json> answer = review(R"({"token":")" + good + "\"}");
  EXPECT_TRUE(answer->at({"status", "authenticated"})->as_bool());
  EXPECT_EQ(answer->text({"status", "user", "username"}), "system:serviceaccount:t1:s");
  EXPECT_EQ(answer->text({"status", "user", "uid"}), "uid-1");
  EXPECT_EQ(answer->at({"status", "user", "groups"})->dump(),
            R"(["system:serviceaccounts","system:serviceaccounts:t1","system:authenticated"])");
  EXPECT_EQ(answer->at({"status", "audiences"})->dump(), R"(["https://kcp.default.svc"])");
  constexpr const char* kBad = R"({"error":"invalid bearer token","user":{}})";
  EXPECT_EQ(review(R"({"token":"nonsense"})")->at({"status"})->dump(), kBad);
  EXPECT_EQ(review(R"({"token":")" + good + R"(","audiences":["vault"]})")->at({"status"})->dump(),
            kBad);
  const Expected<Json> empty = review("{}");
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().message(), "token is required for TokenReview in authentication");
  EXPECT_EQ(empty.error().code(), Errc::kBadRequest);
  reader_.objects["serviceaccounts/t1/s"] = json(R"({"metadata":{"uid":"uid-2"}})");
  EXPECT_EQ(review(R"({"token":")" + good + "\"}")->at({"status"})->dump(), kBad);  // AM-429
}

TEST_F(Reviews, WhenTheBoundSecretGoes_TheTokenEnds_AM429) {
  const Expected<Json> made =
      token("s", R"({"spec":{"boundObjectRef":{"kind":"Secret","apiVersion":"v1","name":"x"}}})");
  const std::string body =
      R"({"spec":{"token":")" + std::string(made->text({"status", "token"})) + "\"}}";
  EXPECT_TRUE(create("tokenreviews", body.c_str())->at({"status", "authenticated"}));
  reader_.objects.erase("secrets/t1/x");
  EXPECT_FALSE(create("tokenreviews", body.c_str())->at({"status", "authenticated"}));
}

}  // namespace
}  // namespace kintsugi::kinds
