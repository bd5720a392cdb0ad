#include <gtest/gtest.h>

#include <tuple>

#include "workers/runtime/placement/internal/placement_world.h"
#include "workers/runtime/placement/placement.h"

namespace kintsugi::workers {
namespace {

Host roomy_pod(std::int32_t ordinal, std::int64_t capacity) {
  Host host;
  host.id = "p" + std::to_string(ordinal);
  host.ordinal = ordinal;
  host.capacity = capacity;
  return host;
}

Claim plain_claim(const std::string& key, std::int64_t wanted, std::int64_t created = 0) {
  Claim claim;
  claim.key = claim.uid = key;
  claim.wanted = wanted;
  claim.created = created;
  return claim;
}

std::string placed_text(const std::vector<Placed>& list) {
  std::string all;
  for (const Placed& placed : list) {
    all += std::to_string(placed.n) + "@" + placed.host + " ";
  }
  return all;
}

Delta decide_and_write(Placement& pool, Claim& claim) {
  Delta delta = must(pool.schedule(claim));
  if (delta.write) {
    claim.committed = delta.placements;
    pool.write_succeeded(claim.key, delta.placements);
  }
  return delta;
}

TEST(Placement, AClosedHostKeepsWhatItHasAndGetsNothing) {
  Placement pool{{}};
  Host first = roomy_pod(0, 10);
  must(pool.host_changed(first));
  Claim claim = plain_claim("g", 4);
  decide_and_write(pool, claim);
  first.closed = true;
  must(pool.host_changed(first));
  claim.wanted = 6;
  Delta delta = decide_and_write(pool, claim);
  EXPECT_EQ(placed_text(delta.placements), "4@p0 ");
  EXPECT_EQ(delta.pending, 2);
  EXPECT_EQ(delta.reason, Pending::kNoRoom);
  std::ignore = pool.take_due();
  must(pool.host_changed(roomy_pod(1, 10)));
  EXPECT_EQ(pool.take_due(), std::vector<std::string>{"g"});
  EXPECT_EQ(placed_text(decide_and_write(pool, claim).placements), "4@p0 2@p1 ");
  claim.wanted = 3;
  EXPECT_EQ(placed_text(decide_and_write(pool, claim).placements), "3@p0 ");
  EXPECT_EQ(pool.room("p0"), 0);
  Claim other = plain_claim("h", 12);
  EXPECT_EQ(placed_text(decide_and_write(pool, other).placements), "10@p1 ");
  first.closed = false;  // it is back: there is room
  must(pool.host_changed(first));
  EXPECT_EQ(pool.take_due(), std::vector<std::string>{"h"});
  EXPECT_EQ(placed_text(decide_and_write(pool, other).placements), "2@p0 10@p1 ");
  EXPECT_EQ(pool.held("p0"), 5);
}

TEST(Placement, EntriesAreASecondCapacity) {
  Placement pool{{.new_host_capacity = 10, .new_host_entries = 100}};
  for (int i = 0; i < 2; ++i) {
    Host host = roomy_pod(i, 10);
    host.entry_capacity = 100;
    must(pool.host_changed(host));
  }
  std::vector<Claim> claims;
  for (int i = 0; i < 4; ++i) {
    claims.push_back(plain_claim("g" + std::to_string(i), 1, i));
    claims.back().entry_size = 60;
    const Delta delta = decide_and_write(pool, claims.back());
    EXPECT_EQ(delta.pending, i < 2 ? 0 : 1);
    EXPECT_EQ(pending_name(delta.reason), i < 2 ? "" : "NoEntryRoom");
  }
  EXPECT_EQ(pool.required_hosts().hosts, 3);  // 240 of 100 each
  claims[0].wanted = 5;                       // more units where it is take no more of it
  EXPECT_EQ(placed_text(decide_and_write(pool, claims[0]).placements), "5@p0 ");
  std::ignore = pool.take_due();
  claims[1].entry_size = 30;
  decide_and_write(pool, claims[1]);
  EXPECT_EQ(pool.take_due(), (std::vector<std::string>{"g2", "g3"}));
  EXPECT_EQ(placed_text(decide_and_write(pool, claims[2]).placements), "1@p1 ");
  EXPECT_EQ(decide_and_write(pool, claims[3]).pending, 1);
  claims[1].entry_size = 60;  // the youngest gives way
  EXPECT_EQ(placed_text(decide_and_write(pool, claims[1]).placements), "1@p1 ");
  EXPECT_EQ(pool.take_due(), (std::vector<std::string>{"g2", "g3"}));
  EXPECT_EQ(decide_and_write(pool, claims[2]).pending, 1);
  Claim bad = plain_claim("bad", 1);
  bad.entry_size = -1;
  EXPECT_FALSE(pool.schedule(bad));
}

TEST(Placement, ADecisionOfBeforeIsTakenUpAgain) {
  Placement pool{{}};
  must(pool.host_changed(roomy_pod(0, 10)));
  must(pool.host_changed(roomy_pod(1, 10)));
  Claim claim = plain_claim("g", 6);
  claim.committed = {{"p0", 6}};
  Claim other = plain_claim("h", 7);
  other.committed = {{"p1", 7}};
  pool.load(std::vector<Claim>{claim, other});
  EXPECT_FALSE(pool.adopt("g", std::vector<Placed>{{"p0", 2}, {"p1", 4}}));  // p1 has 3 left
  EXPECT_FALSE(pool.adopt("g", std::vector<Placed>{{"p0", 5}, {"p9", 1}}));
  EXPECT_FALSE(pool.adopt("x", std::vector<Placed>{{"p0", 1}}));
  EXPECT_EQ(placed_text(pool.placements("g")), "6@p0 ");
  EXPECT_TRUE(pool.adopt("g", std::vector<Placed>{{"p0", 3}, {"p1", 3}}));
  EXPECT_EQ(pool.room("p1"), 0);
  EXPECT_EQ(pool.room("p0"), 4);  // until the write has succeeded both ends hold it
  const Delta delta = must(pool.schedule(claim));
  EXPECT_TRUE(delta.empty());
  EXPECT_TRUE(delta.write);
  EXPECT_EQ(placed_text(delta.placements), "3@p0 3@p1 ");
  pool.write_succeeded("g", delta.placements);
  EXPECT_EQ(pool.room("p0"), 7);
}

}  // namespace
}  // namespace kintsugi::workers
