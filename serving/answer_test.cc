#include "serving/answer.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace kintsugi::serving {
namespace {

AnswerForm form_of(std::string target, std::string method = "GET") {
  http::RequestHead head;
  head.method = std::move(method);
  head.target = std::move(target);
  head.headers.add("accept", "application/yaml");
  head.headers.add("user-agent", "curl/8");
  return AnswerForm::of(head);
}

TEST(AnswerForm, WhenPrettyIsAsked_AM557_ItsValueDecides) {
  const std::string more =
      "&fieldManager=" + std::string(200, 'a');  // a query with memory of its own
  for (const auto& [query, pretty] : {std::pair<std::string, bool>{"", false},
                                      {"?pretty", true},
                                      {"?pretty=", true},
                                      {"?pretty=1", true},
                                      {"?pretty=true", true},
                                      {"?pretty=0", false},
                                      {"?pretty=false", false},
                                      {"?x=pretty", false},
                                      {"?pretty=" + std::string(100, 'b'), true}}) {
    EXPECT_EQ(form_of("/api" + query).pretty, pretty) << query;
    EXPECT_EQ(form_of("/api" + query + (query.empty() ? "?" : "") + more).pretty, pretty) << query;
  }
  EXPECT_FALSE(form_of("/pretty").pretty);
}

TEST(AnswerForm, WhatElseDecidesIsTakenOver) {
  const AnswerForm form = form_of("/api", "HEAD");
  EXPECT_TRUE(form.head_only);
  EXPECT_EQ(form.accept, "application/yaml");
  EXPECT_EQ(form.user_agent, "curl/8");
  EXPECT_EQ(form.audit_id, "");
}

}  // namespace
}  // namespace kintsugi::serving
