#include "krm/json_path.h"

#include <gtest/gtest.h>

namespace kintsugi::krm {
namespace {

constexpr std::string_view kDocument = R"({
  "spec": {"size": 3, "a.b": "dotted", "list": [{"k":"x","n":1},{"k":"y","n":2},{"k":"z"}]},
  "status": {"conditions": [{"type":"Ready","status":"True"},{"type":"Other","status":"False"}],
             "null": null},
  "metadata": {"labels": {"example.com/role": "r"}}
})";

std::string found(std::string_view path) {
  const Expected<JsonPath> compiled = JsonPath::compile(path);
  if (!compiled) {
    return std::string(compiled.error().message());
  }
  const Json document = *Json::parse(kDocument);
  std::string out;
  for (const Json* value : compiled->find(document)) {
    out += (out.empty() ? "" : " ") + value->dump();
  }
  const Json* first = compiled->first(document);
  EXPECT_EQ(first == nullptr ? "" : first->dump(), out.substr(0, first ? first->dump().size() : 0));
  return out;
}

TEST(JsonPath, WhenNamesAreChained_MembersAreFoundAM401) {
  EXPECT_EQ(found(".spec.size"), "3");
  EXPECT_EQ(found("{.spec.size}"), "3");
  EXPECT_EQ(found("$.spec.size"), "3");
  EXPECT_EQ(found("spec.size"), "3");
  EXPECT_EQ(found(".spec.none"), "");
  EXPECT_EQ(found(".spec.size.deeper"), "");
  EXPECT_EQ(found(".status.null"), "null");
  EXPECT_EQ(found(".spec.a\\.b"), "\"dotted\"");
  EXPECT_EQ(found(".spec['a.b']"), "\"dotted\"");
  EXPECT_EQ(found(".metadata.labels['example.com/role']"), "\"r\"");
  EXPECT_EQ(found(".metadata.labels.example\\.com/role"), "\"r\"");
  EXPECT_EQ(found(R"(.metadata.labels["example.com/role"])"), "\"r\"");
}

TEST(JsonPath, WhenListsAreIndexed_ElementsAreFoundAM401) {
  EXPECT_EQ(found(".spec.list[0].k"), "\"x\"");
  EXPECT_EQ(found(".spec.list[-1].k"), "\"z\"");
  EXPECT_EQ(found(".spec.list[7].k"), "");
  EXPECT_EQ(found(".spec.list[*].k"), "\"x\" \"y\" \"z\"");
  EXPECT_EQ(found(".spec.list[0:2].k"), "\"x\" \"y\"");
  EXPECT_EQ(found(".spec.list[::2].k"), "\"x\" \"z\"");
  EXPECT_EQ(found(".spec.list[1:].k"), "\"y\" \"z\"");
  EXPECT_EQ(found("..k"), "\"x\" \"y\" \"z\"");
  EXPECT_EQ(found(".metadata.labels.*"), "\"r\"");
}

TEST(JsonPath, WhenFiltered_MatchingElementsAreFoundAM401) {
  EXPECT_EQ(found(R"(.status.conditions[?(@.type=="Ready")].status)"), "\"True\"");
  EXPECT_EQ(found(R"(.status.conditions[?(@.type == 'Other')].status)"), "\"False\"");
  EXPECT_EQ(found(R"(.status.conditions[?(@.type!="Ready")].type)"), "\"Other\"");
  EXPECT_EQ(found(".spec.list[?(@.n>1)].k"), "\"y\"");
  EXPECT_EQ(found(".spec.list[?(@.n<=1)].k"), "\"x\"");
  EXPECT_EQ(found(".spec.list[?(@.n)].k"), "\"x\" \"y\"");
  EXPECT_EQ(found(R"(.status.conditions[?(@.type=="]")].status)"), "");
}

TEST(JsonPath, WhenBroken_IsRefused) {
  for (const char* bad : {".a[", ".a[x]", ".a[?(@.b==)]", ".a b", ".a..", ".a.", "..[", ".a['b]",
                          ".a[1:2:0]", ".a[?()]", ".a[?(1==]", ".a\\"}) {
    EXPECT_FALSE(JsonPath::compile(bad)) << bad;
  }
  std::string nested = "@.a";
  for (int i = 0; i < 20; ++i) {
    nested = "@.a[?(" + nested + ")]";
  }
  EXPECT_FALSE(JsonPath::compile(nested));
}

TEST(JsonPath, WhenNamesArePlain_TheyAreGiven) {
  EXPECT_EQ(JsonPath::compile(".spec.replicas")->plain_names(),
            (std::vector<std::string>{"spec", "replicas"}));
  EXPECT_EQ(JsonPath::compile(".spec[0]")->plain_names(), std::nullopt);
}

TEST(ColumnCell, WhenTypeIsGiven_ValueTakesItsFormAM401) {
  const Json object = Json::object({{"b", 1}, {"a", Json::array({1})}});
  EXPECT_EQ(column_cell(&object, "string").dump(), R"("{\"a\":[1],\"b\":1}")");
  const Json number = 5;
  EXPECT_EQ(column_cell(&number, "string").dump(), "\"5\"");
  EXPECT_EQ(column_cell(&number, "integer").dump(), "5");
  EXPECT_EQ(column_cell(&number, "number").dump(), "5");
  EXPECT_EQ(column_cell(&number, "boolean").dump(), "null");
  const Json text = "x";
  EXPECT_EQ(column_cell(&text, "integer").dump(), "null");
  EXPECT_EQ(column_cell(&text, "date").dump(), "\"x\"");
  EXPECT_EQ(column_cell(nullptr, "string").dump(), "null");
  const Json null;
  EXPECT_EQ(column_cell(&null, "string").dump(), "\"<no value>\"");
  EXPECT_EQ(column_cell(&null, "integer").dump(), "null");
  const Json large(1e20);
  EXPECT_EQ(column_cell(&large, "string").dump(), "\"1e+20\"");
  EXPECT_EQ(column_cell(&large, "integer").dump(), "-9223372036854775808");
  const Json digits = *Json::parse("100000000000000000000");
  EXPECT_EQ(column_cell(&digits, "string").dump(), "\"1e+20\"");
  EXPECT_EQ(column_cell(&digits, "integer").dump(), "-9223372036854775808");
}

}  // namespace
}  // namespace kintsugi::krm
