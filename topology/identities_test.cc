#include "topology/identities.h"

#include <gtest/gtest.h>

#include <utility>

namespace kintsugi::topology {
namespace {

TEST(Identities, FP164_AreThoseOfKcpsOwnExports) {
  Identities all;
  EXPECT_EQ(all.of("tenancy.kcp.io", "workspaces"), "");
  all.set("tenancy.kcp.io", "h1");
  all.set("shards.core.kcp.io", "h2");
  EXPECT_EQ(all.of("tenancy.kcp.io", "workspaces"), "h1");
  EXPECT_EQ(all.of("tenancy.kcp.io", ""), "h1");
  EXPECT_EQ(all.of("core.kcp.io", "shards"), "h2");
  EXPECT_EQ(all.of("core.kcp.io", ""), "h2");
  for (const auto& [group, resource] : {std::pair{"core.kcp.io", "logicalclusters"},
                                        {"kcp.io", "shards"},
                                        {"", "workspaces"},
                                        {"", ""},
                                        {"apis.kcp.io", "apiexports"},
                                        {"io", "x"}}) {
    EXPECT_EQ(all.of(group, resource), "") << group << " " << resource;
  }
  all.set("tenancy.kcp.io", "h3");
  EXPECT_EQ(all.of("tenancy.kcp.io", "workspaces"), "h3");
}

}  // namespace
}  // namespace kintsugi::topology
