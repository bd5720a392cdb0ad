#include "store/etcd/internal/keys.h"

#include <gtest/gtest.h>

#include <string>

#include "store/duty.h"

namespace kintsugi::store::etcd {
namespace {

using namespace std::string_literals;

const Keys kKeys("/k/s/");

TEST(Keys, ObjectsHavePathsThatOnesCanRead) {
  EXPECT_EQ(kKeys.row("configmaps\0root:a\0default\0one"s),
            "/k/s/o/-/configmaps/root:a/default/one");
  EXPECT_EQ(kKeys.row("widgets.ex.io\0c\0w"s), "/k/s/o/ex.io/widgets/c/w");
  EXPECT_EQ(kKeys.row("widgets.ex.io:1d\0c\0w"s), "/k/s/o/ex.io/widgets:1d/c/w");
  EXPECT_EQ(kKeys.row("roles\0c\0n\0a/b%c d\x01"s), "/k/s/o/-/roles/c/n/a%2Fb%25c%20d%01");
  EXPECT_EQ(kKeys.row("kintsugi.import/1"s), "/k/s/x/kintsugi.import%2F1");
}

TEST(Keys, GR_105_RowsAreOneToOneWithKeys) {
  for (const std::string& key :
       {"configmaps\0root:a\0default\0one"s, "widgets.ex.io\0c\0w"s, "widgets.ex.io:1d\0c\0n\0w"s,
        "x"s, "\0"s, "a\0b"s, "a\0\0"s, "a\0b\0c\0d\0e"s, "pods.-\0c\0n"s, ".g\0c\0n"s, "a.\0c\0n"s,
        "a\0%2F\0/"s, "\x01raise"s, "a:b.c\0d\0e"s, "r\0c\0\0n"s}) {
    const std::string row = kKeys.row(key);
    EXPECT_EQ(kKeys.kind(row), KeyKind::kRow);
    const auto back = kKeys.store_key(row);
    ASSERT_TRUE(back) << row;
    EXPECT_EQ(*back, key);
  }
}

TEST(Keys, GR_208_FencesAreNoRows) {
  const Keys keys("/p/");
  const std::string key = keys.row(std::string(kFencePrefix) + "controllers");
  EXPECT_EQ(key, "/p/epoch/controllers");
  EXPECT_EQ(key, keys.epoch("controllers"));
  EXPECT_EQ(keys.kind(key), KeyKind::kOther);
}

TEST(Keys, WhatStrangersWrote_IsNoRow) {
  for (const char* key :
       {"/k/s/o/-/configmaps", "/k/s/o/-/configmaps/c/%zz", "/k/s/o/-/a/b/c%2f", "/k/s/meta",
        "/k/s/seat/1", "/k/s/d", "/k/other/o/-/a/b/c", "/k/s/x/", "/k/s/x/configmaps%00c%00n"}) {
    EXPECT_FALSE(kKeys.store_key(key)) << key;
  }
  EXPECT_EQ(kKeys.kind("/k/s/d"), KeyKind::kDeletions);
  EXPECT_EQ(kKeys.kind("/k/s/dd"), KeyKind::kOther);
}

}  // namespace
}  // namespace kintsugi::store::etcd
