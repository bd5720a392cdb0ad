#include "controlplane/admission/internal/typed_form.h"

#include <gtest/gtest.h>

#include "controlplane/kinds/kcp_kinds.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

/// The spec of a Workspace as its struct would have it; "no" when it does not fit.
std::string formed(const char* text) {
  Json spec = *Json::parse(text);
  const krm::SchemaProperty* schema = workspace_kind()->storage_version().schema->property("spec");
  const Json before = spec;
  if (!to_typed_form(*schema->schema, spec)) {
    EXPECT_EQ(spec.dump(), before.dump()) << "nothing was changed";
    return "no";
  }
  return spec.dump();
}

TEST(TypedForm, KK019_WhatIsOptionalAndZeroGoes) {
  EXPECT_EQ(formed(R"({"cluster":"","URL":"","type":null,"location":{"selector":{}}})"),
            R"({"location":{"selector":{}}})");
  EXPECT_EQ(formed(R"({"type":{"name":"a","path":""}})"), R"({"type":{"name":"a"}})");
  EXPECT_EQ(formed(R"({"location":{"selector":{"matchLabels":{},"matchExpressions":[]}}})"),
            R"({"location":{"selector":{}}})");
  EXPECT_EQ(formed(R"({"cluster":"c","URL":"u"})"), R"({"URL":"u","cluster":"c"})");
}

TEST(TypedForm, KK019_WhatIsRequiredIsThere) {
  EXPECT_EQ(formed(R"({"location":{"selector":{"matchExpressions":[{"operator":"Exists"}]}}})"),
            R"({"location":{"selector":{"matchExpressions":[{"key":"","operator":"Exists"}]}}})");
  const Json mount = *Json::parse(formed(R"({"mount":{}})"));
  for (const char* field : {"apiVersion", "kind", "name"}) {
    const Json* value = mount.at({"mount", "ref", field});
    ASSERT_NE(value, nullptr) << field;
    EXPECT_EQ(*value, Json("")) << field;
  }
  EXPECT_EQ(mount.at({"mount", "ref", "namespace"}), nullptr);
}

TEST(TypedForm, KK019_OtherTypesAreLeftToTheSchema) {
  for (
      const char* spec :
      {R"({"type":{"name":"a","path":7}})", R"({"cluster":true})", R"({"type":"x"})", "[]",
       R"({"location":{"selector":{"matchLabels":{"a":1}}}})",
       R"({"location":{"selector":{"matchExpressions":[{"key":"a","operator":"In","values":[1]}]}}})"}) {
    EXPECT_EQ(formed(spec), "no") << spec;
  }
}

}  // namespace
}  // namespace kintsugi::controlplane
