#include "proxy/console/internal/viewer_scope.h"

#include <gtest/gtest.h>

namespace kintsugi::proxy {
namespace {

using krm::Json;

ViewRows streams() {
  const auto row = [](const char* id, const char* user, const char* share) {
    return Json::object({{"id", id},
                         {"user", user},
                         {"share", share},
                         {"loop", "data-0"},
                         {"shards", Json::array({Json::object({{"name", "a"}})})}});
  };
  return {row("1", "ann", ""),
          row("2", "bob", ""),
          row("3", "ann", "reviewed"),
          row("4", "system:serviceaccount:default:x", ""),
          row("5", "ann [cluster:c1]", ""),
          row("6", "", "")};
}

std::string ids(const ViewRows& rows) {
  std::string out;
  for (const Json& row : rows) {
    out += row.text({"id"});
  }
  return out;
}

TEST(ViewerScope, OP_704_OfWatchesOnlyHisOwnAreSeen) {
  ViewerScope ann;
  ann.user = "ann";
  const ViewRows seen = part_of("streams", streams(), ann);
  EXPECT_EQ(ids(seen), "1");
  EXPECT_EQ(seen[0].find("loop"), nullptr);
  EXPECT_EQ(seen[0].find("shards")->size(), 0U);
  ViewerScope account;
  account.user = "system:serviceaccount:default:x";
  EXPECT_EQ(ids(part_of("streams", streams(), account)), "") << "accounts of others have that name";
  EXPECT_EQ(ids(part_of("streams", streams(), ViewerScope{})), "");
}

TEST(ViewerScope, OP_704_WithoutARightThereIsLittle) {
  ViewerScope nobody;
  nobody.user = "ann";
  EXPECT_EQ(nobody.sight("overview"), Sight::kPart);
  for (const std::string_view name :
       {"shards", "slices", "partitions", "sets", "workers", "events", "explain", "anything"}) {
    EXPECT_EQ(nobody.sight(name), Sight::kNothing) << name;
  }
  const ViewRows rows = {Json::object({{"id", "overview"},
                                       {"version", "1"},
                                       {"ready", true},
                                       {"checks", "secret"},
                                       {"clusters", 3}})};
  EXPECT_EQ(part_of("overview", rows, nobody)[0].dump(),
            R"({"id":"overview","ready":true,"version":"1"})");
  EXPECT_TRUE(part_of("workers", rows, nobody).empty());
  EXPECT_TRUE(part_of("events", rows, nobody).empty());
}

TEST(ViewerScope, OP_704_ShardsWithoutTheirSecrets_ObjectsOfOneCluster) {
  ViewerScope scope;
  scope.user = "ann";
  const ViewRows shards = {Json::object(
      {{"id", "a"}, {"cause", "x"}, {"urls", "y"}, {"certificateDays", 1}, {"up", true}})};
  EXPECT_TRUE(part_of("shards", shards, scope).empty());
  scope.lists_shards = true;
  EXPECT_EQ(part_of("shards", shards, scope)[0].dump(), R"({"id":"a","up":true})");
  const ViewRows slices = {Json::object({{"id", "1"}, {"cluster", "c1"}}),
                           Json::object({{"id", "2"}, {"cluster", "c2"}}),
                           Json::object({{"id", "3"}, {"cluster", ""}})};
  EXPECT_TRUE(part_of("slices", slices, scope).empty());
  scope.cluster_of["slices"] = "c2";
  EXPECT_EQ(ids(part_of("slices", slices, scope)), "2");
  EXPECT_TRUE(part_of("partitions", slices, scope).empty());
}

TEST(ViewerScope, OP_704_ARightShowsEverything) {
  ViewerScope scope;
  scope.full.insert("events");
  EXPECT_EQ(scope.sight("events"), Sight::kAll);
  ViewerScope administrator;
  administrator.is_administrator = true;
  EXPECT_EQ(administrator.sight("workers"), Sight::kAll);
}

}  // namespace
}  // namespace kintsugi::proxy
