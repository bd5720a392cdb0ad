#include "workers/eventing/contract/contract.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "krm/protobuf_wire.h"

namespace kintsugi::workers {
namespace {

DialectedFilter attributes_filter(DialectedFilter::Kind kind, TextMap attributes) {
  DialectedFilter out;
  out.kind = kind;
  out.attributes = std::move(attributes);
  return out;
}

/// Says something in every field.
Contract full_contract() {
  Contract contract;
  contract.generation = 7;
  contract.epoch = 3;
  contract.trust_bundles = {"PEM 1", "PEM 2"};
  ContractResource resource;
  resource.uid = "r-1";
  resource.topics = {"orders", "returns"};
  resource.bootstrap_servers = "127.0.0.1:9092,127.0.0.1:9093";
  resource.ingress = Ingress{ContentMode::kStructured, "/ns/name", "host", "audience", true, {}};
  resource.egress_config =
      EgressConfig{"http://dead/letter", "PEM", "dead", 5, BackoffPolicy::kLinear, 200, 30'000, {}};
  MultiSecretReference secrets;
  secrets.protocol = KafkaProtocol::kSaslSsl;
  secrets.references.push_back(
      SecretReference{Reference{"u", "ns", "secret", "12", "Secret", "v1", {}},
                      {KeyFieldReference{"user.crt", SecretField::kUserCrt, {}}},
                      {}});
  resource.auth = secrets;
  resource.cloud_event_overrides = TextMap{{"team", "a"}};
  resource.reference = Reference{"u-1", "ns", "trigger", "9", "Trigger", "v1", {}};
  Egress egress;
  egress.consumer_group = "knative-trigger-ns-name";
  egress.destination = "https://sink.example/path";
  egress.destination_ca_certs = "PEM";
  egress.destination_audience = "sink";
  egress.reply_strategy = ReplyStrategy::kUrl;
  egress.reply_url = "http://reply/";
  egress.reply_url_ca_certs = "PEM";
  egress.reply_url_audience = "reply";
  egress.filter = TextMap{{"type", "order"}};
  DialectedFilter all;
  all.kind = DialectedFilter::Kind::kAll;
  DialectedFilter negated;
  negated.kind = DialectedFilter::Kind::kNot;
  negated.filters = {attributes_filter(DialectedFilter::Kind::kSuffix, {{"type", ".old"}})};
  all.filters = {attributes_filter(DialectedFilter::Kind::kPrefix, {{"source", "/a"}}), negated};
  egress.dialected_filter = {all};
  egress.uid = "e-1";
  egress.egress_config = EgressConfig{"", "", "", 3, BackoffPolicy::kExponential, 100, 0, {}};
  egress.delivery_order = DeliveryOrder::kOrdered;
  egress.key_type = KeyType::kByteArray;
  egress.reference = Reference{"u-2", "ns", "trigger", "", "", "", {}};
  egress.vreplicas = 4;
  egress.feature_flags = EgressFeatureFlags{true, true, {}};
  egress.oidc_service_account_name = "robot";
  resource.egresses = {egress};
  contract.resources = {resource};
  return contract;
}

Contract must_parse(std::string_view bytes) {
  auto parsed = parse_contract(bytes);
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().to_string());
  return parsed ? std::move(*parsed) : Contract();
}

std::string error_of(std::string_view bytes) {
  const auto parsed = parse_contract(bytes);
  return parsed ? "" : std::string(parsed.error().message());
}

constexpr std::array kFormats{ContractFormat::kJson, ContractFormat::kProtobuf};

TEST(Contract, KP_2_BothFormatsCarryEveryField) {
  const Contract contract = full_contract();
  for (const ContractFormat format : kFormats) {
    ContractFormat seen = ContractFormat::kJson;
    const auto parsed = parse_contract(encode_contract(contract, format), &seen);
    ASSERT_TRUE(parsed) << parsed.error().to_string();
    EXPECT_EQ(*parsed, contract);
    EXPECT_EQ(seen, format);
  }
}

TEST(Contract, KP_2_JsonIsWrittenAsKnativeWritesIt) {
  Contract contract;
  contract.generation = 7;
  ContractResource resource;
  resource.uid = "r";
  resource.topics = {"t"};
  resource.auth = AbsentAuth();
  Egress egress;
  egress.uid = "e";
  egress.vreplicas = 2;
  egress.delivery_order = DeliveryOrder::kOrdered;
  egress.reply_strategy = ReplyStrategy::kOriginalTopic;
  egress.egress_config = EgressConfig{"", "", "", 3, BackoffPolicy::kLinear, 100, 0, {}};
  resource.egresses = {egress};
  contract.resources = {resource};
  EXPECT_EQ(encode_contract(contract, ContractFormat::kJson),
            R"({"generation":"7","resources":[{"absentAuth":{},"egresses":[{"deliveryOrder":)"
            R"("ORDERED","egressConfig":{"backoffDelay":"100","backoffPolicy":"Linear","retry":3},)"
            R"("replyToOriginalTopic":{},"uid":"e","vReplicas":2}],"topics":["t"],"uid":"r"}]})");
  EXPECT_EQ(encode_contract(contract, ContractFormat::kProtobuf),
            std::string("\x08\x07\x12\x1b\x0a\x01r\x12\x01t\x32\x11\x22\x00\x32\x01"
                        "e\x3a\x06\x10\x03\x18\x01\x20\x64\x40\x01\x68\x02\x3a\x00",
                        31));
}

TEST(Contract, KP_2_NumbersAndEnumsMayBeEither) {
  const Contract contract =
      must_parse(R"({"generation":7,"resources":[{"egresses":[{"deliveryOrder":1,"vReplicas":"2",)"
                 R"("egressConfig":{"backoffDelay":100,"retry":"3"}}]}]})");
  EXPECT_EQ(contract.generation, 7U);
  const Egress& egress = contract.resources.at(0).egresses.at(0);
  EXPECT_EQ(egress.delivery_order, DeliveryOrder::kOrdered);
  EXPECT_EQ(egress.vreplicas, 2);
  EXPECT_EQ(egress.egress_config->backoff_delay, 100U);
  EXPECT_EQ(egress.egress_config->retry, 3U);
  EXPECT_EQ(must_parse(R"({"generation":"18446744073709551615"})").generation, ~std::uint64_t{0});
}

TEST(Contract, KP_6_EqualContractsGiveEqualBytesInWhateverOrder) {
  Contract contract = full_contract();
  contract.resources.push_back(contract.resources[0]);
  contract.resources[1].uid = "r-0";
  contract.resources[1].egresses.push_back(contract.resources[1].egresses[0]);
  contract.resources[1].egresses[1].uid = "e-0";
  Contract turned = contract;
  std::reverse(turned.resources.begin(), turned.resources.end());
  std::reverse(turned.resources[0].egresses.begin(), turned.resources[0].egresses.end());
  for (const ContractFormat format : kFormats) {
    EXPECT_EQ(encode_contract(contract, format), encode_contract(turned, format));
    EXPECT_EQ(must_parse(encode_contract(contract, format)).resources[0].uid, "r-0");
  }
  turned.generation = 8;
  turned.epoch = 9;
  EXPECT_TRUE(same_content(contract, turned));
  turned.resources[0].egresses[0].vreplicas = 5;
  EXPECT_FALSE(same_content(contract, turned));
}

TEST(Contract, KP_2_UnknownFieldsAreKeptWhereTheyWere) {
  const std::string json =
      R"({"later":[1],"resources":[{"egresses":[{"egressConfig":{"format":"json","retry":1},)"
      R"("more":{"a":"b"},"uid":"e"}],"other":1,"uid":"r"}]})";
  EXPECT_EQ(encode_contract(must_parse(json), ContractFormat::kJson), json);

  std::string egress, resource, wire;
  krm::put_bytes(egress, 6, "e");
  krm::put_number(egress, 77, 5);
  krm::put_fixed64(egress, 78, 6);
  krm::put_bytes(resource, 1, "r");
  krm::put_bytes(resource, 6, egress);
  krm::put_bytes(resource, 99, "later");
  krm::put_bytes(wire, 2, resource);
  wire += "\xFD\x01\x01\x02\x03\x04";  // number 31, four bytes
  EXPECT_EQ(encode_contract(must_parse(wire), ContractFormat::kProtobuf), wire);
}

TEST(Contract, KP_2_ARewriteKeepsWhatALaterProgramHasWritten) {
  const Contract old = must_parse(
      R"({"later":1,"resources":[{"egresses":[{"egressConfig":{"format":"json"},"more":2,)"
      R"("uid":"e"},{"more":9,"uid":"gone"}],"other":3,"uid":"r"}]})");
  Contract fresh;
  fresh.generation = 2;
  ContractResource resource;
  resource.uid = "r";
  Egress egress;
  egress.uid = "e";
  egress.vreplicas = 1;
  egress.egress_config = EgressConfig();
  resource.egresses = {egress};
  fresh.resources = {resource};
  keep_unknown_fields(fresh, old);
  EXPECT_EQ(encode_contract(fresh, ContractFormat::kJson),
            R"({"generation":"2","later":1,"resources":[{"egresses":[{"egressConfig":)"
            R"({"format":"json"},"more":2,"uid":"e","vReplicas":1}],"other":3,"uid":"r"}]})");
}

TEST(Contract, KP_2_SizeOfAResourceIsWhatItAdds) {
  Contract contract = full_contract();
  for (const ContractFormat format : kFormats) {
    const std::size_t one = encode_contract(contract, format).size();
    Contract two = contract;
    two.resources.push_back(two.resources[0]);
    two.resources[1].uid = "r-2";
    EXPECT_EQ(encode_contract(two, format).size() - one, encoded_size(two.resources[1], format));
  }
}

TEST(Contract, KP_2_ErrorsNameTheField) {
  EXPECT_EQ(error_of(R"({"resources":[{},{"egresses":[{"vReplicas":2147483648}]}]})"),
            "resources[1].egresses[0].vReplicas: must be an integer in its range");
  EXPECT_EQ(error_of(R"({"generation":-1})"), "generation: must be an integer in its range");
  EXPECT_EQ(error_of(R"({"resources":{}})"), "resources: must be a list");
  EXPECT_EQ(error_of(R"({"resources":[{"topics":[1]}]})"), "resources[0].topics: must be a text");
  EXPECT_EQ(error_of(R"({"resources":[{"egresses":[{"filter":{"attributes":{"a":1}}}]}]})"),
            "resources[0].egresses[0].filter.attributes.a: must be a text");
  EXPECT_EQ(error_of(R"({"resources":[{"egresses":[{"deliveryOrder":"SOME"}]}]})"),
            "resources[0].egresses[0].deliveryOrder: has an unknown value");
  EXPECT_EQ(error_of(R"({"resources":[{"egresses":[{"replyUrl":"a","discardReply":{}}]}]})"),
            "resources[0].egresses[0].discardReply: excludes what is said besides");
  EXPECT_EQ(error_of("{"), "unexpected end of JSON input");
  std::string resource, wire;
  krm::put_bytes(resource, 1, "\xFF");
  krm::put_bytes(wire, 2, resource);
  EXPECT_EQ(error_of(wire), "resources[0].uid: is not UTF-8");
  EXPECT_EQ(error_of("\x0A\x01x"), "generation: has the wire type of something else");
  EXPECT_EQ(error_of("\x12\x05x"), "is no message of protobuf");
  EXPECT_EQ(error_of("\x12\x01x"), "resources[0]: is no message of protobuf");
}

TEST(Contract, KP_2_SizeAndDepthAreBounded) {
  const auto large = parse_contract(std::string(kMaxContractBytes + 1, ' '));
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code(), Errc::kRequestEntityTooLarge);
  const auto nested = [](std::size_t depth) {
    Contract contract;
    ContractResource& resource = contract.resources.emplace_back();
    DialectedFilter* filter = &resource.egresses.emplace_back().dialected_filter.emplace_back();
    for (std::size_t i = 1; i < depth; ++i) {
      filter->kind = DialectedFilter::Kind::kNot;
      filter = &filter->filters.emplace_back();
    }
    *filter = attributes_filter(DialectedFilter::Kind::kExact, {{"a", "b"}});
    return contract;
  };
  for (const ContractFormat format : kFormats) {
    EXPECT_EQ(error_of(encode_contract(nested(kMaxFilterDepth), format)), "");
    EXPECT_NE(
        error_of(encode_contract(nested(kMaxFilterDepth + 2), format)).find("nested too deeply"),
        std::string::npos);
  }
}

TEST(Contract, DP_6_WhatCannotBeDoneIsNamed) {
  const Contract contract = full_contract();
  const ContractResource& resource = contract.resources[0];
  const auto judged = [&](const auto& change) {
    Egress egress = resource.egresses[0];
    change(egress);
    const auto out = judge_egress(resource, egress);
    return out ? std::string() : out.error().to_string();
  };
  EXPECT_EQ(judged([](Egress&) {}), "");
  EXPECT_EQ(judged([](Egress& e) { e.destination = "ftp://a"; }),
            "Invalid: destination: URL \"ftp://a\": must begin with http:// or https://");
  EXPECT_EQ(judged([](Egress& e) { e.destination = "http://a/b?c=d"; }), "");
  EXPECT_EQ(judged([](Egress& e) { e.vreplicas = 0; }),
            "Invalid: vReplicas: must be from 1 to 1000");
  EXPECT_EQ(judged([](Egress& e) { e.consumer_group.clear(); }),
            "Invalid: consumerGroup: there is none");
  EXPECT_EQ(judged([](Egress& e) { e.egress_config->dead_letter = "relative"; }),
            "Invalid: egressConfig.deadLetter: URL \"relative\": must begin with http:// or "
            "https://");
  EXPECT_EQ(judged([](Egress& e) {
              DialectedFilter& cesql = e.dialected_filter[0].filters[1].filters[0];
              cesql.kind = DialectedFilter::Kind::kCesql;
              cesql.expression = "type = 'a'";
            }),
            "NotAcceptable: dialectedFilter[0]: cesql is not supported");
  EXPECT_EQ(judged([](Egress& e) { e.dialected_filter.emplace_back(); }),
            "Invalid: dialectedFilter[1]: says nothing");
}

}  // namespace
}  // namespace kintsugi::workers
