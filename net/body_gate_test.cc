#include "net/body_gate.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "net/testing/support.h"

namespace kintsugi::net {
namespace {

using testing::run_until;

constexpr std::size_t kKiB = 1024;

/// Nothing but what is asked for ends a body in these tests.
BodyLimits patient() {
  BodyLimits limits;
  limits.first_byte = limits.pace = limits.whole = limits.crowded = seconds(600);
  limits.per_connection = 100 * kKiB;
  limits.per_payer = 200 * kKiB;
  limits.unknown = 50 * kKiB;
  return limits;
}

class Body final : public BodyHold::Owner {
 public:
  Body(BodyGate& gate, std::string name, std::string connection = {}, bool known = true)
      : payer_{std::move(name), known, std::move(connection)}, hold(gate, *this) {}
  [[nodiscard]] BodyPayer body_payer() const override { return payer_; }
  void give_body_credit(std::size_t bytes) noexcept override { credit += bytes; }
  void refuse_body(const Error& error) noexcept override {
    status = error.code() == Errc::kTooManyRequests ? 429 : error.detail().http_status;
  }
  [[nodiscard]] bool body_is_stuck() const noexcept override { return stuck; }

 private:
  BodyPayer payer_;

 public:
  std::size_t credit = 0;
  int status = 0;
  bool stuck = false;
  BodyHold hold;
};

struct Rig {
  explicit Rig(BodyLimits limits, std::size_t budget = 0)
      : memory(std::make_shared<MemoryBudget>(budget)), gate(loop, memory, limits) {}
  bool until(const std::function<bool()>& condition) { return run_until(loop, condition); }
  [[nodiscard]] std::size_t used() const { return memory->used(MemoryAccount::kBodies); }
  Loop loop{"test"};
  std::shared_ptr<MemoryBudget> memory;
  BodyGate gate;
};

TEST(BodyGate, SE078_WhenNoByteComes_TheClientIsLate) {
  BodyLimits limits = patient();
  limits.first_byte = milliseconds(20);
  Rig rig(limits);
  Body silent(rig.gate, "a"), begun(rig.gate, "a");
  EXPECT_TRUE(begun.hold.add(1));
  ASSERT_TRUE(rig.until([&] { return silent.status != 0; }));
  EXPECT_EQ(silent.status, 408);
  EXPECT_EQ(begun.status, 0);
  EXPECT_EQ(rig.gate.late(), 1U);
}

TEST(BodyGate, SE078_WhenTheRestComesTooSlowly_TheClientIsLate) {
  BodyLimits limits = patient();
  limits.pace = milliseconds(20);
  Rig rig(limits);
  Body slow(rig.gate, "a"), whole(rig.gate, "a"), stuck(rig.gate, "a");
  for (Body* body : {&slow, &whole, &stuck}) {
    EXPECT_TRUE(body->hold.add(100));
  }
  stuck.stuck = true;
  whole.hold.finish();
  ASSERT_TRUE(rig.until([&] { return slow.status != 0; }));
  EXPECT_EQ(slow.status, 408);
  EXPECT_EQ(whole.status, 0);
  EXPECT_EQ(stuck.status, 0) << "it waits for us";
  stuck.stuck = false;
  ASSERT_TRUE(rig.until([&] { return stuck.status == 408; }));
}

TEST(BodyGate, SE078_WhenTheWholeTakesTooLong_PaceDoesNotHelp) {
  BodyLimits limits = patient();
  limits.pace = milliseconds(5);
  limits.whole = milliseconds(40);
  limits.pace_bytes = 10;
  Rig rig(limits);
  Body body(rig.gate, "a");
  Timer feeder(rig.loop);
  std::function<void()> feed = [&] {
    if (body.status == 0) {
      EXPECT_TRUE(body.hold.add(10));
      feeder.start(milliseconds(1), feed);
    }
  };
  feed();
  ASSERT_TRUE(rig.until([&] { return body.status != 0; }));
  EXPECT_EQ(body.status, 408);
}

TEST(BodyGate, SE078_WhileItsWindowIsShut_ABodyIsNotLate) {
  BodyLimits limits = patient();
  limits.pace = milliseconds(5);
  limits.pace_bytes = 0;
  limits.whole = seconds(1);
  Rig rig(limits);
  auto first = std::make_unique<Body>(rig.gate, "a");
  Body second(rig.gate, "a");
  EXPECT_TRUE(first->hold.add(250 * kKiB));
  EXPECT_TRUE(second.hold.add(1));
  const TimePoint begin = rig.loop.now();
  ASSERT_TRUE(rig.until([&] { return rig.loop.now() - begin > milliseconds(1'200); }));
  EXPECT_EQ(second.credit, 0U);
  first.reset();
  ASSERT_TRUE(rig.until([&] { return second.credit == 1; }));
  const TimePoint open = rig.loop.now();
  ASSERT_TRUE(rig.until([&] { return rig.loop.now() - open > milliseconds(50); }));
  EXPECT_EQ(second.status, 0) << "its pace was looked at, and its second has only begun";
  ASSERT_TRUE(rig.until([&] { return second.status != 0; }));
  EXPECT_EQ(second.status, 408);
}

TEST(BodyGate, SE079_WhenAConnectionKeepsTooMuch_ItsOtherBodiesWaitUntilOneIsGone) {
  Rig rig(patient());
  auto first = std::make_unique<Body>(rig.gate, "a", "c1");
  Body second(rig.gate, "a", "c1"), elsewhere(rig.gate, "b", "c2");
  EXPECT_TRUE(first->hold.add(101 * kKiB));
  EXPECT_EQ(first->credit, 101 * kKiB) << "one may go beyond, or it never ended";
  EXPECT_TRUE(second.hold.add(10 * kKiB));
  EXPECT_EQ(second.credit, 0U);
  EXPECT_TRUE(elsewhere.hold.add(10 * kKiB));
  EXPECT_EQ(elsewhere.credit, 10 * kKiB);
  first.reset();
  ASSERT_TRUE(rig.until([&] { return second.credit == 10 * kKiB; }));
}

TEST(BodyGate, SE079_WhenAPayerUsesManyConnections_HisPurseIsOne) {
  Rig rig(patient());
  std::deque<std::unique_ptr<Body>> bodies;
  std::size_t given = 0;
  for (int i = 0; i < 1'000; ++i) {
    bodies.push_back(std::make_unique<Body>(rig.gate, "a", "c" + std::to_string(i)));
    (void)bodies.back()->hold.add(10 * kKiB);
    given += bodies.back()->credit;
  }
  EXPECT_LE(given, 210 * kKiB);
  EXPECT_LE(rig.used(), 200 * kKiB + 1024 * kKiB + 20 * kKiB) << "what windows let in, and no more";
  EXPECT_GT(rig.gate.crowded(), 800U);
  Body neighbour(rig.gate, "b", "other");
  EXPECT_TRUE(neighbour.hold.add(100 * kKiB));
  EXPECT_EQ(neighbour.credit, 100 * kKiB);
  bodies.clear();
  EXPECT_EQ(rig.used(), 100 * kKiB);
}

TEST(BodyGate, SE079_WhenNobodyKnowsTheAddress_ItHasLess) {
  Rig rig(patient());
  Body one(rig.gate, "address 1", "", false), two(rig.gate, "address 1", "", false);
  EXPECT_TRUE(one.hold.add(45 * kKiB));
  EXPECT_TRUE(two.hold.add(6 * kKiB));
  EXPECT_EQ(two.credit, 6 * kKiB) << "the one that may go beyond";
  EXPECT_TRUE(one.hold.add(1));
  EXPECT_EQ(one.credit, 45 * kKiB);
}

TEST(BodyGate, SE079_WhenThereIsNoRoomForLong_TheClientIsTold) {
  BodyLimits limits = patient();
  limits.crowded = milliseconds(20);
  Rig rig(limits);
  Body first(rig.gate, "a"), second(rig.gate, "a");
  EXPECT_TRUE(first.hold.add(250 * kKiB));
  EXPECT_TRUE(second.hold.add(1));
  ASSERT_TRUE(rig.until([&] { return second.status != 0; }));
  EXPECT_EQ(second.status, 429);
  EXPECT_EQ(first.status, 0);
  EXPECT_EQ(rig.gate.crowded(), 1U);
}

TEST(BodyGate, SE079_WhenFarTooMuchIsHere_TheNewestGoesAtOnce) {
  Rig rig(patient());
  Body first(rig.gate, "a"), second(rig.gate, "a");
  EXPECT_TRUE(first.hold.add(250 * kKiB));
  const auto room = second.hold.add(2 * 1024 * kKiB);
  ASSERT_FALSE(room);
  EXPECT_EQ(room.error().code(), Errc::kTooManyRequests);
  EXPECT_EQ(room.error().detail().retry_after_seconds, 1);
  EXPECT_EQ(rig.used(), 250 * kKiB);
}

TEST(BodyGate, SE079_WhenTheProcessKeepsTooMuch_KnownPayersWaitToo) {
  Rig rig(patient(), 1'000 * kKiB);  // 100 KiB of bodies
  Body first(rig.gate, "a"), second(rig.gate, "b");
  EXPECT_TRUE(first.hold.add(90 * kKiB));
  EXPECT_TRUE(second.hold.add(20 * kKiB));
  EXPECT_EQ(second.credit, 0U);
  first.hold.shrink(10 * kKiB);
  ASSERT_TRUE(rig.until([&] { return second.credit == 20 * kKiB; }));
}

TEST(BodyGate, WhenTheOwnerGoes_WhatIsKeptStillCounts) {
  Rig rig(patient());
  auto body = std::make_unique<Body>(rig.gate, "a", "c1");
  EXPECT_TRUE(body->hold.add(10 * kKiB));
  body->hold.abandon();
  EXPECT_EQ(rig.used(), 10 * kKiB);
  EXPECT_TRUE(body->hold.add(10));
  EXPECT_EQ(body->credit, 10 * kKiB) << "nobody is told any more";
  body.reset();
  EXPECT_EQ(rig.used(), 0U);
}

TEST(BodyPayer, SE071_WhenOnlyTheAddressIsKnown_ItsNetworkPays) {
  EXPECT_EQ(address_payer("192.0.2.7"), "address 192.0.2.7");
  EXPECT_NE(address_payer("192.0.2.7"), address_payer("192.0.2.8"));
  EXPECT_EQ(address_payer("2001:db8:1:200::1"), address_payer("2001:db8:1:2ff:ffff::2"));
  EXPECT_NE(address_payer("2001:db8:1:200::1"), address_payer("2001:db8:1:300::1"));
  EXPECT_EQ(address_payer(""), "address ");
}

}  // namespace
}  // namespace kintsugi::net
