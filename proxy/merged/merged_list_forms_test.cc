// Media types of merged lists.
#include "proxy/testing/list_rig.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;
using namespace testing;  // NOLINT: the fixture's words

TEST_F(MergedLists, WhenAllSpeakProtobuf_T10_ItIsSpliced) {
  start();
  for (std::size_t i = 0; i < 3; ++i) {
    scripts_[i] = [i](Exchange& exchange) {
      FakeShard::reply(exchange, 200, encoded_list("4" + std::to_string(i), {all_[i]}), kProtobuf);
    };
  }
  const Answer& answer = ask("", kTypedClient);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("content-type"), kProtobuf);
  const auto list = krm::decode_protobuf(answer.body);
  ASSERT_TRUE(list);
  EXPECT_EQ(list->text({"kind"}), "ConfigMapList");
  EXPECT_EQ(names(*list), all_);
  EXPECT_EQ(list->text({"metadata", "resourceVersion"}).size(), 75U);
  const Answer& page = ask("?limit=2", kTypedClient);
  const auto first = krm::decode_protobuf(page.body);
  ASSERT_TRUE(first);
  EXPECT_EQ(names(*first), (std::vector<std::string>{"alpha", "b"}));
  EXPECT_NE(first->text({"metadata", "continue"}), "");
}

TEST_F(MergedLists, WhenProtobufIsCutOff_T65_IsUnavailable) {
  start();
  for (std::size_t i = 0; i < 3; ++i) {
    scripts_[i] = [i](Exchange& exchange) {
      const std::string body = encoded_list("4", {all_[i]});
      FakeShard::reply(exchange, 200, body.substr(0, body.size() - (i == 2 ? 30 : 0)), kProtobuf);
    };
  }
  EXPECT_EQ(ask("", kTypedClient).status, 503);
}

TEST_F(MergedLists, WhenProtobufIsTooMuchToWaitFor_T10_JsonOfTheSameStateComes) {
  start({}, [](aggregation::MergeParams& params) { params.protobuf_spool = 60; });
  for (std::size_t i = 0; i < 3; ++i) {
    scripts_[i] = [i](Exchange& exchange) {
      if (exchange.head.headers.get("accept") == "application/json") {
        FakeShard::reply(exchange, 200, list_of("4" + std::to_string(i), {item(all_[i])}));
      } else {
        FakeShard::reply(exchange, 200, encoded_list("4" + std::to_string(i), {all_[i], "z"}),
                         kProtobuf);
      }
    };
  }
  const Answer& answer = ask("", kTypedClient);
  EXPECT_EQ(answer.header("content-type"), "application/json");
  EXPECT_EQ(names(answer), all_);
  EXPECT_EQ(component(answer, 2), 42U);
  EXPECT_EQ(parameter(shard(0).exchanges.back(), "resourceVersion"), "40");
  EXPECT_EQ(parameter(shard(0).exchanges.back(), "resourceVersionMatch"), "Exact");
  EXPECT_EQ(ask("", kProtobuf).status, 406);
}

TEST_F(MergedLists, WhenThePayersOtherListsWait_SE090_JsonComesInsteadOrHeIsTold) {
  start();
  for (std::size_t i = 0; i < 3; ++i) {
    scripts_[i] = [i](Exchange& exchange) {
      if (exchange.head.headers.get("accept") == "application/json") {
        FakeShard::reply(exchange, 200, list_of("4" + std::to_string(i), {item(all_[i])}));
      } else {
        FakeShard::reply(exchange, 200, encoded_list("4" + std::to_string(i), {all_[i]}),
                         kProtobuf);
      }
    };
  }
  const std::size_t most = aggregation::MergeParams().protobuf_spool;
  {
    MemoryBudget::Claim others(memory_, MemoryAccount::kLists, "user bob", {most, false});
    (void)others.set(most);
    EXPECT_EQ(ask("", kTypedClient).header("content-type"), kProtobuf);
  }
  MemoryBudget::Claim own(memory_, MemoryAccount::kLists, "user alice", {most, false});
  (void)own.set(most);
  const Answer& answer = ask("", kTypedClient);
  EXPECT_EQ(answer.header("content-type"), "application/json");
  EXPECT_EQ(names(answer), all_);
  const Answer& refused = ask("", kProtobuf);
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.header("retry-after"), "1");
  (void)own.set(0);
  EXPECT_EQ(ask("", kProtobuf).status, 200);
  EXPECT_EQ(memory_->used(MemoryAccount::kLists), 0U);
}

TEST_F(MergedLists, WhenMediaTypesDiffer_T19_AllAreAskedForTheCommonOne) {
  start();
  scripts_[0] = [](Exchange& exchange) {
    if (exchange.head.headers.get("accept") == "application/json") {
      FakeShard::reply(exchange, 200, list_of("40", {item("alpha")}));
    } else {
      FakeShard::reply(exchange, 200, encoded_list("40", {"alpha"}), kProtobuf);
    }
  };
  const Answer& answer = ask("", kTypedClient);
  EXPECT_EQ(answer.header("content-type"), "application/json");
  EXPECT_EQ(names(answer), all_);
  EXPECT_EQ(shard(0).exchanges.size(), 2U);
  EXPECT_EQ(shard(1).exchanges.size(), 1U);
  EXPECT_EQ(names(ask("?limit=2", kTypedClient)), (std::vector<std::string>{"alpha", "b"}));
  EXPECT_EQ(ask("", kProtobuf).status, 406);
}

TEST_F(MergedLists, WhenAShardInsistsOnAMediaType_T19_ItIsDown) {
  start();
  scripts_[0] = [](Exchange& exchange) {
    FakeShard::reply(exchange, 200, encoded_list("40", {"alpha"}), kProtobuf);
  };
  EXPECT_EQ(ask("", kTypedClient).status, 503);
}

TEST_F(MergedLists, WhenColumnsAgree_T08_ThereIsOneTable) {
  start();
  for (std::size_t i = 0; i < 3; ++i) {
    scripts_[i] = [i](Exchange& exchange) {
      // The same columns, written in another order.
      const char* columns = i == 0 ? R"({"name":"Name","type":"string","priority":0})"
                                   : R"({"type":"string","name":"Name"})";
      FakeShard::reply(exchange, 200, table(columns, all_[i]));
    };
  }
  const auto list = Json::parse(ask("", kTableOrJson).body);
  ASSERT_TRUE(list);
  EXPECT_EQ(list->text({"kind"}), "Table");
  EXPECT_EQ(list->find("columnDefinitions")->items().size(), 1U);
  EXPECT_EQ(list->find("rows")->items().size(), 3U);
}

TEST_F(MergedLists, WhenColumnsDiffer_T08_ObjectsComeInstead) {
  start();
  for (std::size_t i = 0; i < 3; ++i) {
    scripts_[i] = [i](Exchange& exchange) {
      if (exchange.head.headers.get("accept").find("Table") == std::string_view::npos) {
        FakeShard::reply(exchange, 200, list_of("5", {item(all_[i])}));
      } else {
        FakeShard::reply(exchange, 200,
                         table(i == 1 ? R"({"name":"Age","type":"string"})"
                                      : R"({"name":"Name","type":"string"})",
                               all_[i]));
      }
    };
  }
  EXPECT_EQ(names(ask("", kTableOrJson)), all_);
  EXPECT_EQ(names(ask("?limit=3", kTableOrJson)), all_);
  EXPECT_EQ(ask("", "application/json;as=Table;v=v1;g=meta.k8s.io").status, 406);
}

}  // namespace
}  // namespace kintsugi::proxy
