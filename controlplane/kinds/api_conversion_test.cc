#include <gtest/gtest.h>

#include "apiserver/testing/fake_server.h"
#include "controlplane/kinds/kcp_kinds.h"

namespace kintsugi::controlplane {
namespace {

using apiserver::testing::FakeServer;
using krm::Json;

TEST(ApiConversionKind, KK190_WhatItsRulesHave_IsCheckedAndKept) {
  FakeServer server({api_conversion_kind()}, "lc");
  const auto create = [&](std::string_view name, std::string_view conversions) {
    Json object = Json::object({{"apiVersion", "apis.kcp.io/v1alpha1"}, {"kind", "APIConversion"}});
    object.make({"metadata", "name"}) = name;
    object.make({"spec", "conversions"}) = *Json::parse(conversions);
    return server.send("POST", "/apis/apis.kcp.io/v1alpha1/apiconversions", object);
  };
  const auto made =
      create("v1.widgets.ex.io", R"([{"from":"v1","to":"v2beta1","preserve":["spec.x"],
      "rules":[{"field":"spec.a","destination":"spec.b","transformation":"self"}]}])");
  EXPECT_EQ(made.status(), 201) << made.body();
  EXPECT_EQ(made.json().at({"spec", "conversions"})->items()[0].at({"preserve"})->size(), 1U);
  for (const char* wrong : {
           R"([{"from":"1","to":"v2","rules":[]}])",
           R"([{"from":"v1","rules":[]}])",
           R"([{"from":"v1","to":"v2"}])",
           R"([{"from":"v1","to":"v2","rules":[]},{"from":"v1","to":"v2","rules":[]}])",
           R"([{"from":"v1","to":"v2","rules":[{"field":"","destination":"b"}]}])",
           R"([{"from":"v1","to":"v2","rules":[{"field":"a"}]}])",
           R"([{"from":"v1","to":"v2","rules":[{"field":"a","destination":"c"},
                {"field":"b","destination":"c"}]}])",
       }) {
    EXPECT_EQ(create("wrong", wrong).status(), 422) << wrong;
  }
}

}  // namespace
}  // namespace kintsugi::controlplane
