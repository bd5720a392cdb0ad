#include "workers/messaging/control/internal/cached_address.h"

#include <gtest/gtest.h>

#include <string>

#include "workers/messaging/control/internal/kinds.h"

namespace kintsugi::workers {
namespace {

krm::Json object(std::string_view text) { return std::move(*krm::Json::parse(text)); }

constexpr std::string_view kQueue = R"({"apiVersion":"enmasse.io/v1beta1","kind":"Address",
  "metadata":{"name":"space1.orders","namespace":"default","uid":"0a1b2c3d-0000-4000-8000-00ffee112233",
    "creationTimestamp":"2026-11-27T10:00:00Z","generation":3,"resourceVersion":"4711",
    "finalizers":["enmasse.io/kintsugi"]},
  "spec":{"address":"orders","type":"queue","plan":"small"},
  "status":{"phase":"Active","isReady":true}})";

/// What is kept says the same as what parse_address() and cached_meta() read.
void expect_same(const krm::Json& from, const shards::ObjectKey& key) {
  const CachedAddress cached(key, from);
  const QueueKey at{key.cluster, key.ns, key.name};
  const Parsed<MessagingAddress> wanted = parse_address(from), has = cached.parsed(at);
  EXPECT_EQ(has.valid, wanted.valid);
  EXPECT_EQ(has.conditions.size(), wanted.conditions.size());
  const MessagingAddress &a = has.object, &b = wanted.object;
  EXPECT_EQ(a.id.uid, b.id.uid);
  EXPECT_EQ(a.id.name, key.name);
  EXPECT_EQ(a.id.cluster, key.cluster);
  EXPECT_EQ(a.id.created, b.id.created);
  EXPECT_EQ(a.id.generation, b.id.generation);
  EXPECT_EQ(a.space, b.space);
  EXPECT_EQ(a.address, b.address);
  EXPECT_EQ(a.plan, b.plan);
  EXPECT_EQ(a.topic, b.topic);
  EXPECT_EQ(a.type, b.type);
  EXPECT_EQ(a.max_consumers, b.max_consumers);
  EXPECT_EQ(a.deleting, b.deleting);
  EXPECT_EQ(a.reschedule, b.reschedule);
  EXPECT_EQ(a.extra().overrides, b.extra().overrides);
  EXPECT_EQ(a.extra().forwarders.size(), b.extra().forwarders.size());
  EXPECT_EQ(cached.space(key.name), b.space);
  EXPECT_EQ(cached.plan(), b.plan);
  const CachedMeta meta = cached_meta(from);
  EXPECT_EQ(cached.meta().resource_version, meta.resource_version);
  EXPECT_EQ(cached.meta().finalizers, meta.finalizers);
  for (const std::string_view one : {kMessagingFinalizer, std::string_view("other/one")}) {
    EXPECT_EQ(cached.has_finalizer(one), meta.has_finalizer(one));
  }
  const krm::Json* const status = from.find("status");
  EXPECT_EQ(cached.status_json().dump(), status == nullptr ? "{}" : status->dump());
}

TEST(CachedAddress, WhateverIsRead_ComesBack) {
  expect_same(object(kQueue), {"root", "default", "space1.orders"});
  krm::Json odd = object(kQueue);
  odd["metadata"]["uid"] = "0A1B2C3D-0000-4000-8000-00FFEE112233";  // not as servers write it
  odd["metadata"]["finalizers"].push_back("other/one");
  odd["metadata"]["deletionTimestamp"] = "2026-11-27T10:00:01Z";
  odd["spec"]["address"] = std::string("a\0b", 3);
  odd["spec"]["topic"] = std::string(300, 't');
  odd["spec"]["forwarders"] = krm::Json::array();
  odd["spec"]["queue"] = object(R"({"ttl":"5s","deadLetterQueue":"dead"})");
  odd["status"]["text"] = std::string(70'000, 'x');
  expect_same(odd, {"root", "default", "space1.orders"});
  expect_same(
      object(R"({"kind":"MessagingAddress","metadata":{"name":"a.b"},"spec":{"queue":{}}})"),
      {"root", "default", "a.b"});
  expect_same(object(R"({"kind":"Address","metadata":{"name":"alone"},"spec":{}})"),
              {"root", "default", "alone"});
}

TEST(CachedAddress, WhenItIsAQueueThatIsReady_TakesLittle) {
  EXPECT_LE(sizeof(CachedAddress), 40U);
}

}  // namespace
}  // namespace kintsugi::workers
