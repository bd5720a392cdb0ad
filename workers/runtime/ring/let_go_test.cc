#include "workers/runtime/ring/let_go.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "workers/runtime/ring/internal/ring_node.h"
#include "workers/runtime/ring/internal/ring_table.h"

namespace kintsugi::workers {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LetGo, RT14_TextsAreReadAsTheyWereWritten) {
  const std::vector<LetGo> two{{"root:a", "1"}, {"2b@c", "17"}};
  EXPECT_EQ(let_go_text(two), "root:a@1 2b@c@17");
  EXPECT_EQ(parse_let_go(let_go_text(two)), two);
  EXPECT_THAT(parse_let_go("x @ @1 y@  z@3"), ElementsAre(LetGo{"z", "3"}));
  std::string many;
  for (std::size_t i = 0; i < 2 * kMostLetGo; ++i) {
    many += "c@" + std::to_string(i) + " ";
  }
  EXPECT_EQ(parse_let_go(many).size(), kMostLetGo);
}

/// The Leases of a ring at another shard, as a server keeps them.
class LetGoTest : public ::testing::Test {
 protected:
  LeaseRecord& lease(const std::string& identity) {
    LeaseRecord& out = leases_.emplace_back();
    out.name = member_lease_name("messaging", identity);
    out.uid = "uid-" + identity;
    out.rv = std::to_string(++rv_);
    out.holder = identity;
    out.duration_s = 15;
    return out;
  }
  void renew(LeaseRecord& lease) { lease.rv = std::to_string(++rv_); }
  static void note(LeaseRecord& lease, std::string_view key, std::string_view value) {
    std::erase_if(lease.annotations, [key](const auto& one) { return one.first == key; });
    lease.annotations.emplace_back(key, value);
    std::sort(lease.annotations.begin(), lease.annotations.end());
  }
  /// One list, and what comes of its updates where their revisions are those that are stored.
  std::size_t look(Duration later = milliseconds(50)) {
    now_ += later;
    std::size_t taken = 0;
    for (LeaseWrite& write : fsm_.on_leases(leases_, now_)) {
      for (LeaseRecord& lease : leases_) {
        if (lease.uid == write.uid && lease.rv == write.rv && !refuses_) {
          lease.annotations = write.annotations;
          renew(lease);
          fsm_.on_taken(write.uid);
          ++taken;
        }
      }
    }
    return taken;
  }

  std::vector<LeaseRecord> leases_;
  std::uint64_t rv_ = 10;
  bool refuses_ = false;
  TimePoint now_{seconds(100)};
  LetGoFsm fsm_{{"messaging", {"c1", "7"}, seconds(15)}, now_};
};

TEST_F(LetGoTest, RT14_EveryMemberIsAskedAndAllMustAnswer) {
  leases_.reserve(4);
  LeaseRecord &one = lease("one"), &two = lease("two");
  for (const std::string& name :
       {coordinator_lease_name("messaging"), member_lease_name("example", "other")}) {
    LeaseRecord& other = lease(name);
    other.name = name;
  }
  EXPECT_EQ(look(), 2U);
  EXPECT_EQ(one.annotation(kLetGoAnnotation), "c1@7");
  EXPECT_EQ(one.holder, "one");
  EXPECT_EQ(look(), 0U);
  EXPECT_FALSE(fsm_.done());
  note(one, kLetGoneAnnotation, "c1@7");
  EXPECT_EQ(look(), 0U);
  EXPECT_FALSE(fsm_.done());
  note(two, kLetGoneAnnotation, "c0@1 c1@7");
  EXPECT_EQ(look(), 0U);
  EXPECT_TRUE(fsm_.done());
  EXPECT_FALSE(fsm_.gave_up());
}

TEST_F(LetGoTest, RT14_AnEarlierAnswerForTheSameClusterIsNone) {
  LeaseRecord& one = lease("one");
  note(one, kLetGoAnnotation, "c1@6 c2@1");
  note(one, kLetGoneAnnotation, "c1@6");
  EXPECT_EQ(look(), 1U);
  EXPECT_EQ(one.annotation(kLetGoAnnotation), "c2@1 c1@7");  // what was answered is gone
  (void)look();
  EXPECT_FALSE(fsm_.done());
  note(one, kLetGoAnnotation, "c2@1");  // another one asked behind the answer
  note(one, kLetGoneAnnotation, "");
  (void)look();
  EXPECT_TRUE(fsm_.done());
}

TEST_F(LetGoTest, RT14_AMemberThatHasLeftOrWhoseLeaseRanOutActsNoMore) {
  leases_.reserve(2);
  LeaseRecord &gone = lease("gone"), &stopped = lease("stopped");
  gone.holder.clear();
  EXPECT_EQ(look(), 1U);
  EXPECT_EQ(stopped.annotation(kLetGoAnnotation), "c1@7");
  (void)look();  // the update is the last thing that was written to it
  (void)look(seconds(14));
  EXPECT_FALSE(fsm_.done());
  (void)look(seconds(1));
  EXPECT_TRUE(fsm_.done());
  EXPECT_FALSE(fsm_.gave_up());
}

TEST_F(LetGoTest, RT14_ALostUpdateIsSentAgain) {
  LeaseRecord& one = lease("one");
  refuses_ = true;
  (void)look();
  EXPECT_THAT(one.annotations, IsEmpty());
  renew(one);
  refuses_ = false;
  EXPECT_EQ(look(), 1U);
  EXPECT_EQ(one.annotation(kLetGoAnnotation), "c1@7");
}

TEST_F(LetGoTest, RT14_TheWaitHasABound) {
  LeaseRecord& old = lease("old");
  for (int second = 0; second < 29; ++second) {
    renew(old);
    (void)look(seconds(1));
    ASSERT_FALSE(fsm_.done()) << second;
  }
  renew(old);
  (void)look(seconds(1));
  EXPECT_TRUE(fsm_.gave_up());
}

TEST_F(LetGoTest, RT14_AShardOutOfReachIsWaitedForAsLongAsALease) {
  fsm_.on_unreadable(now_ + seconds(14));
  EXPECT_FALSE(fsm_.done());
  fsm_.on_unreadable(now_ + seconds(15));
  EXPECT_TRUE(fsm_.done());
}

TEST_F(LetGoTest, RT14_NobodyThereIsDoneAtOnce) {
  (void)look();
  EXPECT_TRUE(fsm_.done());
}

/// The member's side: RingNode finds what it is asked.
class AskedTest : public ::testing::Test {
 protected:
  AskedTest() {
    RingNodeParams params;
    params.role = "messaging";
    params.identity = "me";
    node_.emplace(params);
    (void)node_->start(now_);
    RingAnswer none;
    none.kind = RingAnswer::Kind::kMissing;
    const RingOutput looked = node_->on_answer(RingOp::Channel::kMember, none, now_);
    EXPECT_EQ(looked.ops.at(0).kind, RingOp::Kind::kCreateLease);
    stored_ = written(looked.ops.at(0).lease, "2");
    (void)node_->on_answer(RingOp::Channel::kMember, with(stored_), now_);
    EXPECT_TRUE(node_->member_lease().holder());
  }
  static LeaseRecord written(const LeaseWrite& write, const std::string& rv) {
    LeaseRecord out;
    out.name = write.name;
    out.uid = "u";
    out.rv = rv;
    out.holder = write.holder;
    out.duration_s = write.duration_s;
    out.transitions = write.transitions;
    out.annotations = write.annotations;
    return out;
  }
  static RingAnswer with(const LeaseRecord& lease) {
    RingAnswer out;
    out.kind = RingAnswer::Kind::kOk;
    out.leases = {lease};
    return out;
  }
  static const RingOp* member_op(const RingOutput& output) {
    for (const RingOp& op : output.ops) {
      if (op.channel == RingOp::Channel::kMember) {
        return &op;
      }
    }
    return nullptr;
  }

  TimePoint now_{seconds(100)};
  std::optional<RingNode> node_;
  LeaseRecord stored_;
};

TEST_F(AskedTest, RT14_TheWatchTellsItAtOnceAndTheAnswerDoesNotWait) {
  stored_.rv = "3";
  stored_.annotations.emplace_back(kLetGoAnnotation, "c1@7");
  std::sort(stored_.annotations.begin(), stored_.annotations.end());
  EXPECT_EQ(node_->on_lease_event(stored_, now_).asked, "c1@7");
  EXPECT_EQ(node_->on_lease_event(stored_, now_).asked, std::nullopt);
  const RingOutput answered = node_->let_gone("c1@7", now_);
  const RingOp* const op = member_op(answered);
  ASSERT_NE(op, nullptr);
  EXPECT_EQ(op->kind, RingOp::Kind::kUpdateLease);
  EXPECT_EQ(written(op->lease, "").annotation(kLetGoneAnnotation), "c1@7");
}

TEST_F(AskedTest, RT14_WithoutAWatchRenewingFindsIt) {
  now_ += seconds(2);
  const RingOutput renews = node_->on_timer(now_);
  const RingOp* op = member_op(renews);
  ASSERT_NE(op, nullptr);
  ASSERT_EQ(op->kind, RingOp::Kind::kUpdateLease);
  RingAnswer conflict;
  conflict.kind = RingAnswer::Kind::kConflict;  // it has another revision now
  const RingOutput refused = node_->on_answer(RingOp::Channel::kMember, conflict, now_);
  op = member_op(refused);
  ASSERT_NE(op, nullptr);
  ASSERT_EQ(op->kind, RingOp::Kind::kGetLease);
  stored_.rv = "3";
  stored_.annotations.emplace_back(kLetGoAnnotation, "c1@7");
  std::sort(stored_.annotations.begin(), stored_.annotations.end());
  const RingOutput found = node_->on_answer(RingOp::Channel::kMember, with(stored_), now_);
  EXPECT_EQ(found.asked, "c1@7");
  op = member_op(found);
  ASSERT_NE(op, nullptr);
  EXPECT_EQ(op->kind, RingOp::Kind::kUpdateLease);                         // it is the holder still
  EXPECT_EQ(written(op->lease, "").annotation(kLetGoAnnotation), "c1@7");  // and keeps the question
}

}  // namespace
}  // namespace kintsugi::workers
