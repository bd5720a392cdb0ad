#include "aggregation/watch/cluster_moves.h"

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
using testing::is_watch;

/// An event of the logical cluster that moves.
std::string of_nine(const std::string& type, const std::string& name, const std::string& revision) {
  std::string out = event(type, name, revision);
  const std::string end = "}}}\n";
  return out.substr(0, out.size() - end.size()) + R"(,"annotations":{"kcp.io/cluster":"c9"}}}})" +
         "\n";
}

std::string item_of_nine(const std::string& name, const std::string& revision) {
  const std::string whole = of_nine("X", name, revision);
  const std::size_t at = whole.find("{\"kind\"");
  return whole.substr(at, whole.size() - at - 2);
}

class MovingClusters : public testing::MergedWatches {
 protected:
  void SetUp() override {
    start();
    report("alpha");
    scripts_[1] = [this](Exchange& exchange) {
      if (exchange.head.target.starts_with("/clusters/c9/")) {
        ++listed_;
        FakeShard::reply(exchange, 200, list_);
        return;
      }
      serve(1, exchange);
    };
  }
  /// The shard reports the LogicalCluster: the last one that does owns it.
  void report(const std::string& shard) {
    const topology::ShardInfo* info = rig_->view->current().shard(shard);
    ASSERT_NE(info, nullptr);
    rig_->index.upsert_cluster(info->id, {"c9", "root:nine", {}, false});
    rig_->publisher.publish(rig_->index.freeze());
    EXPECT_TRUE(until([&] {
      const auto fact = rig_->view->current().cluster("c9");
      return fact && fact->owner == info->id;
    }));
  }
  void holds(const std::string& revision, const std::vector<std::string>& items) {
    list_ = R"({"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":")" +
            revision + R"("},"items":[)";
    for (const std::string& item : items) {
      list_ += (&item == items.data() ? "" : ",") + item;
    }
    list_ += "]}";
  }
  std::string list_;
  int listed_ = 0;
};

TEST_F(MovingClusters, WhenAClusterMoves_T110_NobodySeesDeletions) {
  Answer& answer = synced();
  tell(0, of_nine("ADDED", "x", "12"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 3; }));
  // Its objects are copied: the owner is alpha.
  tell(1, of_nine("ADDED", "x", "30"));
  tell(1, event("ADDED", "other", "31"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 4; }));
  EXPECT_EQ(told(answer), (Told{"ADDED a", "ADDED b", "ADDED other", "ADDED x"}));
  EXPECT_EQ(listed_, 0);

  holds("31", {item_of_nine("x", "30")});
  report("beta");
  EXPECT_TRUE(until([&] { return told(answer).size() == 5; })) << answer.body;
  EXPECT_EQ(listed_, 1);
  // What is left at alpha is cleared away, and beta goes on.
  tell(0, of_nine("DELETED", "x", "40"));
  tell(1, of_nine("MODIFIED", "x", "30"));  // older than what was listed
  tell(0, event("ADDED", "still", "41"));
  tell(1, of_nine("MODIFIED", "x", "32"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 7; })) << answer.body;
  EXPECT_EQ(told(answer), (Told{"ADDED a", "ADDED b", "ADDED other", "ADDED still", "ADDED x",
                                "ADDED x", "MODIFIED x"}));
  std::vector<std::string> of_x;
  for (const Json& one : events(answer)) {
    if (one.text({"object", "metadata", "name"}) == "x") {
      of_x.emplace_back(one.text({"object", "metadata", "resourceVersion"}));
    }
  }
  EXPECT_EQ(of_x, (Told{"12", "30", "32"}));
  EXPECT_FALSE(answer.ended);
  EXPECT_EQ(listed_, 1);
}

TEST_F(MovingClusters, WhenMoreHappensThanWasListed_T110_ItIsListedAgain) {
  Answer& answer = synced();
  tell(1, of_nine("ADDED", "x", "30"));
  tell(1, of_nine("MODIFIED", "x", "33"));
  tell(1, event("ADDED", "other", "34"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 3; }));
  holds("31", {item_of_nine("x", "30")});  // of a server that lags
  int rounds = 0;
  scripts_[1] = [this, &rounds](Exchange& exchange) {
    if (!exchange.head.target.starts_with("/clusters/c9/")) {
      serve(1, exchange);
      return;
    }
    if (++rounds == 2) {
      holds("34", {item_of_nine("x", "33")});
    }
    FakeShard::reply(exchange, 200, list_);
  };
  report("beta");
  EXPECT_TRUE(until([&] { return told(answer).size() == 4; })) << answer.body;
  EXPECT_EQ(rounds, 2);
  EXPECT_NE(answer.body.find(R"("resourceVersion":"33")"), std::string::npos);
}

TEST_F(MovingClusters, WhenAClientStillTakesInitialEvents_T110_ItListsAgain) {
  scripts_[1] = [this](Exchange& exchange) {
    if (!is_watch(exchange)) {
      FakeShard::reply(exchange, 200, list_);
      return;
    }
    http::HeaderList headers;
    headers.add("content-type", "application/json");
    exchange.stream->send_head(200, headers, false);
    exchange.stream->send_data(of_nine("ADDED", "x", "30"), false);  // and no end
    open_[1].push_back(&exchange);
  };
  holds("31", {item_of_nine("x", "30")});
  Answer& answer = watch(testing::kNewest);
  EXPECT_TRUE(until([&] { return told(answer).size() == 1; }));
  report("beta");
  EXPECT_TRUE(until([&] { return answer.ended; })) << answer.body;
  EXPECT_EQ(events(answer).back().find("object")->find("code")->as_integer(), 410);
}

TEST_F(MovingClusters, WhenAWatchBeginsInTheMiddle_T110_OnlyTheOwnersObjectsAreInitial) {
  scripts_[0] = [this](Exchange& exchange) {
    if (!is_watch(exchange)) {
      serve(0, exchange);
      return;
    }
    http::HeaderList headers;
    headers.add("content-type", "application/json");
    exchange.stream->send_head(200, headers, false);
    exchange.stream->send_data(of_nine("ADDED", "x", "11") + bookmark("12", true), false);
    open_[0].push_back(&exchange);
  };
  scripts_[1] = [this](Exchange& exchange) {
    if (!is_watch(exchange)) {
      serve(1, exchange);
      return;
    }
    http::HeaderList headers;
    headers.add("content-type", "application/json");
    exchange.stream->send_head(200, headers, false);
    exchange.stream->send_data(of_nine("ADDED", "x", "30") + bookmark("31", true), false);
    open_[1].push_back(&exchange);
  };
  Answer& answer = synced();
  EXPECT_EQ(told(answer), Told{"ADDED x"});
  EXPECT_NE(answer.body.find("\"resourceVersion\":\"11\""), std::string::npos);
}

TEST_F(MovingClusters, WhenBothShardsDeleteWhileItMoves_T110_TheObjectIsDeleted) {
  Answer& answer = synced();
  tell(0, of_nine("ADDED", "x", "12"));
  tell(1, of_nine("ADDED", "x", "30"));
  tell(1, event("ADDED", "other", "31"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 4; }));
  Exchange* asked = nullptr;
  scripts_[1] = [this, &asked](Exchange& exchange) {
    if (exchange.head.target.starts_with("/clusters/c9/")) {
      asked = &exchange;
    } else {
      serve(1, exchange);
    }
  };
  report("beta");
  EXPECT_TRUE(until([&] { return asked != nullptr; }));
  tell(0, of_nine("DELETED", "x", "40"));  // beta has it, as far as its stream says
  tell(0, event("ADDED", "still", "41"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 5; }));
  tell(1, of_nine("DELETED", "x", "32"));
  holds("32", {});
  FakeShard::reply(*asked, 200, list_);
  EXPECT_TRUE(until([&] { return told(answer).size() == 6; })) << answer.body;
  EXPECT_EQ(told(answer),
            (Told{"ADDED a", "ADDED b", "ADDED other", "ADDED still", "ADDED x", "DELETED x"}));
}

/// The same of a watch of Tables.
std::string row_of_nine(const std::string& name, const std::string& revision) {
  return R"({"cells":[")" + name + R"("],"object":{"kind":"PartialObjectMetadata","apiVersion":)" +
         R"("meta.k8s.io/v1","metadata":{"name":")" + name + R"(","namespace":"t","uid":"u-)" +
         name + R"(","resourceVersion":")" + revision +
         R"(","annotations":{"kcp.io/cluster":"c9"}}}})";
}

std::string table_of(const std::string& revision, const std::string& rows) {
  return R"({"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":")" +
         revision + R"("},"columnDefinitions":[{"name":"Name","type":"string"}],"rows":[)" + rows +
         "]}";
}

std::string row_event_of_nine(const std::string& type, const std::string& name,
                              const std::string& revision) {
  return R"({"type":")" + type + R"(","object":)" +
         table_of(revision, row_of_nine(name, revision)) + "}\n";
}

class MovingTables : public MovingClusters {
 protected:
  void SetUp() override {
    MovingClusters::SetUp();
    for (const std::size_t i : {0U, 1U}) {
      scripts_[i] = [this, i](Exchange& exchange) { serve_table(i, exchange); };
    }
  }
  void serve_table(std::size_t i, Exchange& exchange) {
    const std::string revision = i == 0 ? "11" : "21";
    if (exchange.head.target.starts_with("/clusters/c9/")) {
      ++listed_;
      FakeShard::reply(exchange, 200, list_);
      return;
    }
    if (!is_watch(exchange)) {
      FakeShard::reply(exchange, 200, table_of(revision, ""));
      return;
    }
    http::HeaderList headers;
    headers.add("content-type", "application/json");
    exchange.stream->send_head(200, headers, false);
    if (testing::wants(exchange, "sendInitialEvents=true")) {
      exchange.stream->send_data(
          R"({"type":"BOOKMARK","object":)" +
              table_of(revision,
                       R"({"cells":[],"object":{"kind":"PartialObjectMetadata","apiVersion":)"
                       R"("meta.k8s.io/v1","metadata":{"resourceVersion":")" +
                           revision +
                           R"(","annotations":{"k8s.io/initial-events-end":"true"}}}})") +
              "}\n",
          false);
    }
    open_[i].push_back(&exchange);
  }
  /// "ADDED x@12", in their order.
  static Told rows(const Answer& answer) {
    Told out;
    for (const Json& one : events(answer)) {
      const Json* row = one.at({"object", "rows"});
      if (one.text({"type"}) != "BOOKMARK" && row != nullptr) {
        const Json& of = row->items().front();
        out.push_back(std::string(one.text({"type"})) + ' ' +
                      std::string(of.text({"object", "metadata", "name"})) + '@' +
                      std::string(of.text({"object", "metadata", "resourceVersion"})));
      }
    }
    return out;
  }
};

TEST_F(MovingTables, WhenAClusterMoves_T110_ItsRowsComeFromTheNewShard) {
  Answer& answer = send(testing::kNewest, "application/json;as=Table;v=v1;g=meta.k8s.io");
  EXPECT_TRUE(until([&] { return answer.body.find("initial-events-end") != std::string::npos; }));
  tell(0, row_event_of_nine("ADDED", "x", "12"));
  tell(1, row_event_of_nine("ADDED", "x", "30"));
  EXPECT_TRUE(until([&] { return rows(answer).size() == 1; })) << answer.body;
  list_ = table_of("31", row_of_nine("x", "30"));
  report("beta");
  EXPECT_TRUE(until([&] { return rows(answer).size() == 2; })) << answer.body;
  tell(0, row_event_of_nine("DELETED", "x", "40"));
  tell(1, row_event_of_nine("MODIFIED", "x", "32"));
  EXPECT_TRUE(until([&] { return rows(answer).size() == 3; })) << answer.body;
  EXPECT_EQ(rows(answer), (Told{"ADDED x@12", "ADDED x@30", "MODIFIED x@32"}));
  EXPECT_FALSE(answer.ended);
  EXPECT_EQ(listed_, 1);
  std::size_t with_columns = 0;
  for (const Json& one : events(answer)) {
    const Json* columns = one.at({"object", "columnDefinitions"});
    with_columns += columns != nullptr && columns->is_array() ? 1U : 0U;
  }
  EXPECT_EQ(with_columns, 1U) << answer.body;
}

TEST_F(MovingTables, WhenTheNewShardHasNoRows_T110_ClientsListAgain) {
  Answer& answer = send(testing::kNewest, "application/json;as=Table;v=v1;g=meta.k8s.io");
  EXPECT_TRUE(until([&] { return answer.body.find("initial-events-end") != std::string::npos; }));
  tell(1, row_event_of_nine("ADDED", "x", "30"));
  tell(0, row_event_of_nine("ADDED", "y", "12"));
  EXPECT_TRUE(until([&] { return rows(answer).size() == 1; })) << answer.body;
  holds("31", {item_of_nine("x", "30")});  // objects, no rows
  report("beta");
  EXPECT_TRUE(until([&] { return answer.ended; })) << answer.body;
  EXPECT_EQ(events(answer).back().find("object")->find("code")->as_integer(), 410);
}

TEST_F(MovingClusters, WhenAClusterMoves_T110_MetadataComesAsMetadata) {
  const auto as_metadata = [](std::string text) {
    for (std::size_t at = 0;
         (at = text.find(R"("kind":"ConfigMap","apiVersion":"v1")")) != std::string::npos;) {
      text.replace(at, 36, R"("kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1")");
    }
    return text;
  };
  for (const std::size_t i : {0U, 1U}) {
    scripts_[i] = [this, i, as_metadata](Exchange& exchange) {
      if (exchange.head.target.starts_with("/clusters/c9/")) {
        FakeShard::reply(exchange, 200, list_);
        return;
      }
      http::HeaderList headers;
      headers.add("content-type", "application/json");
      exchange.stream->send_head(200, headers, false);
      exchange.stream->send_data(as_metadata(bookmark(i == 0 ? "11" : "21", true)), false);
      open_[i].push_back(&exchange);
    };
  }
  Answer& answer =
      send(testing::kNewest, "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io");
  EXPECT_TRUE(until([&] { return ends(answer) == 1; })) << answer.body;
  tell(1, as_metadata(of_nine("ADDED", "x", "30")));
  tell(0, as_metadata(of_nine("ADDED", "x", "12")));
  EXPECT_TRUE(until([&] { return told(answer).size() == 1; })) << answer.body;
  // Its items have no kind, as in lists of servers.
  list_ = R"({"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{)"
          R"("resourceVersion":"31"},"items":[{"metadata":{"name":"x","namespace":"t","uid":"u-x",)"
          R"("resourceVersion":"30","annotations":{"kcp.io/cluster":"c9"}}}]})";
  report("beta");
  EXPECT_TRUE(until([&] { return told(answer).size() == 2; })) << answer.body;
  EXPECT_EQ(told(answer), (Told{"ADDED x", "ADDED x"}));
  for (const Json& one : events(answer)) {
    EXPECT_EQ(one.text({"object", "kind"}), "PartialObjectMetadata") << one.dump();
  }
  EXPECT_FALSE(answer.ended);
}

TEST_F(MovingClusters, WhenObjectsDoNotMoveAlong_T110_TheyAreDeleted) {
  Answer& answer = synced();
  tell(0, of_nine("ADDED", "x", "12"));
  tell(0, of_nine("ADDED", "lost", "13"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 4; }));
  tell(1, of_nine("ADDED", "x", "30"));
  tell(1, event("ADDED", "other", "31"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 5; }));
  holds("31", {item_of_nine("x", "30")});
  report("beta");
  EXPECT_TRUE(until([&] { return told(answer).size() == 7; })) << answer.body;
  tell(0, of_nine("DELETED", "lost", "40"));
  tell(0, of_nine("DELETED", "x", "41"));
  tell(0, event("ADDED", "still", "42"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 8; })) << answer.body;
  EXPECT_EQ(told(answer), (Told{"ADDED a", "ADDED b", "ADDED lost", "ADDED other", "ADDED still",
                                "ADDED x", "ADDED x", "DELETED lost"}));
  EXPECT_EQ(listed_, 1);
}

TEST_F(MovingClusters, WhenTheOwnerChangesBeforeObjectsDo_T110_WhatIsNotCopiedIsDeleted) {
  Answer& answer = synced();
  tell(0, of_nine("ADDED", "x", "12"));
  tell(0, of_nine("ADDED", "lost", "13"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 4; }));
  report("beta");
  tell(1, of_nine("ADDED", "x", "30"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 5; })) << answer.body;
  holds("33", {item_of_nine("x", "30")});
  tell(0, of_nine("DELETED", "x", "40"));
  tell(0, of_nine("DELETED", "lost", "41"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 7; })) << answer.body;
  EXPECT_EQ(told(answer), (Told{"ADDED a", "ADDED b", "ADDED lost", "ADDED x", "ADDED x", "ADDED x",
                                "DELETED lost"}));
  EXPECT_EQ(listed_, 1);
}

TEST_F(MovingClusters, WhenTheOldShardLeaves_T110_NothingThatMovedIsDeleted) {
  Answer& answer = synced();
  tell(0, of_nine("ADDED", "x", "12"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 3; }));
  report("beta");
  tell(1, of_nine("ADDED", "x", "30"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 4; })) << answer.body;
  rig_->index.delete_shard("alpha");
  rig_->publisher.publish(rig_->index.freeze());
  tell(1, event("ADDED", "still", "31"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 6; })) << answer.body;
  EXPECT_EQ(told(answer),
            (Told{"ADDED a", "ADDED b", "ADDED still", "ADDED x", "ADDED x", "DELETED a"}));
}

TEST_F(MovingClusters, WhenMoreHappensWhileItIsListed_T110_ItComesAfterTheList) {
  Answer& answer = synced();
  tell(1, of_nine("ADDED", "x", "30"));
  tell(1, event("ADDED", "other", "31"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 3; }));
  Exchange* asked = nullptr;
  scripts_[1] = [this, &asked](Exchange& exchange) {
    if (exchange.head.target.starts_with("/clusters/c9/")) {
      ++listed_;
      asked = &exchange;
    } else {
      serve(1, exchange);
    }
  };
  report("beta");
  EXPECT_TRUE(until([&] { return asked != nullptr; }));
  tell(1, of_nine("MODIFIED", "x", "32"));
  tell(1, of_nine("MODIFIED", "x", "35"));
  tell(1, event("ADDED", "last", "36"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 4; }));
  holds("33", {item_of_nine("x", "32")});
  FakeShard::reply(*asked, 200, list_);
  EXPECT_TRUE(until([&] { return told(answer).size() == 6; })) << answer.body;
  EXPECT_EQ(listed_, 1);
  std::vector<std::string> of_x;
  for (const Json& one : events(answer)) {
    if (one.text({"object", "metadata", "name"}) == "x") {
      of_x.emplace_back(one.text({"object", "metadata", "resourceVersion"}));
    }
  }
  EXPECT_EQ(of_x, (Told{"32", "35"}));
}

/// The same with readers who come back.
class ResumedMoves : public MovingClusters {
 protected:
  /// Behind the events of both shards. @param resource_versions  components
  std::string cursor_at(const Answer& answer, const std::string& first, const std::string& second) {
    const std::string end =
        std::string(20 - first.size(), '0') + first + std::string(20 - second.size(), '0') + second;
    EXPECT_TRUE(until([&] { return cursor(answer).ends_with(end); })) << answer.body;
    return cursor(answer);
  }
  Answer& resume(const std::string& cursor) {
    Answer& answer = watch("?watch=1&allowWatchBookmarks=true&resourceVersion=" + cursor);
    EXPECT_TRUE(until([&] { return answer.status != 0; }));
    return answer;
  }
  /// Of x, in their order: "MODIFIED 12".
  static Told of_x(const Answer& answer) {
    Told out;
    for (const Json& one : events(answer)) {
      if (one.text({"object", "metadata", "name"}) == "x") {
        out.push_back(std::string(one.text({"type"})) + ' ' +
                      std::string(one.text({"object", "metadata", "resourceVersion"})));
      }
    }
    return out;
  }
};

TEST_F(ResumedMoves, WhenItsCopyCameBeforeTheCursor_T110_NothingOlderOfTheFormerShardComes) {
  Answer& first = synced();
  tell(0, of_nine("ADDED", "x", "12"));
  tell(1, of_nine("ADDED", "x", "30"));
  tell(1, event("ADDED", "other", "31"));
  const std::string before = cursor_at(first, "12", "31");
  tell(0, of_nine("MODIFIED", "x", "13"));
  cursor_at(first, "13", "31");
  holds("31", {item_of_nine("x", "30")});
  report("beta");
  EXPECT_TRUE(until([&] { return of_x(first).size() == 3; })) << first.body;

  Answer& second = resume(before);
  EXPECT_TRUE(until([&] { return streams(0) == 2; }));
  tell(0, of_nine("MODIFIED", "x", "13") + of_nine("DELETED", "x", "40") +
              event("ADDED", "still", "41"));
  tell(1, of_nine("MODIFIED", "x", "32"));
  EXPECT_TRUE(until([&] {
    const Told all = told(second);
    return std::find(all.begin(), all.end(), "ADDED still") != all.end() && of_x(second).size() > 1;
  })) << second.body;
  EXPECT_EQ(of_x(second), (Told{"ADDED 30", "MODIFIED 32"}));
  EXPECT_FALSE(second.ended);
  EXPECT_EQ(of_x(first), (Told{"ADDED 12", "MODIFIED 13", "ADDED 30", "MODIFIED 32"}));
}

TEST_F(ResumedMoves, WhenNothingElseHappensAtTheNewShard_T110_WhatItHasIsTold) {
  Answer& first = synced();
  tell(0, of_nine("ADDED", "x", "12"));
  const std::string before = cursor_at(first, "12", "21");
  tell(1, of_nine("ADDED", "x", "30"));
  const std::string copied = cursor_at(first, "12", "30");
  holds("31", {item_of_nine("x", "30")});
  first.stream->reset(Errc::kCancelled);
  report("beta");
  EXPECT_TRUE(until([&] { return listed_ == 1; }));
  for (const std::string& from : {before, copied}) {
    Answer& answer = resume(from);
    tell(1, of_nine("MODIFIED", "x", from == before ? "40" : "50"));
    EXPECT_TRUE(until([&] { return of_x(answer).size() == (from == before ? 2U : 3U); }))
        << answer.body;
    EXPECT_EQ(of_x(answer).front(), "ADDED 30");
    EXPECT_FALSE(answer.ended);
  }
  EXPECT_EQ(streams(1), 1U);
}

TEST_F(ResumedMoves, WhenTheListWasAheadOfTheCursor_T110_ItListsAgain) {
  Answer& first = synced();
  tell(0, of_nine("ADDED", "x", "12"));
  tell(1, of_nine("ADDED", "x", "30"));
  std::string between = cursor_at(first, "12", "30");
  between.back() = '1';  // where another stream of beta may have been
  holds("35", {item_of_nine("x", "30")});
  report("beta");
  EXPECT_TRUE(until([&] { return of_x(first).size() == 2; })) << first.body;
  Answer& second = resume(between);
  EXPECT_TRUE(until([&] { return second.ended; })) << second.body;
  EXPECT_EQ(events(second).back().find("object")->find("code")->as_integer(), 410);
  // From where it was listed on nothing is lacking.
  between.back() = '5';
  Answer& third = resume(between);
  tell(1, of_nine("MODIFIED", "x", "36"));
  EXPECT_TRUE(until([&] { return of_x(third).size() == 1; })) << third.body;
  EXPECT_FALSE(third.ended);
}

}  // namespace
}  // namespace kintsugi::proxy
