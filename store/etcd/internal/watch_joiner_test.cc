#include "store/etcd/internal/watch_joiner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kintsugi::store::etcd {
namespace {

using ::testing::ElementsAre;

constexpr std::size_t kLimit = 10'000;

/// "k@5" is a put of k at revision 5.
WatchResponse response(std::uint64_t revision,
                       const std::vector<std::pair<std::string_view, std::uint64_t>>& events,
                       bool fragment = false) {
  WatchResponse out;
  out.header.revision = revision;
  out.fragment = fragment;
  for (const auto& [key, at] : events) {
    WatchedEvent event;
    event.kv.key = key;
    event.kv.mod_revision = at;
    event.kv.create_revision = at;
    out.events.push_back(event);
  }
  return out;
}

std::vector<std::string> keys(const Joined& joined) {
  std::vector<std::string> out;
  for (const RevisionGroup& group : joined.groups) {
    std::string line = std::to_string(group.revision) + ":";
    for (const JoinedEvent& event : group.events) {
      line += event.key;
    }
    out.push_back(line);
  }
  return out;
}

TEST(WatchJoiner, GR_112_EventsOfARevisionStayTogether) {
  WatchJoiner joiner(4, kLimit);
  const Joined joined = joiner.on_response(response(7, {{"a", 5}, {"b", 5}, {"c", 7}}));
  EXPECT_EQ(joined.kind, Joined::Kind::kGroups);
  EXPECT_THAT(keys(joined), ElementsAre("5:ab", "7:c"));
  EXPECT_EQ(joiner.position(), 7U);
}

TEST(WatchJoiner, GR_112_FragmentsAreJoined_WholeRevisionsGoOn) {
  WatchJoiner joiner(4, kLimit);
  EXPECT_EQ(joiner.on_response(response(9, {{"a", 5}}, true)).kind, Joined::Kind::kNothing);
  EXPECT_EQ(joiner.position(), 4U) << "more of it may come";
  const Joined middle = joiner.on_response(response(9, {{"b", 5}, {"c", 6}}, true));
  EXPECT_THAT(keys(middle), ElementsAre("5:ab"));
  EXPECT_EQ(joiner.position(), 5U);
  EXPECT_THAT(keys(joiner.on_response(response(9, {{"d", 6}, {"e", 9}}))),
              ElementsAre("6:cd", "9:e"));
}

TEST(WatchJoiner, GR_113_ProgressIsAnAnswerWithoutEvents) {
  WatchJoiner joiner(4, kLimit);
  const Joined joined = joiner.on_response(response(9, {}));
  EXPECT_EQ(joined.kind, Joined::Kind::kProgress);
  EXPECT_EQ(joined.revision, 9U);
  EXPECT_EQ(joiner.on_response(response(3, {})).kind, Joined::Kind::kNothing) << "it is older";
  EXPECT_EQ(joiner.on_response(response(9, {}, true)).kind, Joined::Kind::kNothing);
}

TEST(WatchJoiner, GR_116_WhatIsKnownIsLeftOut) {
  WatchJoiner joiner(6, kLimit);
  EXPECT_THAT(keys(joiner.on_response(response(7, {{"a", 5}, {"b", 6}, {"c", 7}}))),
              ElementsAre("7:c"));
  EXPECT_THAT(keys(joiner.on_response(response(7, {{"c", 7}}))), ElementsAre());
}

TEST(WatchJoiner, GR_116_AStreamThatGoesBackIsGivenUp) {
  const WatchResponse good = response(7, {{"a", 5}, {"b", 7}});
  for (const WatchResponse& bad : {response(8, {{"a", 6}}), response(6, {}),
                                   response(9, {{"a", 10}}), response(9, {{"a", 0}})}) {
    WatchJoiner joiner(4, kLimit);
    EXPECT_EQ(joiner.on_response(good).kind, Joined::Kind::kGroups);
    EXPECT_EQ(joiner.on_response(bad).kind, Joined::Kind::kBroken);
    EXPECT_EQ(joiner.on_response(response(20, {{"z", 20}})).kind, Joined::Kind::kBroken);
  }
}

TEST(WatchJoiner, EndlessFragmentsHaveAnEnd) {
  WatchJoiner joiner(4, kLimit);
  const std::string value(1'000, 'x');
  Joined::Kind kind = Joined::Kind::kNothing;
  int count = 0;
  while (kind == Joined::Kind::kNothing && ++count < 100) {
    WatchResponse one = response(5, {{"a", 5}}, true);
    one.events[0].kv.value = value;
    kind = joiner.on_response(one).kind;
  }
  EXPECT_EQ(kind, Joined::Kind::kBroken);
  EXPECT_LT(count, 11);
}

TEST(WatchJoiner, GR_115_EndsTellWhy) {
  WatchJoiner joiner(4, kLimit);
  WatchResponse created = response(9, {});
  created.created = true;
  EXPECT_EQ(joiner.on_response(created).kind, Joined::Kind::kCreated);
  WatchResponse ended = response(9, {});
  ended.canceled = true;
  ended.cancel_reason = "etcdserver: no leader";
  const Joined canceled = joiner.on_response(ended);
  EXPECT_EQ(canceled.kind, Joined::Kind::kCanceled);
  EXPECT_EQ(canceled.reason, "etcdserver: no leader");
  ended.compact_revision = 8;
  const Joined compacted = joiner.on_response(ended);
  EXPECT_EQ(compacted.kind, Joined::Kind::kCompacted);
  EXPECT_EQ(compacted.revision, 8U);
}

}  // namespace
}  // namespace kintsugi::store::etcd
