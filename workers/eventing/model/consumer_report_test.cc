#include "workers/eventing/model/consumer_report.h"

#include <gtest/gtest.h>

#include "workers/runtime/status/conditions.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

ConsumerFacts bound_facts() {
  ConsumerFacts facts;
  facts.generation = 2;
  facts.pod = "p0";
  facts.pod_exists = facts.in_contract = facts.bound = true;
  facts.subscriber = "http://sink/";
  return facts;
}

/// "Contract Bind Ready", each "True/<reason>".
std::string consumer_says(const ConsumerFacts& facts, Json status = Json::object()) {
  set_consumer_status(status, facts, "2026-11-28T19:00:00Z");
  std::string out;
  for (const Json& one : status.find("conditions")->items()) {
    out.append(out.empty() ? "" : " ")
        .append(one.text({"type"}))
        .append("=")
        .append(one.text({"status"}))
        .append("/")
        .append(one.text({"reason"}));
  }
  return out;
}

TEST(ConsumerReport, OneThatItsPodHasIsReady) {
  Json status = Json::object();
  set_consumer_status(status, bound_facts(), "2026-11-28T19:00:00Z");
  EXPECT_EQ(consumer_says(bound_facts()),
            "Contract=True/Contract Bind=True/Bound Ready=True/Ready");
  EXPECT_EQ(status.find("observedGeneration")->as_integer(), 2);
  EXPECT_EQ(status.text({"subscriberUri"}), "http://sink/");
  EXPECT_EQ(status.find("deadLetterSinkUri"), nullptr);
  ConsumerFacts without = bound_facts();
  without.subscriber = "";
  set_consumer_status(status, without, "2026-11-28T19:00:00Z");
  EXPECT_EQ(status.find("subscriberUri"), nullptr);
}

TEST(ConsumerReport, WhatItsPodHasNotIsUnderWay) {
  ConsumerFacts facts = bound_facts();
  facts.bound = false;
  EXPECT_EQ(consumer_says(facts),
            "Contract=True/Contract Bind=False/BindInProgress Ready=False/BindInProgress");
  facts.in_contract = false;
  EXPECT_EQ(consumer_says(facts),
            "Contract=Unknown/ReconcileContract Bind=False/BindInProgress "
            "Ready=False/ReconcileContract");
  facts.pod_exists = false;
  EXPECT_EQ(consumer_says(facts),
            "Contract=Unknown/ReconcileContract Bind=False/ConsumerBinding "
            "Ready=False/ReconcileContract");
}

TEST(ConsumerReport, DP_6_AFilterThatIsNotSupportedSaysSo) {
  ConsumerFacts facts = bound_facts();
  facts.fault = "dialectedFilter[0]: cesql is not supported";
  facts.filter_unsupported = true;
  facts.in_contract = facts.bound = false;
  EXPECT_EQ(consumer_says(facts),
            "Contract=False/FilterUnsupported Bind=False/BindInProgress "
            "Ready=False/FilterUnsupported");
  facts.filter_unsupported = false;
  Json status = Json::object();
  set_consumer_status(status, facts, "2026-11-28T19:00:00Z");
  EXPECT_EQ(find_condition(status, "Ready")->text({"message"}), facts.fault);
}

}  // namespace
}  // namespace kintsugi::workers
