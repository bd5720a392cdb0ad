#include "aggregation/watch/internal/group_readers.h"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>

#include "net/loop.h"
#include "net/testing/support.h"

namespace kintsugi::aggregation {
namespace {

/// A client that counts what it is told.
struct Reader final : GroupReader {
  explicit Reader(std::string name) : name(std::move(name)) {}
  void on_group_moved() override {
    ++told;
    if (when_told) {
      when_told();
    }
  }
  void on_slot_accepted(std::size_t) override {}
  void on_slot_lost(std::size_t, std::string_view) override {}
  void on_slot_refused(std::size_t, const http::ResponseHead&, const std::string&) override {}
  void on_slot_expired(std::size_t, std::string_view, Duration) override {}
  void on_slot_compared(std::size_t, std::uint64_t) override {}
  void on_cluster_leaves(std::size_t) override {}
  void on_slot_supplied(std::size_t) override {}
  void on_group_failed(const Error&, std::string_view) override {}
  void on_reader_fault() override { ++faults; }
  void on_members() override {}
  TimePoint on_due(TimePoint now) override {
    ++due;
    return due < 3 ? now + milliseconds(1) : TimePoint::max();
  }
  void approach() const noexcept override {}
  TimePoint on_stall(TimePoint now) override {
    ++stalls;
    return stalls < 2 ? now : TimePoint::max();
  }
  [[nodiscard]] bool covers(const Member& member) const noexcept override {
    return member.name == "open";
  }
  [[nodiscard]] std::string_view caller() const noexcept override { return name; }
  [[nodiscard]] Queued queued() const noexcept override { return waits; }
  bool end_for_memory() noexcept override { return true; }

  std::string name;
  std::function<void()> when_told;
  Queued waits;
  int told = 0, faults = 0, due = 0, stalls = 0;
};

class GroupReadersTest : public ::testing::Test {
 protected:
  void tell() {
    readers.each([](GroupReader& reader) { reader.on_group_moved(); });
  }
  net::Loop loop{"test"};
  GroupReaders readers{loop, milliseconds(1)};
  Reader a{"ann"}, b{"ben"}, c{"ann"};
};

TEST_F(GroupReadersTest, WhenReadersLeaveWhileAllAreTold_TheOthersAreTold) {
  readers.add(a);
  readers.add(b);
  readers.add(c);
  a.when_told = [this] {
    EXPECT_TRUE(readers.remove(a));
    EXPECT_TRUE(readers.remove(b));
    EXPECT_EQ(readers.count(), 1U);
  };
  tell();
  EXPECT_EQ(a.told + b.told, 1);
  EXPECT_EQ(c.told, 1);
  EXPECT_EQ(readers.all().size(), 1U);
  EXPECT_FALSE(readers.remove(b)) << "not twice";
  EXPECT_EQ(readers.count(), 1U);
}

TEST_F(GroupReadersTest, WhenReadersAreToldAnewInACall_PlacesStayUntilTheOuterOneEnds) {
  readers.add(a);
  readers.add(b);
  a.when_told = [this] {
    a.when_told = nullptr;
    readers.remove(a);
    tell();
    EXPECT_EQ(readers.all().size(), 2U);
  };
  tell();
  EXPECT_EQ(b.told, 2);
  EXPECT_EQ(readers.all().size(), 1U);
}

TEST_F(GroupReadersTest, WhenOneThrows_ItAloneIsToldSo) {
  readers.add(a);
  readers.add(b);
  a.when_told = [] { throw std::runtime_error("broken"); };
  tell();
  EXPECT_EQ(a.faults, 1);
  EXPECT_EQ(b.faults, 0);
  EXPECT_EQ(b.told, 1);
}

TEST_F(GroupReadersTest, WhenSomebodyWaits_OneTimerCallsAllUntilNobodyDoes) {
  readers.add(a);
  readers.add(b);
  readers.expect(loop.now() + seconds(100));
  readers.expect(loop.now() + milliseconds(1));
  EXPECT_TRUE(net::testing::run_until(loop, [&] { return a.due == 3 && b.due == 3; }));
  readers.expect_less();
  readers.expect_less();
  readers.expect_stall();
  readers.expect_stall();
  EXPECT_TRUE(net::testing::run_until(loop, [&] { return a.stalls == 2; }));
  EXPECT_EQ(b.stalls, 2);
  EXPECT_EQ(a.due, 3);
}

TEST_F(GroupReadersTest, QueuesCallersAndRightsAreThoseOfAll) {
  readers.add(a);
  readers.add(b);
  readers.add(c);
  a.waits = {100, 1};
  b.waits = {300, 2};
  EXPECT_EQ(readers.queue_bytes(), 303U) << "of the log once";
  EXPECT_EQ(readers.callers(), 2U);
  Member open, closed;
  open.name = "open";
  closed.name = "closed";
  EXPECT_TRUE(readers.cover(open));
  EXPECT_FALSE(readers.cover(closed));
}

}  // namespace
}  // namespace kintsugi::aggregation
