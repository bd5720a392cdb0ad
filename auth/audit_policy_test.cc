#include "auth/audit_policy.h"

#include <gtest/gtest.h>

namespace kintsugi::auth {
namespace {

using Level = AuditPolicy::Level;

const std::string kHead = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";

AuditPolicy policy(const std::string& rules) {
  auto parsed = AuditPolicy::parse(kHead + rules, "policy.yaml");
  EXPECT_TRUE(parsed) << parsed.error().to_string();
  return parsed ? std::move(*parsed) : AuditPolicy();
}

UserInfo user(const std::string& name, std::vector<std::string> groups = {}) {
  UserInfo out;
  out.name = name;
  out.groups = std::move(groups);
  return out;
}

Level level(const AuditPolicy& rules, std::string_view method, std::string_view target,
            const UserInfo* who = nullptr) {
  return rules.judge(krm::parse_request_info(method, target), who).level;
}

TEST(AuditPolicy, WhenRulesMatch_FP143_TheFirstOneCounts) {
  const AuditPolicy rules = policy(R"(rules:
- {level: None, users: ["system:probe"]}
- {level: None, verbs: [watch], userGroups: ["system:nodes"]}
- {level: Request, resources: [{group: "", resources: [secrets], resourceNames: [top]}]}
- {level: None, resources: [{group: "", resources: ["pods/log", "services/*", "*/scale"]}]}
- {level: RequestResponse, namespaces: [prod], resources: [{group: apps}]}
- {level: Metadata, resources: [{group: "", resources: ["*"]}]}
- {level: Metadata, nonResourceURLs: ["/healthz*", "/version"]}
)");
  const std::string core = "/api/v1/namespaces/t1/";
  struct Case {
    std::string method, target;
    Level level;
  };
  for (const Case& one : {
           Case{"GET", core + "secrets/top", Level::kRequest},
           Case{"GET", core + "secrets/other", Level::kMetadata},
           Case{"GET", core + "pods/a/log", Level::kNone},
           Case{"GET", core + "pods/a", Level::kMetadata},
           Case{"GET", core + "pods/a/exec", Level::kMetadata},
           Case{"GET", core + "services/a", Level::kNone},
           Case{"GET", core + "services/a/status", Level::kNone},
           Case{"GET", core + "replicationcontrollers/a/scale", Level::kNone},
           Case{"GET", "/apis/apps/v1/namespaces/prod/deployments", Level::kRequestResponse},
           Case{"GET", "/apis/apps/v1/namespaces/test/deployments", Level::kNone},
           Case{"GET", "/healthz/ping", Level::kMetadata},
           Case{"GET", "/version", Level::kMetadata},
           Case{"GET", "/version/x", Level::kNone},
           Case{"GET", "/api", Level::kNone},
       }) {
    EXPECT_EQ(level(rules, one.method, one.target), one.level) << one.target;
  }
  const UserInfo probe = user("system:probe"), node = user("n", {"x", "system:nodes"});
  EXPECT_EQ(level(rules, "GET", core + "pods/a", &probe), Level::kNone);
  EXPECT_EQ(level(rules, "GET", core + "pods?watch=1", &node), Level::kNone);
  EXPECT_EQ(level(rules, "GET", core + "pods", &node), Level::kMetadata);
  EXPECT_TRUE(rules.wants_bodies());
}

TEST(AuditPolicy, WhenStagesAreOmitted_FP143_OfThePolicyAndOfTheRule) {
  const AuditPolicy rules = policy(
      "omitStages: [ResponseStarted]\nomitManagedFields: true\nrules:\n"
      "- {level: Metadata, verbs: [get], omitStages: [RequestReceived, ResponseComplete]}\n"
      "- {level: Metadata}\n");
  const auto both = rules.judge(krm::parse_request_info("GET", "/api"), nullptr);
  EXPECT_FALSE(both.started || both.complete);
  const auto one = rules.judge(krm::parse_request_info("POST", "/api"), nullptr);
  EXPECT_TRUE(!one.started && one.complete);
  EXPECT_FALSE(rules.wants_bodies());
  EXPECT_EQ(level(AuditPolicy(), "GET", "/readyz"), Level::kMetadata);
}

TEST(AuditPolicy, WhenAFileIsWrong_FP143_LineAndKeyAreNamed) {
  const std::pair<std::string, std::string> cases[] = {
      {"rules: []\n", "p.yaml:3: rules: must have a rule"},
      {"rule: []\n", "p.yaml:3: rule: unknown key"},
      {"rules:\n- level: All\n",
       "p.yaml:4: rules[0].level: must be one of None, Metadata, Request, RequestResponse"},
      {"rules:\n- level: None\n  verb: [get]\n", "p.yaml:5: rules[0].verb: unknown key"},
      {"rules:\n- level: None\n  users: me\n", "p.yaml:5: rules[0].users: must be a list of texts"},
      {"rules:\n- level: None\n  omitStages: [End]\n",
       "p.yaml:5: rules[0].omitStages: \"End\" is no stage"},
      {"rules:\n- level: None\n  nonResourceURLs: [/a/*/b]\n",
       "p.yaml:5: rules[0].nonResourceURLs: must be paths, with * at their end only"},
      {"rules:\n- level: None\n  nonResourceURLs: [/a]\n  namespaces: [b]\n",
       "p.yaml:5: rules[0].nonResourceURLs: cannot be in one rule with resources or namespaces"},
      {"rules:\n- level: None\n  resources:\n  - group: apps/v1\n",
       "p.yaml:6: rules[0].resources[0].group: must be a group without a version"},
      {"rules:\n- level: None\n  resources:\n  - resourceNames: [a]\n",
       "p.yaml:6: rules[0].resources[0].resourceNames: cannot be without resources"},
  };
  for (const auto& [text, message] : cases) {
    const auto parsed = AuditPolicy::parse(kHead + text, "p.yaml");
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().message(), message);
  }
  EXPECT_FALSE(AuditPolicy::parse("rules: [{level: None}]", "p.yaml"));
  EXPECT_FALSE(AuditPolicy::parse("[", "p.yaml"));
  EXPECT_FALSE(AuditPolicy::parse("", "p.yaml"));
}

}  // namespace
}  // namespace kintsugi::auth
