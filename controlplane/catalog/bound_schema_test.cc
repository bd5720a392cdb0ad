#include "controlplane/catalog/bound_schema.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kintsugi::controlplane {
namespace {

using krm::Json;

Json schema(const std::string& name = "v1.things.rows.test", const std::string& group = "rows.test",
            const std::string& plural = "things") {
  return *Json::parse(R"({"metadata":{"name":")" + name + R"("},"spec":{"group":")" + group +
                      R"(","scope":"Cluster","names":{"plural":")" + plural +
                      R"(","singular":"thing","kind":"Thing","listKind":"ThingList"},
      "versions":[{"name":"v1","served":true,"storage":true,"schema":{"type":"object"}}]}})");
}

std::vector<std::string> faults(const Json& object) {
  std::vector<std::string> out;
  for (const Cause& cause : new_schema_faults(object)) {
    out.push_back(cause.field + ": " + cause.message);
  }
  return out;
}
using Texts = std::vector<std::string>;

TEST(NewSchemaFaults, KK185_TheNameEndsInPluralAndGroup) {
  EXPECT_EQ(faults(schema()), Texts{});
  EXPECT_EQ(faults(schema("today.things.core", "")), Texts{});
  EXPECT_EQ(faults(schema("v1.other.rows.test")),
            Texts{R"(metadata.name: Invalid value: "v1.other.rows.test": must end in )"
                  ".things.rows.test"});
  EXPECT_EQ(
      faults(schema("v1.things.rows.test", "")),
      Texts{R"(metadata.name: Invalid value: "v1.things.rows.test": must end in .things.core)"});
  for (const char* prefix : {"1v", "v1.v2", "v-", "-v", "V", "", "v_1"}) {
    const std::string name = std::string(prefix) + ".things.rows.test";
    EXPECT_EQ(faults(schema(name)),
              Texts{"metadata.name: Invalid value: \"" + name +
                    "\": must match ^[a-z]([-a-z0-9]*[a-z0-9])?$ in front of .things.rows.test"});
  }
}

TEST(NewSchemaFaults, KK186_Groups) {
  EXPECT_EQ(faults(schema("v1.things.core", "core")),
            Texts{R"(spec.group: Invalid value: "core": must be empty string for the core group)"});
  EXPECT_EQ(
      faults(schema("v1.things.plain", "plain")),
      Texts{R"(spec.group: Invalid value: "plain": should be a domain with at least one dot)"});
  for (const char* group : {"apps", "autoscaling", "batch", "extensions", "policy"}) {
    EXPECT_EQ(faults(schema("v1.things." + std::string(group), group)), Texts{}) << group;
  }
  const Texts protected_group = faults(schema("v1.things.a.k8s.io", "a.k8s.io"));
  ASSERT_EQ(protected_group.size(), 1U);
  EXPECT_TRUE(protected_group[0].starts_with(
      "metadata.annotations[api-approved.kubernetes.io]: Required value: "));
  Json approved = schema("v1.things.a.k8s.io", "a.k8s.io");
  approved.make({"metadata", "annotations", "api-approved.kubernetes.io"}) = "unapproved, tried";
  EXPECT_EQ(faults(approved), Texts{});
}

TEST(NewSchemaFaults, KK187_KK188_VersionsSchemasAndNamesAreThoseOfDefinitions) {
  Json twice = schema("v1.wrong.rows.test");
  Json second = twice.at({"spec", "versions"})->items()[0];
  second["name"] = "v2";
  twice.make({"spec", "versions"}).push_back(std::move(second));
  const Texts both = faults(twice);
  ASSERT_EQ(both.size(), 2U);
  EXPECT_TRUE(both[0].ends_with("must end in .things.rows.test"));
  EXPECT_TRUE(both[1].ends_with("must have exactly one version marked as storage version"));

  Json loose = schema();
  loose.at({"spec", "versions"})->edit_items()[0].make({"schema", "type"}) = "string";
  ASSERT_FALSE(faults(loose).empty());
  EXPECT_TRUE(faults(loose)[0].starts_with("spec.versions[0].schema.openAPIV3Schema.type: "))
      << faults(loose)[0];

  for (const char* name : {"kind", "listKind", "singular"}) {
    Json unnamed = schema();
    unnamed.make({"spec", "names", name}) = "";
    const Texts required = {"spec.names." + std::string(name) + ": Required value"};
    EXPECT_EQ(faults(unnamed), required);
    unnamed.make({"spec", "names"}).erase(name);
    EXPECT_EQ(faults(unnamed), required);
    EXPECT_EQ(schema_faults(unnamed).empty(), std::string_view(name) != "kind")
        << "one that is stored is served under names made of its kind";
  }
}

}  // namespace
}  // namespace kintsugi::controlplane
