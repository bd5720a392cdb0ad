#include "workers/eventing/dispatcher/contract_gate.h"

#include <gtest/gtest.h>

#include "workers/eventing/dispatcher/egress_config.h"

namespace kintsugi::workers {
namespace {

Contract contract_of(std::uint64_t generation, std::uint64_t epoch) {
  Contract out;
  out.generation = generation;
  out.epoch = epoch;
  return out;
}

TEST(ContractGate, DP_1_HigherGenerationsOfNoOlderWriter) {
  using Verdict = ContractGate::Verdict;
  ContractGate gate;
  EXPECT_EQ(gate.judge(contract_of(0, 2)), Verdict::kApply);  // the first may be any
  EXPECT_EQ(gate.judge(contract_of(0, 2)), Verdict::kOldGeneration);
  EXPECT_EQ(gate.judge(contract_of(1, 1)), Verdict::kOldEpoch);
  EXPECT_EQ(gate.judge(contract_of(3, 2)), Verdict::kApply);
  EXPECT_EQ(gate.judge(contract_of(2, 9)), Verdict::kOldGeneration);
  EXPECT_EQ(gate.epoch(), 2U);  // what is not applied is not known
  EXPECT_EQ(gate.judge(contract_of(4, 3)), Verdict::kApply);
  EXPECT_EQ(gate.judge(contract_of(5, 2)), Verdict::kOldEpoch);
  EXPECT_EQ(gate.generation(), 4U);
}

ContractResource resource_of(const Egress& egress) {
  ContractResource out;
  out.uid = "r";
  out.topics = {"t"};
  out.bootstrap_servers = "127.0.0.1:1";
  out.egresses = {egress};
  return out;
}

TEST(EgressTerms, DP_6_WhatCannotBeDoneIsRefusedByItself) {
  net::Loop loop("test");
  Sinks sinks(loop);
  KafkaProducers producers(loop, "pod");
  const DispatcherSettings settings;
  const auto made = [&](const ContractResource& resource, const Egress& egress) {
    const auto terms = make_terms(resource, egress, "", settings, sinks, producers);
    return terms ? std::string() : std::string(terms.error().message());
  };
  Egress egress;
  egress.uid = "e";
  egress.consumer_group = "g";
  egress.destination = "http://127.0.0.1:1/path/?a=b";
  egress.vreplicas = 1;
  EXPECT_EQ(made(resource_of(egress), egress), "");
  Egress secure = egress;
  secure.destination = "https://127.0.0.1:1/";
  secure.destination_ca_certs = "no certificate";
  EXPECT_EQ(made(resource_of(egress), secure).substr(0, 12), "destination:");
  ContractResource with_secret = resource_of(egress);
  with_secret.auth = Reference{"", "ns", "secret", "", "", "", {}};
  EXPECT_EQ(made(with_secret, egress), "auth: secrets are not read by this dispatcher");
}

TEST(EgressTerms, DP_8_WhatNeedsOtherConsumers) {
  EgressTerms before;
  before.resource.topics = {"a"};
  before.egress.consumer_group = "g";
  const auto changed = [&](const auto& change) {
    EgressTerms after = before;
    change(after);
    return needs_other_consumers(before, after);
  };
  EXPECT_FALSE(changed([](EgressTerms& terms) {
    terms.egress.destination = "http://other";
    terms.egress.vreplicas = 9;
  }));
  EXPECT_TRUE(changed([](EgressTerms& terms) { terms.resource.topics.push_back("b"); }));
  EXPECT_TRUE(changed([](EgressTerms& terms) { terms.resource.bootstrap_servers = "b"; }));
  EXPECT_TRUE(changed([](EgressTerms& terms) { terms.egress.consumer_group = "h"; }));
  EXPECT_TRUE(
      changed([](EgressTerms& terms) { terms.egress.delivery_order = DeliveryOrder::kOrdered; }));
}

}  // namespace
}  // namespace kintsugi::workers
