// Merged watches: a shard has forgotten its history, and clients are told the difference.
#include <gtest/gtest.h>

#include "proxy/testing/watch_rig.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;
using testing::Answer;
using testing::bookmark;
using testing::event;
using testing::Exchange;
using testing::FakeShard;
using testing::gone;
using testing::is_watch;
using testing::kNewest;
using testing::object;
using testing::wants;

class ResyncedWatches : public testing::MergedWatches {
 protected:
  void start_indexed(Duration after) {
    start({}, [after](aggregation::MergeParams& params) { params.index_after = after; });
  }
  /// Answers lists of beta's newest state with these objects at 44, those of a past one with b.
  void list_beta(const std::vector<std::pair<std::string, std::string>>& objects) {
    scripts_[1] = [this, objects](Exchange& exchange) {
      if (is_watch(exchange) || wants(exchange, "Exact")) {
        serve(1, exchange);
        return;
      }
      std::string items;
      for (const auto& [name, revision] : objects) {
        items += (items.empty() ? "" : ",") + object(name, revision);
      }
      FakeShard::reply(
          exchange, 200,
          R"({"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"44"},"items":[)" +
              items + "]}");
    };
  }
  std::string listed() {
    Answer& list = send();
    EXPECT_TRUE(until([&] { return list.closed; }));
    return std::string(Json::parse(list.body)->text({"metadata", "resourceVersion"}));
  }
  std::uint64_t indexed() { return rig_->handler->merge_stats().indexed; }
};

TEST_F(ResyncedWatches, WhenAStreamBeganAtACursor_T61_ItsObjectsAreListedWhereItWas) {
  start_indexed(milliseconds(2));
  Exchange* asked = nullptr;
  scripts_[1] = [&](Exchange& exchange) {
    if (wants(exchange, "Exact")) {
      asked = &exchange;
    } else {
      serve(1, exchange);
    }
  };
  Answer& answer = watch("?watch=1&allowWatchBookmarks=true&resourceVersion=" + listed());
  EXPECT_TRUE(until([&] { return asked != nullptr; }));
  EXPECT_TRUE(wants(*asked, "resourceVersion=21&resourceVersionMatch=Exact"));
  tell(1, event("ADDED", "c", "25") + event("DELETED", "b", "26"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 2; }));
  serve(1, *asked);
  EXPECT_TRUE(until([&] { return indexed() == 2; }));
  list_beta({{"d", "40"}});
  tell(1, gone());
  EXPECT_TRUE(until([&] { return told(answer).size() == 4; })) << answer.body;
  EXPECT_EQ(told(answer), (Told{"ADDED c", "ADDED d", "DELETED b", "DELETED c"}));
  EXPECT_FALSE(answer.ended);
  EXPECT_TRUE(until([&] { return cursor(answer).ends_with("00044"); }));
}

TEST_F(ResyncedWatches, WhenTheStateIsForgotten_T61_ClientsExpire) {
  start_indexed(milliseconds(2));
  std::size_t refused = 0;
  scripts_[1] = [&](Exchange& exchange) {
    if (wants(exchange, "Exact")) {
      ++refused;
      FakeShard::reply(exchange, 410, R"({"kind":"Status","code":410,"reason":"Expired"})");
    } else {
      serve(1, exchange);
    }
  };
  Answer& answer = watch("?watch=1&resourceVersion=" + listed());
  EXPECT_TRUE(until([&] { return refused >= 2 && indexed() == 1; }));  // it is tried again
  tell(1, gone());
  EXPECT_TRUE(until([&] { return answer.ended; }));
  EXPECT_EQ(events(answer).back().find("object")->find("code")->as_integer(), 410);
}

TEST_F(ResyncedWatches, WhenAnotherHasTheObjects_T61_TheyAreNotListed) {
  start_indexed(seconds(3600));
  Answer& first = watch("?watch=1&resourceVersion=" + listed());
  EXPECT_TRUE(until([&] { return first.status == 200; }));
  Answer& second = synced();
  EXPECT_TRUE(until([&] { return streams(0) == 1 && streams(1) == 1; }));
  list_beta({{"b", "40"}});
  tell(1, event("ADDED", "c", "25"));
  EXPECT_TRUE(until([&] { return told(first).size() == 1 && told(second).size() == 3; }));
  tell(1, gone());
  EXPECT_TRUE(until([&] { return told(first).size() == 3; })) << first.body;
  EXPECT_EQ(told(first), (Told{"ADDED c", "DELETED c", "MODIFIED b"}));
  EXPECT_EQ(indexed(), 0U);
}

TEST_F(ResyncedWatches, WhenItIsSwitchedOff_NothingIsListed) {
  start_indexed(Duration{});
  Answer& answer = watch("?watch=1&resourceVersion=" + listed());
  EXPECT_TRUE(until([&] { return streams(1) == 1; }));
  tell(1, event("ADDED", "c", "25"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 1; }));
  tell(1, gone());
  EXPECT_TRUE(until([&] { return answer.ended; }));
}

constexpr const char* kTable = "application/json;as=Table;v=v1;g=meta.k8s.io";
constexpr const char* kColumns = R"([{"name":"Name","type":"string"},{"name":"Data"}])";

std::string row(const std::string& name, const std::string& revision) {
  return R"({"cells":[")" + name + R"(",1],"object":)" + object(name, revision) + "}";
}
std::string table(const std::string& revision, const std::string& rows, const char* columns) {
  return R"({"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":")" +
         revision + R"("},"columnDefinitions":)" + columns + R"(,"rows":[)" + rows + "]}";
}
std::string table_event(const std::string& type, const std::string& name,
                        const std::string& revision, const char* columns = "null") {
  return R"({"type":")" + type + R"(","object":)" + table("", row(name, revision), columns) + "}\n";
}

TEST_F(ResyncedWatches, WhenStreamsAreTables_T61_RowsTellTheDifference) {
  start_indexed(milliseconds(2));
  for (const std::size_t i : {0U, 1U}) {
    scripts_[i] = [this, i](Exchange& exchange) {
      const std::string name(1, static_cast<char>('a' + i));
      const std::string revision = std::to_string((i + 1) * 10 + 1);
      if (is_watch(exchange)) {
        serve(i, exchange);
      } else {
        FakeShard::reply(exchange, 200, table(revision, row(name, revision), kColumns));
      }
    };
  }
  Answer& list = send("", kTable);
  EXPECT_TRUE(until([&] { return list.closed; }));
  const std::string at(Json::parse(list.body)->text({"metadata", "resourceVersion"}));
  Answer& answer = send("?watch=1&resourceVersion=" + at, kTable);
  EXPECT_TRUE(until([&] { return indexed() == 2; })) << answer.body;
  tell(1, table_event("ADDED", "c", "25", kColumns));
  EXPECT_TRUE(until([&] { return events(answer).size() == 1; }));
  scripts_[1] = [this](Exchange& exchange) {
    if (is_watch(exchange)) {
      serve(1, exchange);
    } else {
      FakeShard::reply(exchange, 200, table("44", row("b", "40") + "," + row("d", "41"), kColumns));
    }
  };
  tell(1, gone());
  EXPECT_TRUE(until([&] { return events(answer).size() == 4; })) << answer.body;
  Told seen;
  for (const Json& one : events(answer)) {
    EXPECT_EQ(one.text({"object", "kind"}), "Table");
    const Json& only = one.at({"object", "rows"})->items()[0];
    EXPECT_EQ(only.find("cells")->items().size(), 2U);
    seen.push_back(std::string(one.text({"type"})) + ' ' +
                   std::string(only.text({"object", "metadata", "name"})));
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, (Told{"ADDED c", "ADDED d", "DELETED c", "MODIFIED b"}));
  EXPECT_FALSE(answer.ended);
}

}  // namespace
}  // namespace kintsugi::proxy
