#include "workers/runtime/endpoints/endpoint_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

using std::chrono::hours;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> urls_of(const std::vector<UnitEndpoint>& units) {
  std::vector<std::string> urls;
  for (const UnitEndpoint& unit : units) {
    EXPECT_EQ(unit.name, unit_name(unit.url));
    urls.push_back(unit.url);
  }
  return urls;
}

const std::string kA = "https://p/a", kB = "https://p/b", kC = "https://p/c", kD = "https://p/d";

class EndpointSetTest : public ::testing::Test {
 protected:
  EndpointChange update(const std::vector<std::string>& urls) { return set_.update(urls, now_); }

  EndpointSet set_{{"p", {}}};
  TimePoint now_{seconds(1'000'000)};
};

TEST_F(EndpointSetTest, RT_T010_EveryDistinctUrlIsAUnit) {
  const auto change = update({kB, kA, kC, kA + "/", "https://P:443/b"});
  EXPECT_THAT(urls_of(change.start), ElementsAre(kA, kB, kC));
  EXPECT_THAT(change.drain, IsEmpty());
  EXPECT_THAT(change.refused, IsEmpty());
  EXPECT_THAT(urls_of(set_.running()), ElementsAre(kA, kB, kC));
  EXPECT_THAT(update({kA, kB, kC}).start, IsEmpty());
}

TEST_F(EndpointSetTest, RT_T011_OneAddedThenOneRemoved) {
  (void)update({kA, kB, kC});
  auto change = update({kA, kB, kC, kD});
  EXPECT_THAT(urls_of(change.start), ElementsAre(kD));
  EXPECT_THAT(change.drain, IsEmpty());
  change = update({kA, kC, kD});
  EXPECT_THAT(change.start, IsEmpty());
  EXPECT_THAT(urls_of(change.drain), ElementsAre(kB));
  EXPECT_THAT(update({kA, kC, kD}).drain, IsEmpty());
  EXPECT_THAT(urls_of(set_.running()), ElementsAre(kA, kC, kD));
}

TEST_F(EndpointSetTest, RT11_ADrainIsOverdueAfterTwentySeconds) {
  (void)update({kA});
  (void)update({});
  now_ += seconds(20) - milliseconds(1);
  EXPECT_THAT(set_.overdue(now_), IsEmpty());
  now_ += milliseconds(1);
  EXPECT_THAT(set_.overdue(now_), ElementsAre(unit_name(kA)));
  EXPECT_THAT(set_.overdue(now_), IsEmpty());
  EXPECT_FALSE(set_.on_drained(unit_name(kA), now_));
  EXPECT_FALSE(set_.on_drained("unknown", now_));
}

TEST_F(EndpointSetTest, RT11_AUnitThatReturnsWhileItDrainsStartsAfterwards) {
  (void)update({kA});
  (void)update({});
  EXPECT_THAT(update({kA}).start, IsEmpty());
  EXPECT_THAT(set_.running(), IsEmpty());
  EXPECT_EQ(set_.on_drained(unit_name(kA), now_)->url, kA);
  EXPECT_THAT(urls_of(set_.running()), ElementsAre(kA));
  (void)update({});
  (void)update({kA});
  (void)update({});
  EXPECT_FALSE(set_.on_drained(unit_name(kA), now_));
  EXPECT_THAT(set_.running(), IsEmpty());
}

TEST_F(EndpointSetTest, RT11_TheJournalOfARemovedUnitIsKeptForADay) {
  (void)update({kA, kB});
  (void)update({});
  (void)set_.on_drained(unit_name(kA), now_);
  (void)set_.on_drained(unit_name(kB), now_);
  EXPECT_THAT(set_.expired(now_ + hours(24) - seconds(1)), IsEmpty());
  EXPECT_THAT(urls_of(update({kB}).start), ElementsAre(kB));  // it returned
  EXPECT_THAT(set_.expired(now_ + hours(24)), ElementsAre(unit_name(kA)));
  EXPECT_THAT(set_.expired(now_ + hours(24)), IsEmpty());
}

TEST_F(EndpointSetTest, RT_T012_AForeignHostIsRefusedOnceAndTheOthersRun) {
  const std::string foreign = "https://me:secret@evil/x", other = "https://evil/x";
  auto change = update({kA, foreign, other, ""});
  EXPECT_THAT(urls_of(change.start), ElementsAre(kA));
  EXPECT_THAT(change.refused,
              ElementsAre(RefusedEndpoint{"https://evil/x", "URL has user information"},
                          RefusedEndpoint{"https://evil/x",
                                          "host is neither the proxy nor in "
                                          "allowed_endpoint_hosts"},
                          RefusedEndpoint{"", "URL is malformed"}));
  EXPECT_THAT(update({kA, foreign, other, ""}).refused, IsEmpty());
  EXPECT_EQ(set_.refused().size(), 3U);
  EXPECT_THAT(update({kA}).refused, IsEmpty());
  EXPECT_EQ(update({kA, foreign}).refused.size(), 1U);
}

TEST_F(EndpointSetTest, RT15_ANewRuleAlsoStopsWhatRuns) {
  set_.set_rules({"p", {"shard"}});
  (void)update({kA, "https://shard/"});
  set_.set_rules({"p", {}});
  const auto change = update({kA, "https://shard/"});
  EXPECT_THAT(urls_of(change.drain), ElementsAre("https://shard"));
  EXPECT_EQ(change.refused.size(), 1U);
}

TEST_F(EndpointSetTest, RT10_NothingIsUnbounded) {
  std::vector<std::string> urls;
  for (std::size_t i = 0; i < EndpointSet::kMaxUnits + 5; ++i) {
    urls.push_back("https://p/" + std::to_string(10'000 + i));
  }
  auto change = update(urls);
  EXPECT_EQ(change.start.size(), EndpointSet::kMaxUnits);
  EXPECT_EQ(change.refused.size(), 5U);
  EXPECT_EQ(change.refused[0].reason, "more than 1,024 units");
  for (int generation = 0; generation < 3; ++generation) {
    change = update({});
    for (const UnitEndpoint& unit : change.drain) {
      (void)set_.on_drained(unit.name, now_ += seconds(1));
    }
    (void)set_.expired(now_);
    for (std::string& url : urls) {
      url += "x";
    }
    EXPECT_EQ(update(urls).start.size(), EndpointSet::kMaxUnits);
  }
  (void)update({});
  for (const std::string& url : urls) {
    (void)set_.on_drained(unit_name(url), now_ += seconds(1));
  }
  EXPECT_EQ(set_.expired(now_).size(), EndpointSet::kMaxUnits);  // the older half
}

}  // namespace
}  // namespace kintsugi::workers
