#include "proxy/routing/late_routes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "topology/index.h"
#include "topology/testing/reports.h"

namespace kintsugi::proxy {
namespace {

using topology::Resource;

/// Notes the body that it gets.
class Noting final : public http::RequestHandler {
 public:
  explicit Noting(std::string& body) : body_(body) {}
  void on_data(std::string_view bytes, bool) noexcept override { body_ += bytes; }
  void on_close(Errc) noexcept override {}

 private:
  std::string& body_;
};

class LateRoutesTest : public ::testing::Test {
 protected:
  LateRoutesTest() : loop_("test"), view_(publisher_.attach(loop_)) {
    topology::ShardSpec spec;
    spec.name = "root";
    spec.base_url = "https://root";
    shard_ = index_.upsert_shard(spec).id;
    index_.set_synced(shard_, Resource::kWorkspaces, true);
    index_.set_synced(shard_, Resource::kLogicalClusters, true);
    index_.set_shards_listed();
    index_.upsert_cluster(shard_, {"root", {}, {}, false});
    publisher_.publish(index_.freeze());
  }
  LateRoutes::Answer hold(LateRoutes& late, const std::string& segment) {
    http::RequestHead head;
    head.target = "/clusters/" + segment;
    return late.hold(understand(std::move(head), false), segment, [this](Request held) {
      went_.push_back(held.head.target);
      return std::make_unique<Noting>(body_);
    });
  }
  void run_until(const std::function<bool()>& condition) {
    std::function<void()> look = [&] {
      if (condition()) {
        loop_.stop();
      } else {
        loop_.post(look);
      }
    };
    loop_.post(look);
    loop_.run();
  }

  net::Loop loop_;
  topology::SnapshotPublisher publisher_;
  std::shared_ptr<topology::SnapshotView> view_;
  topology::Index index_;
  topology::ShardId shard_ = 0;
  std::vector<std::string> went_;
  std::string body_;
};

TEST_F(LateRoutesTest, WhenTheWorkspaceBecomesKnown_GoesOnAtOnceWithItsBody) {
  LateRoutes late(loop_, view_, seconds(60));
  const auto request = hold(late, "root:a");
  const auto other = hold(late, "root:b");
  request->on_data("half ", false);
  index_.upsert_workspace(shard_, topology::edge("root", "a", "one"));
  publisher_.publish(index_.freeze());  // its cluster is not known yet
  run_until([&] { return view_->current().generation() == publisher_.last()->generation(); });
  EXPECT_TRUE(went_.empty());
  index_.upsert_cluster(shard_, topology::owned("one", "root", "a"));
  publisher_.publish(index_.freeze());
  run_until([&] { return !went_.empty(); });
  EXPECT_EQ(went_, std::vector<std::string>{"/clusters/root:a"});
  request->on_data("and half", true);
  EXPECT_EQ(body_, "half and half");
}

TEST_F(LateRoutesTest, WhenNothingComes_GoesOnInTheEnd) {
  LateRoutes late(loop_, view_, milliseconds(1));
  const auto request = hold(late, "root:absent");
  run_until([&] { return !went_.empty(); });
  publisher_.publish(index_.freeze());
  run_until([&] { return view_->current().generation() == publisher_.last()->generation(); });
  EXPECT_EQ(went_.size(), 1U);
}

TEST_F(LateRoutesTest, WhenTheClientLeaves_IsForgotten) {
  LateRoutes late(loop_, view_, milliseconds(1));
  hold(late, "root:a").reset();
  const auto last = hold(late, "root:b");
  run_until([&] { return !went_.empty(); });
  EXPECT_EQ(went_, std::vector<std::string>{"/clusters/root:b"});
}

TEST_F(LateRoutesTest, WhenTooManyWait_HasNoRoom) {
  LateRoutes late(loop_, view_, seconds(60));
  std::vector<LateRoutes::Answer> held;
  while (late.has_room()) {
    held.push_back(hold(late, "root:a"));
  }
  EXPECT_EQ(held.size(), 1'000U);
  EXPECT_FALSE(LateRoutes(loop_, view_, Duration::zero()).has_room());
}

}  // namespace
}  // namespace kintsugi::proxy
