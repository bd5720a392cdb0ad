#include "workers/messaging/control/internal/teller.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace kintsugi::workers {
namespace {

struct Said {
  std::string_view type, status, reason, message;
};

krm::Json status_with(std::initializer_list<Said> conditions) {
  krm::Json list = krm::Json::array();
  for (const Said& one : conditions) {
    list.push_back(krm::Json::object({{"type", one.type},
                                      {"status", one.status},
                                      {"reason", one.reason},
                                      {"message", one.message}}));
  }
  return krm::Json::object({{"conditions", std::move(list)}});
}

using Tales = std::vector<Tale>;

TEST(Teller, RT83_ASpaceThatIsBoundAndReadyIsTold) {
  krm::Json bound = status_with({{"InfraBound", "True", "InfraBound", ""},
                                 {"Scheduled", "True", "NotNeeded", ""},
                                 {"Ready", "False", "NotReady", "waits for routers"}});
  bound["infra"] = krm::Json::object({{"cluster", "c"}, {"namespace", "default"}, {"name", "i1"}});
  EXPECT_EQ(tales_of(krm::Json::object(), bound),
            (Tales{{false, "Bound", "bound to infra default/i1"}}));
  krm::Json ready = bound;
  ready = status_with({{"InfraBound", "True", "InfraBound", ""},
                       {"Scheduled", "True", "NotNeeded", ""},
                       {"Ready", "True", "Ready", ""}});
  EXPECT_EQ(tales_of(bound, ready), (Tales{{false, "Ready", "it is ready"}}));
  EXPECT_EQ(tales_of(ready, ready), Tales{});
}

TEST(Teller, RT83_AnAddressIsPlacedThenReadyThenNotAndAgain) {
  krm::Json placed = status_with({{"Validated", "True", "Validated", ""},
                                  {"Scheduled", "True", "Scheduled", ""},
                                  {"Ready", "False", "QueueMissing", "queue not on broker b0"}});
  placed["brokers"] =
      krm::Json::array({krm::Json::object({{"host", "b0"}}), krm::Json::object({{"host", "b1"}})});
  EXPECT_EQ(tales_of(krm::Json::object(), placed),
            (Tales{{false, "Scheduled", "placed on b0, b1"}}));
  const krm::Json ready = status_with({{"Validated", "True", "Validated", ""},
                                       {"Scheduled", "True", "Scheduled", ""},
                                       {"Ready", "True", "Ready", ""}});
  EXPECT_EQ(tales_of(placed, ready), (Tales{{false, "Ready", "it is ready"}}));
  EXPECT_EQ(tales_of(ready, placed), (Tales{{true, "QueueMissing", "queue not on broker b0"}}));
  const krm::Json other =
      status_with({{"Scheduled", "True", "Scheduled", ""},
                   {"Ready", "False", "BrokerNotConnected", "no connection from broker b0"}});
  EXPECT_EQ(tales_of(placed, other), Tales{}) << "it was not ready before";
}

TEST(Teller, RT83_ARefusalIsToldOnceForEachReason) {
  const krm::Json none = krm::Json::object();
  const krm::Json missing = status_with({{"PlanFound", "False", "NotFound", "no plan p"},
                                         {"Ready", "False", "NotReady", "no plan p"}});
  EXPECT_EQ(tales_of(none, missing), (Tales{{true, "NotFound", "no plan p"}}));
  const krm::Json said_otherwise = status_with({{"PlanFound", "False", "NotFound", "no plan q"}});
  EXPECT_EQ(tales_of(missing, said_otherwise), Tales{});
  const krm::Json full =
      status_with({{"PlanFound", "True", "PlanFound", ""},
                   {"InfraBound", "False", "InsufficientCapacity", "10 more connections"}});
  EXPECT_EQ(tales_of(missing, full),
            (Tales{{true, "InsufficientCapacity", "10 more connections"}}));
}

TEST(Teller, RT83_WaitingAndDeletionAreNoNews) {
  const krm::Json ready =
      status_with({{"Scheduled", "True", "Scheduled", ""}, {"Ready", "True", "Ready", ""}});
  EXPECT_EQ(tales_of(ready, status_with({{"Scheduled", "Unknown", "Waiting", "x"},
                                         {"Ready", "False", "Terminating", "x"}})),
            Tales{});
  EXPECT_EQ(
      tales_of(krm::Json::object(), status_with({{"Scheduled", "False", "WaitingForTarget", "x"}})),
      Tales{});
}

TEST(Teller, RT83_DegradedIsAWarningAndItsEndIsTold) {
  const krm::Json ready = status_with({{"Ready", "True", "Ready", ""}});
  const krm::Json poor = status_with({{"Ready", "True", "Degraded", "1 of 2 routers"}});
  EXPECT_EQ(tales_of(ready, poor), (Tales{{true, "Degraded", "1 of 2 routers"}}));
  EXPECT_EQ(tales_of(poor, ready), (Tales{{false, "Ready", "it is ready"}}));
  const krm::Json gone = status_with({{"Scheduled", "True", "BrokerGone", "b1 is gone"}});
  EXPECT_EQ(tales_of(status_with({{"Scheduled", "True", "Scheduled", ""}}), gone),
            (Tales{{true, "BrokerGone", "b1 is gone"}}));
}

TEST(Teller, MS049_ARepairNamesComponentEntityAndCause) {
  const DriftRepair queue{3, EntityKind::kQueue, "s/orders", DriftRepair::Cause::kMissing};
  EXPECT_EQ(
      tale_of(queue, ComponentKind::kBroker, "b0"),
      (Tale{true, "DriftRepaired", "broker b0: queue s/orders was missing and is made again"}));
  const DriftRepair link{3, EntityKind::kAutoLink, "ktg.x.al.y", DriftRepair::Cause::kOrphan};
  EXPECT_EQ(tale_of(link, ComponentKind::kRouter, "R0").note,
            "router R0: autoLink ktg.x.al.y is nobody's and is deleted");
  const DriftRepair other{3, EntityKind::kAddress, "theirs", DriftRepair::Cause::kForeign};
  EXPECT_EQ(
      tale_of(other, ComponentKind::kRouter, "R0"),
      (Tale{true, "ForeignEntity", "router R0: address theirs is wanted by nothing and stays"}));
}

}  // namespace
}  // namespace kintsugi::workers
