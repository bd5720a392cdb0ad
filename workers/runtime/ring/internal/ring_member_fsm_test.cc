#include "workers/runtime/ring/internal/ring_member_fsm.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

using Kind = RingEvent::Kind;
using Events = RingMemberFsm::Events;

// "me" owns partition 3 alone.
RingTable table(std::uint64_t generation, std::uint32_t epoch = 1) {
  RingTable out;
  out.generation = generation;
  out.members = {{"me", "u1", RingTableMember::State::kActive},
                 {"you", "u2", RingTableMember::State::kActive}};
  for (RingSlot& slot : out.slots) {
    slot = {1, kNoMember, epoch};
  }
  out.slots[3] = {0, kNoMember, epoch};
  return out;
}

struct Member {
  RingMemberFsm fsm{"me"};
  TimePoint now{seconds(100)};
  Events all;
  Events take() { return std::exchange(all, {}); }
  void read(const RingTable& what) { (void)fsm.on_table(what, now, all); }
  void hold() { fsm.on_lease_held("u1", now, all); }
};

TEST(RingMemberFsm, RT66_HoldsOnlyWithLeaseAndOnlyUnderItsUid) {
  Member m;
  m.read(table(1));
  EXPECT_TRUE(m.take().empty());
  m.fsm.on_lease_held("another", m.now, m.all);
  EXPECT_TRUE(m.take().empty());
  m.hold();
  EXPECT_EQ(m.take(), (Events{{Kind::kStart, 3, 1}}));
  EXPECT_TRUE(m.fsm.active(3));
  m.fsm.on_lease_lost(m.all);
  EXPECT_EQ(m.take(), (Events{{Kind::kStop, 3, 1}}));
  EXPECT_FALSE(m.fsm.holds(3));
}

// A process that begins beside the table of those who were there before holds nothing by it, and
// does not know yet whether others do.
TEST(RingMemberFsm, RT66_IsListedOnceATableNamesItsLease) {
  Member m;
  m.hold();
  RingTable before = table(1);
  before.members[0].uid = "u0";  // an earlier self
  m.read(before);
  EXPECT_EQ(m.fsm.generation(), 1U);
  EXPECT_FALSE(m.fsm.listed());
  m.read(table(2, 2));
  EXPECT_TRUE(m.fsm.listed());
  m.fsm.on_lease_lost(m.all);
  EXPECT_FALSE(m.fsm.listed());
}

TEST(RingMemberFsm, RT65_DrainsThenAcknowledges) {
  Member m;
  m.hold();
  m.read(table(1));
  EXPECT_EQ(m.fsm.report().ack, 1U);
  m.take();
  RingTable moving = table(2);
  moving.slots[3].next = 1;
  m.read(moving);
  EXPECT_EQ(m.take(), (Events{{Kind::kDrain, 3, 1}}));
  EXPECT_FALSE(m.fsm.active(3));
  EXPECT_TRUE(m.fsm.holds(3));
  EXPECT_EQ(m.fsm.report().ack, 1U);
  EXPECT_EQ(m.fsm.report().seen, 2U);
  m.fsm.on_drained(3, m.now, m.all);
  EXPECT_EQ(m.fsm.report().ack, 2U);
  EXPECT_TRUE(m.fsm.report_urgent());
  EXPECT_FALSE(m.fsm.holds(3));
  EXPECT_TRUE(m.take().empty());
}

TEST(RingMemberFsm, RT65_HandoversAreTimedByWhoGetsThePartition) {
  Member m;
  m.hold();
  m.read(table(1));
  EXPECT_EQ(m.fsm.handovers().count, 0U) << "what was ours from the start is no handover";
  RingTable coming = table(2);
  coming.slots[7].next = coming.slots[8].next = 0;
  m.read(coming);
  m.now += milliseconds(30);
  coming.generation = 3;
  coming.slots[8].next = kNoMember;  // called off
  m.read(coming);
  m.now += milliseconds(10);
  RingTable ours = table(4);
  ours.slots[7] = ours.slots[8] = {0, kNoMember, 2};
  m.read(ours);
  EXPECT_EQ(m.fsm.handovers().count, 1U);
  EXPECT_EQ(m.fsm.handovers().sum, milliseconds(40));
  RingTable back = table(5, 3);
  back.slots[7] = {0, 1, 3};
  m.read(back);
  m.fsm.on_drained(7, m.now, m.all);
  m.read(table(6, 4));
  EXPECT_EQ(m.fsm.handovers().count, 1U) << "the other one counts what it gets";
}

TEST(RingMemberFsm, RT65_DrainIsCutAfterTenSeconds) {
  Member m;
  m.hold();
  m.read(table(1));
  RingTable moving = table(2);
  moving.slots[3].next = 1;
  m.read(moving);
  m.take();
  EXPECT_EQ(m.fsm.wake(), m.now + seconds(10));
  m.fsm.on_timer(m.now + milliseconds(9'999), m.all);
  EXPECT_TRUE(m.take().empty());
  m.fsm.on_timer(m.now + seconds(10), m.all);
  EXPECT_EQ(m.take(), (Events{{Kind::kStop, 3, 1}}));
  EXPECT_EQ(m.fsm.report().ack, 2U);
  EXPECT_EQ(m.fsm.wake(), TimePoint::max());
}

TEST(RingMemberFsm, RT65_MoveThatIsCalledOffStartsAgainAfterTheDrain) {
  Member m;
  m.hold();
  m.read(table(1));
  RingTable moving = table(2);
  moving.slots[3].next = 1;
  m.read(moving);
  m.take();
  m.read(table(3));
  EXPECT_TRUE(m.take().empty());
  m.fsm.on_drained(3, m.now, m.all);
  EXPECT_EQ(m.take(), (Events{{Kind::kStart, 3, 1}}));
}

TEST(RingMemberFsm, Section18_OlderTablesAreLeftOutAndReported) {
  Member m;
  m.hold();
  m.read(table(5, 4));
  m.take();
  EXPECT_FALSE(m.fsm.on_table(table(4, 9), m.now, m.all));
  EXPECT_FALSE(m.fsm.on_table(table(6, 3), m.now, m.all));
  EXPECT_TRUE(m.fsm.on_table(table(5, 4), m.now, m.all));
  EXPECT_TRUE(m.take().empty());
  EXPECT_TRUE(m.fsm.active(3));
  EXPECT_EQ(m.fsm.report().rejected, 6U);
  EXPECT_EQ(m.fsm.report().seen, 5U);
  EXPECT_EQ(m.fsm.report().epoch, 4U);
  m.read(table(7, 5));
  EXPECT_EQ(m.take(), (Events{{Kind::kEpoch, 3, 5}}));
  EXPECT_EQ(m.fsm.report().rejected, 0U);
}

TEST(RingMemberFsm, RT67_RebuiltTableDrainsAllAndAsksForAnAcknowledgement) {
  Member m;
  m.hold();
  m.read(table(1));
  m.take();
  RingTable rebuilt = table(2, 2);
  for (RingSlot& slot : rebuilt.slots) {
    slot.next = std::exchange(slot.owner, kNoMember);
  }
  for (RingTableMember& member : rebuilt.members) {
    member.state = RingTableMember::State::kUnconfirmed;
  }
  m.read(rebuilt);
  EXPECT_EQ(m.take(), (Events{{Kind::kDrain, 3, 1}}));
  EXPECT_TRUE(m.fsm.report_urgent());
  m.fsm.on_drained(3, m.now, m.all);
  EXPECT_EQ(m.fsm.report().ack, 2U);
}

TEST(RingMemberFsm, RT54_PeersEpochIsReportedUntilTheTableIsAboveIt) {
  Member m;
  m.hold();
  m.read(table(1));
  m.take();
  m.fsm.on_peer_epoch(3, 8);
  m.fsm.on_peer_epoch(4, 9);  // not ours: only known
  m.fsm.on_peer_epoch(3, kMaxRingEpoch);
  EXPECT_EQ(m.fsm.report().raise, (std::vector<std::pair<PartitionId, std::uint32_t>>{{3, 8}}));
  EXPECT_EQ(m.fsm.report().epoch, 9U);
  RingTable raised = table(2);
  raised.slots[3].epoch = 9;
  m.read(raised);
  EXPECT_EQ(m.take(), (Events{{Kind::kEpoch, 3, 9}}));
  EXPECT_TRUE(m.fsm.report().raise.empty());
}

TEST(RingMemberFsm, RT4_LeaverDrainsAllAndTakesNothingMore) {
  Member m;
  m.hold();
  m.read(table(1));
  m.take();
  m.fsm.leave(m.now, m.all);
  EXPECT_EQ(m.take(), (Events{{Kind::kDrain, 3, 1}}));
  EXPECT_FALSE(m.fsm.left());
  m.fsm.on_drained(3, m.now, m.all);
  EXPECT_TRUE(m.fsm.left());
  m.read(table(2));
  EXPECT_TRUE(m.take().empty());
  EXPECT_TRUE(m.fsm.report().leaving);
}

}  // namespace
}  // namespace kintsugi::workers
