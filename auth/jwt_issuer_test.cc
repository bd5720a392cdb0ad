#include "auth/jwt_issuer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kintsugi::auth {
namespace {

using krm::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kNow = 1'000'000;

Json parsed(const std::string& text) {
  auto json = Json::parse(text);
  EXPECT_TRUE(json) << text;
  return json ? std::move(*json) : Json();
}

/// An element of `jwt`; `change` are members of it that replace the usual ones.
Json element(const std::string& change = "{}") {
  Json out = parsed(R"~({"issuer":{"url":"https://issuer.example","audiences":["us"]},
    "claimMappings":{"username":{"claim":"email","prefix":"oidc:"},
                     "groups":{"claim":"groups","prefix":"oidc:"}}})~");
  const Json changes = parsed(change);
  for (const krm::JsonMember& member : changes.members()) {
    out[member.key] = member.value;
  }
  return out;
}

Json claims(const std::string& change = "{}") {
  Json out = parsed(R"~({"iss":"https://issuer.example","aud":"us","exp":1000100,"sub":"s1",
    "email":"ann@example.com","groups":["dev","ops"]})~");
  const Json changes = parsed(change);
  for (const krm::JsonMember& member : changes.members()) {
    if (member.value.is_null()) {
      out.erase(member.key);
    } else {
      out[member.key] = member.value;
    }
  }
  return out;
}

std::shared_ptr<const JwtIssuer> issuer(const Json& config) {
  std::vector<Cause> causes;
  auto made = JwtIssuer::make(issuer_from_json(config), "jwt[0]", causes);
  for (const Cause& cause : causes) {
    ADD_FAILURE() << cause.field << ": " << cause.message;
  }
  return made;
}

std::vector<std::string> faults(const Json& config) {
  std::vector<Cause> causes;
  const auto made = JwtIssuer::make(issuer_from_json(config), "jwt[0]", causes);
  EXPECT_EQ(made == nullptr, !causes.empty());
  std::vector<std::string> out;
  for (const Cause& cause : causes) {
    out.push_back(cause.field + ": " + cause.message);
  }
  return out;
}

/// "<user>" or the reason of the refusal.
std::string who(const Json& config, const Json& said) {
  const auto made = issuer(config);
  const auto identity = made->identify(said, kNow);
  return identity ? identity->user.name : std::string(identity.error().message());
}

TEST(JwtIssuer, WhenClaimsAreMapped_PrefixesNamesAndGroups) {
  const auto identity = issuer(element())->identify(claims(R"~({"jti":"t1"})~"), kNow);
  ASSERT_TRUE(identity);
  EXPECT_EQ(identity->user.name, "oidc:ann@example.com");
  EXPECT_THAT(identity->user.groups, ElementsAre("oidc:dev", "oidc:ops"));
  EXPECT_EQ(identity->expires_at, 1'000'100);
  EXPECT_THAT(*identity->user.extra_values(kExtraCredentialId), ElementsAre("JTI=t1"));
  const auto one = issuer(element())->identify(claims(R"~({"groups":"dev"})~"), kNow);
  EXPECT_THAT(one->user.groups, ElementsAre("oidc:dev"));
  EXPECT_THAT(issuer(element())->identify(claims(R"~({"groups":null})~"), kNow)->user.groups,
              IsEmpty());
  EXPECT_THAT(who(element(), claims(R"~({"groups":[1]})~")), HasSubstr("groups"));
  EXPECT_THAT(who(element(), claims(R"~({"email":7})~")), HasSubstr("email"));
  EXPECT_THAT(who(element(), claims(R"~({"email":null})~")), HasSubstr("not present"));
  EXPECT_THAT(who(element(), claims(R"~({"email":""})~")), HasSubstr("empty"));
}

TEST(JwtIssuer, WhenTheTokenIsNotForUsOrNotNow_Refuses) {
  EXPECT_EQ(who(element(), claims(R"~({"aud":["x","us"]})~")), "oidc:ann@example.com");
  EXPECT_THAT(who(element(), claims(R"~({"aud":["x"]})~")), HasSubstr("audience"));
  EXPECT_THAT(who(element(), claims(R"~({"aud":null})~")), HasSubstr("audience"));
  EXPECT_THAT(who(element(), claims(R"~({"iss":"https://issuer.example/"})~")),
              HasSubstr("issuer"));
  EXPECT_THAT(who(element(), claims(R"~({"exp":999999})~")), HasSubstr("expired"));
  EXPECT_THAT(who(element(), claims(R"~({"exp":null})~")), HasSubstr("expired"));
  EXPECT_THAT(who(element(), claims(R"~({"exp":"1000100"})~")), HasSubstr("expired"));
  EXPECT_EQ(who(element(), claims(R"~({"exp":1000000.5})~")), "oidc:ann@example.com");
  EXPECT_EQ(who(element(), claims(R"~({"nbf":1000060})~")), "oidc:ann@example.com");
  EXPECT_THAT(who(element(), claims(R"~({"nbf":1000061})~")), HasSubstr("not valid yet"));
}

TEST(JwtIssuer, WhenTheAddressIsNotVerified_Refuses) {
  EXPECT_EQ(who(element(), claims(R"~({"email_verified":true})~")), "oidc:ann@example.com");
  EXPECT_THAT(who(element(), claims(R"~({"email_verified":false})~")), HasSubstr("not verified"));
  EXPECT_THAT(who(element(), claims(R"~({"email_verified":"true"})~")), HasSubstr("not verified"));
}

TEST(JwtIssuer, WhenExpressionsMap_TheirValuesAreTheUser) {
  const Json config = element(R"~({"claimMappings":{
    "username":{"expression":"'e-' + claims.sub"},
    "groups":{"expression":"claims.roles.split(',')"},
    "uid":{"expression":"claims.sub"},
    "extra":[{"key":"example.com/team","valueExpression":"claims.groups"},
             {"key":"example.com/none","valueExpression":"''"}]
}
})~");
  const auto identity = issuer(config)->identify(claims(R"~({"roles":"a,,b"})~"), kNow);
  ASSERT_TRUE(identity) << identity.error().to_string();
  EXPECT_EQ(identity->user.name, "e-s1");
  EXPECT_EQ(identity->user.uid, "s1");
  EXPECT_THAT(identity->user.groups, ElementsAre("a", "b"));
  EXPECT_THAT(*identity->user.extra_values("example.com/team"), ElementsAre("dev", "ops"));
  EXPECT_EQ(identity->user.extra_values("example.com/none"), nullptr);
  EXPECT_THAT(who(config, claims()), HasSubstr("no such key: roles"));
  EXPECT_THAT(who(config, claims(R"~({"roles":"a","sub":1})~")), HasSubstr("no such overload"));
}

/// Claims have any type, so an expression over them may give any.
TEST(JwtIssuer, WhenValuesAreOfAnotherType_SE203_Refuses) {
  const auto mapped = [](const std::string& member, const std::string& expression) {
    Json config = element();
    config.make({"claimMappings", member}) = Json::object({{"expression", Json(expression)}});
    return config;
  };
  const char* const kList = "must return a string or a list of strings";
  const Json any = parsed(R"~({"n":1,"none":null,"list":[1],"s":"x","texts":["a",""]})~");
  const Json said = [&] {
    Json out = claims();
    for (const krm::JsonMember& member : any.members()) {
      out[member.key] = member.value;
    }
    return out;
  }();
  EXPECT_THAT(who(mapped("username", "claims.n"), said), HasSubstr("must return a string"));
  EXPECT_THAT(who(mapped("username", "claims.texts"), said), HasSubstr("must return a string"));
  EXPECT_THAT(who(mapped("username", "claims.gone"), said), HasSubstr("no such key"));
  EXPECT_THAT(who(mapped("uid", "claims.list"), said), HasSubstr("must return a string"));
  EXPECT_THAT(who(mapped("groups", "claims.n"), said), HasSubstr(kList));
  EXPECT_THAT(who(mapped("groups", "claims.list"), said), HasSubstr(kList));
  EXPECT_THAT(who(mapped("groups", "claims.gone"), said), HasSubstr("no such key"));
  EXPECT_EQ(who(mapped("groups", "claims.none"), said), "oidc:ann@example.com");
  Json extra = element();
  extra.make({"claimMappings", "extra"})
      .push_back(Json::object({{"key", "example.com/k"}, {"valueExpression", "claims.n"}}));
  EXPECT_THAT(who(extra, said), HasSubstr(kList));
  Json uid = element();
  uid.make({"claimMappings", "uid"}) = Json::object({{"claim", "n"}});
  EXPECT_THAT(who(uid, said), HasSubstr("claim n is no text"));
  for (const char* groups : {R"~({"groups":1})~", R"~({"groups":[1]})~", R"~({"groups":{}})~"}) {
    EXPECT_THAT(who(element(), claims(groups)), HasSubstr("claim groups is no list of texts"));
  }
  EXPECT_EQ(who(element(), claims(R"~({"groups":"one"})~")), "oidc:ann@example.com");
  EXPECT_THAT(who(element(), claims(R"~({"aud":1})~")), HasSubstr("claim aud"));
  EXPECT_THAT(who(element(), claims(R"~({"email":1})~")), HasSubstr("claim email is no text"));
  for (const char* time : {R"~({"exp":"soon"})~", R"~({"exp":1e300})~", R"~({"exp":null})~"}) {
    EXPECT_THAT(who(element(), claims(time)), HasSubstr("has expired"));
  }
  const auto ruled = [](const std::string& expression) {
    Json config = element();
    config.make({"claimValidationRules"})
        .push_back(Json::object({{"expression", Json(expression)}, {"message", "no"}}));
    return config;
  };
  EXPECT_THAT(who(ruled("claims.gone == 1"), said), HasSubstr("no such key"));
  EXPECT_THAT(who(ruled("claims.s == 'y'"), said), HasSubstr("failed: no"));
}

TEST(JwtIssuer, WhenRulesDoNotHold_Refuses) {
  const Json config = element(R"~({"claimValidationRules":[
      {"claim":"hd","requiredValue":"example.com"},
      {"expression":"claims.exp - 1000000 <= 100","message":"too long"}],
    "userValidationRules":[{"expression":"!user.username.startsWith('oidc:root')","message":"root"},
      {"expression":"user.groups.all(g, g != 'oidc:bad')","message":"bad group"}]
})~");
  EXPECT_EQ(who(config, claims(R"~({"hd":"example.com"})~")), "oidc:ann@example.com");
  EXPECT_THAT(who(config, claims()), HasSubstr("hd"));
  EXPECT_THAT(who(config, claims(R"~({"hd":"example.org"})~")), HasSubstr("hd"));
  EXPECT_THAT(who(config, claims(R"~({"hd":"example.com","exp":1000101})~")),
              HasSubstr("too long"));
  EXPECT_THAT(who(config, claims(R"~({"hd":"example.com","email":"root@x"})~")), HasSubstr("root"));
  EXPECT_THAT(who(config, claims(R"~({"hd":"example.com","groups":["bad"]})~")),
              HasSubstr("bad group"));
}

TEST(JwtIssuer, WhenItsExpressionsCostTooMuch_Refuses) {
  Json config = element();
  for (int i = 0; i < 20; ++i) {
    config.make({"claimMappings", "extra"})
        .push_back(Json::object({{"key", Json("example.com/k" + std::to_string(i))},
                                 {"valueExpression", "claims.groups.map(g, g + 'x')"}}));
  }
  std::vector<Cause> causes;
  JwtIssuerConfig read = issuer_from_json(config);
  read.cost_limit = 100;
  const auto cheap = JwtIssuer::make(read, "jwt[0]", causes)->identify(claims(), kNow);
  ASSERT_FALSE(cheap);
  EXPECT_THAT(std::string(cheap.error().message()), HasSubstr("cost limit"));
  read.cost_limit = 10'000;
  EXPECT_TRUE(JwtIssuer::make(read, "jwt[0]", causes)->identify(claims(), kNow));
}

TEST(JwtIssuer, FP076_WhenTheConfigurationIsWrong_SaysWhatKubernetesSays) {
  EXPECT_THAT(faults(parsed("{}")),
              ElementsAre("jwt[0].issuer.url: Required value",
                          "jwt[0].issuer.audiences: Required value: at least one "
                          "jwt[0].issuer.audiences is required",
                          "jwt[0].claimMappings.username: Required value: claim or expression is "
                          "required"));
  EXPECT_THAT(
      faults(element(R"~({"issuer":{"url":"http://u:p@h/?q=1#f","audiences":["a","a",""],
                         "discoveryURL":"http://u:p@h/?q=1#f","certificateAuthority":"x"}})~")),
      ::testing::AllOf(
          ::testing::SizeIs(13),
          ::testing::Contains("jwt[0].issuer.url: Invalid value: \"http://u:p@h/?q=1#f\": URL "
                              "scheme must be https"),
          ::testing::Contains(HasSubstr("URL must not contain a username or password")),
          ::testing::Contains(HasSubstr("URL must not contain a query")),
          ::testing::Contains(HasSubstr("URL must not contain a fragment")),
          ::testing::Contains(HasSubstr("discoveryURL must be different from URL")),
          ::testing::Contains("jwt[0].issuer.audiences[1]: Duplicate value: \"a\""),
          ::testing::Contains(HasSubstr("audienceMatchPolicy must be MatchAny for multiple")),
          ::testing::Contains("jwt[0].issuer.certificateAuthority: Invalid value: \"<omitted>\": "
                              "data does not contain any valid RSA or ECDSA certificates")));
  EXPECT_THAT(
      faults(element(R"~({"claimMappings":{
                "username":{"claim":"a","expression":"claims.a"},
                "groups":{"expression":"claims.a","prefix":"p"},
                "uid":{"claim":"a","expression":"claims.b"}}})~")),
      ElementsAre("jwt[0].claimMappings.username: Invalid value: \"\": claim and expression "
                  "can't both be set",
                  "jwt[0].claimMappings.groups.prefix: Invalid value: \"p\": may not be "
                  "specified when expression is set",
                  "jwt[0].claimMappings.uid: Invalid value: \"\": claim and expression "
                  "can't both be set"));
  EXPECT_THAT(faults(element(R"~({"claimMappings":{"username":{"claim":"a"}}})~")),
              ElementsAre(HasSubstr("prefix is required when claim is set. It can be set to an "
                                    "empty string to disable prefixing")));
  EXPECT_THAT(faults(element(R"~({"claimMappings":{"username":{"expression":"claims.email"}}})~")),
              ElementsAre(HasSubstr("claims.email_verified must be used")));
  EXPECT_THAT(faults(element(R"~({"claimValidationRules":[{"expression":"claims.x"},
                {"expression":"has(","message":"m"},{}],
                "userValidationRules":[{"expression":"user.nobody"},{}]})~")),
              ElementsAre("jwt[0].claimValidationRules[0].expression: Invalid value: \"claims.x\": "
                          "must evaluate to bool",
                          HasSubstr("compilation failed: ERROR: <input>:1:"),
                          "jwt[0].claimValidationRules[2]: Required value: claim or expression is "
                          "required",
                          HasSubstr("undefined field 'nobody'"),
                          "jwt[0].userValidationRules[1].expression: Required value"));
  EXPECT_THAT(
      faults(element(R"~({"claimMappings":{"username":{"claim":"a","prefix":""},"extra":[
                {"key":"","valueExpression":"'a'"},{"key":"a.k8s.io/x","valueExpression":"'a'"},
                {"key":"example.com/A","valueExpression":"'a'"},{"key":"plain"}]}})~")),
      ElementsAre(HasSubstr("extra[0].key: Required value"),
                  HasSubstr("are reserved for Kubernetes use"), HasSubstr("must be lowercase"),
                  HasSubstr("must be a domain-prefixed path"),
                  HasSubstr("extra[3].valueExpression: Required value")));
}

TEST(AuthenticationConfiguration, WhenItIsRight_GivesItsIssuers) {
  const auto issuers = parse_authentication_configuration(R"~(
apiVersion: apiserver.config.k8s.io/v1beta1
kind: AuthenticationConfiguration
anonymous: {enabled: false}
jwt:
- issuer: {url: https://a.example/x/, audiences: [a]}
  claimMappings: {username: {claim: sub, prefix: ""}}
- issuer: {url: https://b.example, discoveryURL: "https://b.internal/d", audiences: [a]}
  claimMappings: {username: {claim: sub, prefix: ""}}
)~");
  ASSERT_TRUE(issuers) << issuers.error().to_string();
  EXPECT_EQ((*issuers)[0]->discovery_url(), "https://a.example/x/.well-known/openid-configuration");
  EXPECT_EQ((*issuers)[1]->discovery_url(), "https://b.internal/d");
}

TEST(AuthenticationConfiguration, WhenItIsWrong_SaysWhy) {
  const auto fault = [](const std::string& text) {
    const auto issuers = parse_authentication_configuration(text);
    return issuers ? std::string() : std::string(issuers.error().message());
  };
  const std::string head =
      "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";
  EXPECT_EQ(fault(head), "");
  EXPECT_THAT(fault("kind: AuthenticationConfiguration\n"), HasSubstr("apiserver.config.k8s.io"));
  EXPECT_THAT(fault("apiVersion: apiserver.config.k8s.io/v9\nkind: AuthenticationConfiguration\n"),
              HasSubstr("v9 is not known"));
  EXPECT_EQ(fault(head + "jwt:\n- issuer: {url: x, foo: 1}\n"),
            "strict decoding error: unknown field \"jwt[0].issuer.foo\"");
  const std::string same =
      "- issuer: {url: https://a.example, audiences: [a]}\n"
      "  claimMappings: {username: {claim: sub, prefix: ''}}\n";
  EXPECT_EQ(fault(head + "jwt:\n" + same + same),
            "jwt[1].issuer.url: Duplicate value: \"https://a.example\"");
}

}  // namespace
}  // namespace kintsugi::auth
