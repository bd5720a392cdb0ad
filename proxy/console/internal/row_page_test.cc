#include "proxy/console/internal/row_page.h"

#include <gtest/gtest.h>

namespace kintsugi::proxy {
namespace {

using krm::Json;

ViewRows rows() {
  ViewRows out;
  for (const auto& [id, size] : {std::pair("b", 3), std::pair("a", 1), std::pair("c", 2)}) {
    out.push_back(
        Json::object({{"id", id}, {"size", size}, {"in", Json::array({"Eu-" + std::string(id)})}}));
  }
  return out;
}

std::string ask(const std::string& query) {
  const auto wanted = RowQuery::of(krm::Query(query));
  if (!wanted) {
    return "bad";
  }
  const Json page = page_of(rows(), *wanted);
  std::string out;
  for (const Json& row : page.find("items")->items()) {
    out += row.text({"id"});
  }
  const Json* const next = page.find("next");
  return out + " " + std::to_string(page.find("total")->as_integer()) +
         (next != nullptr ? " " + std::string(next->as_string()) : "");
}

TEST(RowPage, OP704_RowsAre_Sorted_Filtered_AndCut) {
  EXPECT_EQ(ask(""), "bac 3");
  EXPECT_EQ(ask("sort=id"), "abc 3");
  EXPECT_EQ(ask("sort=-size"), "bca 3");
  EXPECT_EQ(ask("sort=size&limit=2"), "ac 3 2");
  EXPECT_EQ(ask("sort=size&limit=2&next=2"), "b 3");
  EXPECT_EQ(ask("next=99"), " 3");
  EXPECT_EQ(ask("filter=EU-A"), "a 1");
  EXPECT_EQ(ask("filter=size"), " 0");  // a name of a field is no text of a row
}

TEST(RowPage, OP704_WhatIsAskedIsBounded) {
  EXPECT_EQ(ask("limit=0"), "bad");
  EXPECT_EQ(ask("limit=501"), "bad");
  EXPECT_EQ(ask("limit=x"), "bad");
  EXPECT_EQ(ask("next=-1"), "bad");
  EXPECT_EQ(ask("filter=" + std::string(257, 'x')), "bad");
  EXPECT_EQ(ask("sort=" + std::string(257, 'x')), "bad");
}

}  // namespace
}  // namespace kintsugi::proxy
