#include "cmd/kintsugi/store_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace kintsugi::cmd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(StoreFlags, WithoutAny_ItIsLmdb) {
  const auto params = understood_store({});
  ASSERT_TRUE(params);
  EXPECT_TRUE(params->endpoints.empty());
}

TEST(StoreFlags, MembersAndFilesAreTaken) {
  StoreFlags flags;
  flags.store = "etcd=https://a:2379,https://b:2379";
  flags.prefix = "/p";
  flags.ca_file = "/ca";
  flags.cert_file = "/crt";
  flags.key_file = "/key";
  flags.compaction = "own";
  const auto params = understood_store(flags);
  ASSERT_TRUE(params) << params.error().to_string();
  EXPECT_THAT(params->endpoints, ElementsAre("https://a:2379", "https://b:2379"));
  EXPECT_EQ(params->prefix, "/p");
  EXPECT_EQ(params->ca_file, "/ca");
  EXPECT_TRUE(params->compacts);
}

TEST(StoreFlags, WhatDoesNotGoTogether_IsNamed) {
  using Change = std::function<void(StoreFlags&)>;
  const auto fault = [](const Change& change, bool of_etcd = true) {
    StoreFlags flags;
    flags.store = of_etcd ? "etcd=https://a:2379" : "lmdb";
    change(flags);
    const auto params = understood_store(flags);
    return params ? std::string() : std::string(params.error().message());
  };
  EXPECT_THAT(fault([](StoreFlags& flags) { flags.store = "paper"; }), HasSubstr("--store"));
  EXPECT_THAT(fault([](StoreFlags& flags) { flags.store = "etcd="; }), HasSubstr("--store"));
  EXPECT_THAT(fault([](StoreFlags& flags) { flags.store = "etcd=a"; }),
              HasSubstr("\"a\" is no URL"));
  EXPECT_THAT(fault([](StoreFlags& flags) { flags.prefix = "p"; }), HasSubstr("--prefix"));
  EXPECT_THAT(fault([](StoreFlags& flags) { flags.cert_file = "c"; }),
              HasSubstr("--etcd-key-file"));
  EXPECT_THAT(fault([](StoreFlags& flags) { flags.user = "u"; }),
              HasSubstr("--etcd-password-file"));
  EXPECT_THAT(fault([](StoreFlags& flags) { flags.compaction = "x"; }),
              HasSubstr("--etcd-compaction"));
  EXPECT_THAT(fault([](StoreFlags& flags) { flags.insecure = true; }, false),
              HasSubstr("--etcd-insecure"));
}

}  // namespace
}  // namespace kintsugi::cmd
