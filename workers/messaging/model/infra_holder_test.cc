#include "workers/messaging/model/infra_holder.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

TEST(InfraHolder, RT14_NamesOfEntitiesStayThoseOfTheFirstShard) {
  krm::Json status = krm::Json::object();
  const InfraHolder none = infra_holder(status, "shard-1");
  EXPECT_EQ(none, (InfraHolder{"", "shard-1", 0}));
  write_holder(status, next_holder(none, "shard-1"));
  EXPECT_EQ(infra_holder(status, "shard-2"), (InfraHolder{"shard-1", "shard-1", 1}));
  write_holder(status, next_holder(infra_holder(status, "shard-2"), "shard-2"));
  EXPECT_EQ(infra_holder(status, "shard-3"), (InfraHolder{"shard-2", "shard-1", 2}));
}

TEST(InfraHolder, RT14_WhatAUserWroteIsNoNameOfAnEntity) {
  for (const std::string_view text :
       {R"({"holder":{"shard":"a","names":"Über","epoch":-4}})",
        R"({"holder":{"shard":"a","names":"x.y","epoch":"7"}})", R"({"holder":{"shard":"a"}})",
        R"({"holder":{"shard":"","names":"other"}})", R"({"holder":[]})"}) {
    const InfraHolder read = infra_holder(*krm::Json::parse(text), "mine");
    EXPECT_EQ(read.names, "mine") << text;
    EXPECT_EQ(read.epoch, 0) << text;
  }
}

}  // namespace
}  // namespace kintsugi::workers
