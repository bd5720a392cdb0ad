#include "kinds/policies/internal/match.h"

#include <gtest/gtest.h>

#include "krm/status.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;

Json json(std::string_view text) {
  const Expected<Json> parsed = Json::parse(text);
  EXPECT_TRUE(parsed) << text;
  return parsed ? *parsed : Json();
}

struct Case {
  AdmissionSubject subject;
  Json object = json(R"({"metadata":{"labels":{"l":"new"}}})");
  Json old = json(R"({"metadata":{"labels":{"l":"old"}}})");
  Json labels = json(R"({"env":"prod"})");

  Case() {
    subject.operation = "UPDATE";
    subject.resource = {"ex.io", "v1", "widgets"};
    subject.ns = "ns";
    subject.name = "w";
    subject.object = &object;
    subject.old_object = &old;
    subject.equivalents = {{"ex.io", "v2", "widgets"}};
    subject.namespace_labels = [this]() -> Expected<Json> { return labels; };
  }
  /// The version that matches, "" when none does, "!" when that cannot be known.
  std::string match(std::string_view spec) {
    const Json parsed = json(spec);
    const auto found = MatchResources::parse(&parsed).match(subject);
    return !found ? "!" : *found ? (**found).version : "";
  }
};

constexpr const char* kRule =
    R"({"resourceRules":[{"apiGroups":["ex.io"],"apiVersions":["v1"],"operations":["UPDATE"],)"
    R"("resources":["widgets"],"scope":"*"}]})";

TEST(MatchResources, WhenARuleNamesTheRequest_AM334_Matches) {
  Case test;
  EXPECT_EQ(test.match(kRule), "v1");
  EXPECT_EQ(test.match("{}"), "v1");
  test.subject.subresource = "status";
  EXPECT_EQ(test.match(kRule), "");
  EXPECT_EQ(test.match(R"({"resourceRules":[{"apiGroups":["*"],"apiVersions":["*"],)"
                       R"("operations":["*"],"resources":["*/status"]}]})"),
            "v1");
  test.subject.operation = "DELETE";
  EXPECT_EQ(test.match(kRule), "");
}

TEST(MatchResources, WhenAnotherVersionIsNamed_AM334_OnlyEquivalentMatches) {
  Case test;
  const std::string rules =
      R"("resourceRules":[{"apiGroups":["ex.io"],"apiVersions":["v2"],"operations":["*"],)"
      R"("resources":["widgets"]}]})";
  EXPECT_EQ(test.match(R"({"matchPolicy":"Equivalent",)" + rules), "v2");
  EXPECT_EQ(test.match(R"({"matchPolicy":"Exact",)" + rules), "");
}

TEST(MatchResources, WhenSelectorsAreGiven_AM334_EitherObjectAndTheNamespaceCount) {
  Case test;
  EXPECT_EQ(test.match(R"({"objectSelector":{"matchLabels":{"l":"old"}}})"), "v1");
  EXPECT_EQ(test.match(R"({"objectSelector":{"matchLabels":{"l":"new"}}})"), "v1");
  EXPECT_EQ(test.match(R"({"objectSelector":{"matchLabels":{"l":"none"}}})"), "");
  EXPECT_EQ(test.match(R"({"namespaceSelector":{"matchLabels":{"env":"prod"}}})"), "v1");
  EXPECT_EQ(test.match(R"({"namespaceSelector":{"matchLabels":{"env":"dev"}}})"), "");
  test.subject.ns = "";  // outside of namespaces nothing is exempt
  EXPECT_EQ(test.match(R"({"namespaceSelector":{"matchLabels":{"env":"dev"}}})"), "v1");
}

TEST(MatchResources, WhenTheNamespaceIsUnknown_AM334_OnlyARequestThatMatchesFails) {
  Case test;
  test.subject.namespace_labels = []() -> Expected<Json> {
    return fail(krm::not_found("", "namespaces", "ns"));
  };
  EXPECT_EQ(test.match(R"({"namespaceSelector":{"matchLabels":{"env":"dev"}}})"), "!");
  test.subject.resource.name = "gadgets";
  test.subject.equivalents.clear();
  EXPECT_EQ(test.match(R"({"namespaceSelector":{"matchLabels":{"env":"dev"}},"resourceRules":[)"
                       R"({"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],)"
                       R"("resources":["widgets"]}]})"),
            "");
}

TEST(MatchResources, WhenScopesAndNamesAreGiven_AM334_TheyNarrow) {
  Case test;
  const auto rule = [](const std::string& more) {
    return R"({"resourceRules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],)"
           R"("resources":["*"],)" +
           more + "}]}";
  };
  EXPECT_EQ(test.match(rule(R"("scope":"Namespaced")")), "v1");
  EXPECT_EQ(test.match(rule(R"("scope":"Cluster")")), "");
  EXPECT_EQ(test.match(rule(R"("resourceNames":["w"])")), "v1");
  EXPECT_EQ(test.match(rule(R"("resourceNames":["x"])")), "");
  test.subject.equivalents.clear();
  test.subject.resource = {"", "v1", "namespaces"};  // a Namespace is in itself, and in none
  EXPECT_EQ(test.match(rule(R"("scope":"Cluster")")), "v1");
  EXPECT_EQ(test.match(rule(R"("scope":"Namespaced")")), "");
  EXPECT_EQ(test.match(R"({"namespaceSelector":{"matchLabels":{"l":"new"}}})"), "v1");
}

TEST(MatchResources, WhenExcluded_AM334_RulesDoNotCount) {
  Case test;
  EXPECT_EQ(test.match(R"({"excludeResourceRules":[{"apiGroups":["ex.io"],"apiVersions":["*"],)"
                       R"("operations":["UPDATE"],"resources":["widgets"]}]})"),
            "");
}

}  // namespace
}  // namespace kintsugi::kinds
