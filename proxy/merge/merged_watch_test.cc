#include "proxy/merge/merged_watch.h"

#include <gtest/gtest.h>

#include <array>
#include <list>
#include <tuple>

#include "base/strings.h"
#include "krm/json.h"
#include "proxy/testing_rig.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;
using testing::Answer;
using testing::Exchange;
using testing::FakeShard;
using testing::Rig;

constexpr const char* kMaps = "/clusters/*/api/v1/configmaps";
constexpr const char* kNewest =
    "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

std::string object(const std::string& name, const std::string& revision) {
  return R"({"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":")" + name +
         R"(","namespace":"t","uid":"u-)" + name + R"(","resourceVersion":")" + revision + R"("}})";
}
std::string event(const std::string& type, const std::string& name, const std::string& revision) {
  return R"({"type":")" + type + R"(","object":)" + object(name, revision) + "}\n";
}
std::string bookmark(const std::string& revision, bool end = false) {
  return R"({"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{)"
         R"("resourceVersion":")" +
         revision + '"' +
         (end ? R"(,"annotations":{"k8s.io/initial-events-end":"true"})" : std::string()) + "}}}\n";
}
std::string gone() {
  return R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}})"
         "\n";
}
bool is_watch(const Exchange& exchange) {
  return exchange.head.target.find("watch=true") != std::string::npos;
}
bool wants(const Exchange& exchange, const std::string& parameter) {
  return exchange.head.target.find(parameter) != std::string::npos;
}

/// Two shards, alpha with object a at 11 and beta with b at 21; watches stay open.
class MergedWatches : public ::testing::Test {
 protected:
  void start(const MergeOptions& options = {}, const std::function<void(MergeParams&)>& set = {}) {
    rig_ = std::make_unique<Rig>(
        [](net::UpstreamParams& params) { params.restart_window = Duration(); },
        [&](ProxyHandlerParams& params) {
          params.wildcard = true;
          params.merge_options = options;
          params.merge_params.expire_spread = milliseconds(20);
          params.merge_params.bookmark_gap = milliseconds(5);
          params.merge_params.headers_wait = milliseconds(300);
          if (set) {
            set(params.merge_params);
          }
        });
    rig_->log_in();
    for (const std::size_t i : {0U, 1U}) {
      scripts_[i] = [this, i](Exchange& exchange) { serve(i, exchange); };
      shard(i).complete = [this, i](Exchange& exchange) { scripts_[i](exchange); };
    }
    listener_ = Rig::must(net::Listener::open(rig_->loop, net::ListenerParams(), beta_));
    topology::ShardSpec spec;
    spec.name = "beta";
    spec.base_url = "http://127.0.0.1:" + std::to_string(listener_->port());
    rig_->add_shard(spec);
  }
  void TearDown() override {
    answers_.clear();
    if (listener_) {
      listener_->close();
    }
  }
  FakeShard& shard(std::size_t i) { return i == 0 ? rig_->shard : beta_; }

  /// A well-behaved shard.
  void serve(std::size_t i, Exchange& exchange) {
    const std::string name(1, static_cast<char>('a' + i));
    const std::string revision = std::to_string((i + 1) * 10 + 1);
    if (!is_watch(exchange)) {
      FakeShard::reply(
          exchange, 200,
          R"({"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":")" +
              revision + R"("},"items":[)" + object(name, revision) + "]}");
      return;
    }
    http::HeaderList headers;
    headers.add("content-type", "application/json");
    exchange.stream->send_head(200, headers, false);
    if (wants(exchange, "sendInitialEvents=true")) {
      exchange.stream->send_data(event("ADDED", name, revision) + bookmark(revision, true), false);
    }
    open_[i].push_back(&exchange);
  }
  /// To the newest watch of the shard.
  void tell(std::size_t i, const std::string& text) {
    Exchange* live = nullptr;
    for (Exchange* one : open_[i]) {
      live = one->stream != nullptr ? one : live;
    }
    ASSERT_NE(live, nullptr);
    live->stream->send_data(text, false);
  }
  std::size_t streams(std::size_t i) {
    return static_cast<std::size_t>(std::count_if(
        open_[i].begin(), open_[i].end(), [](Exchange* one) { return one->stream != nullptr; }));
  }

  Answer& watch(const std::string& query) {
    Answer& answer = answers_.emplace_back();
    http::RequestHead head = Rig::get(kMaps + query);
    head.headers.add("accept", "application/json");
    rig_->send(answer, head);
    return answer;
  }
  static std::vector<Json> events(const Answer& answer) {
    std::vector<Json> out;
    for (const std::string_view line : split(answer.body, '\n')) {
      if (auto json = Json::parse(line); json && !line.empty()) {
        out.push_back(std::move(*json));
      }
    }
    return out;
  }
  /// "ADDED a", …, without bookmarks.
  static std::vector<std::string> told(const Answer& answer) {
    std::vector<std::string> out;
    for (const Json& one : events(answer)) {
      if (one.text({"type"}) != "BOOKMARK") {
        out.push_back(std::string(one.text({"type"})) + ' ' +
                      std::string(one.text({"object", "metadata", "name"})));
      }
    }
    std::sort(out.begin(), out.end());
    return out;
  }
  static std::string cursor(const Answer& answer) {
    std::string out;
    for (const Json& one : events(answer)) {
      if (one.text({"type"}) == "BOOKMARK") {
        out = one.text({"object", "metadata", "resourceVersion"});
      }
    }
    return out;
  }
  static std::size_t ends(const Answer& answer) {
    const auto all = events(answer);
    return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [](const Json& one) {
      return !one.text({"object", "metadata", "annotations", "k8s.io/initial-events-end"}).empty();
    }));
  }
  bool until(const std::function<bool()>& check) { return rig_->until(check); }
  Answer& synced() {
    Answer& answer = watch(kNewest);
    EXPECT_TRUE(until([&] { return ends(answer) == 1; })) << answer.body;
    return answer;
  }

  using Told = std::vector<std::string>;
  std::unique_ptr<Rig> rig_;
  FakeShard beta_;
  std::unique_ptr<net::Listener> listener_;
  std::array<std::function<void(Exchange&)>, 2> scripts_;
  std::array<std::vector<Exchange*>, 2> open_;
  std::list<Answer> answers_;
};

TEST_F(MergedWatches, WhenManyAskTheSame_T43_OneStreamPerShardServesThem) {
  start();
  std::vector<Answer*> all;
  for (int i = 0; i < 5; ++i) {
    all.push_back(&synced());
  }
  EXPECT_TRUE(until([&] { return streams(0) == 1 && streams(1) == 1; }));
  tell(1, event("MODIFIED", "b", "22"));
  for (Answer* one : all) {
    EXPECT_TRUE(until([&] { return told(*one).size() == 3; }));
    EXPECT_EQ(told(*one), (Told{"ADDED a", "ADDED b", "MODIFIED b"}));
    EXPECT_EQ(ends(*one), 1U);
  }
}

TEST_F(MergedWatches, WhenAShardForgot_T61_TheDifferenceIsTold) {
  start();
  Answer& answer = synced();
  tell(1, event("ADDED", "c", "25") + event("ADDED", "d", "26"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 4; }));
  scripts_[1] = [this](Exchange& exchange) {
    if (is_watch(exchange)) {
      serve(1, exchange);
    } else {
      FakeShard::reply(
          exchange, 200,
          R"({"kind":"ConfigMapList","apiVersion":"v1","items":[{"metadata":{"name":"b","namespace":"t","uid":"u-b","resourceVersion":"40"}},)"
          R"({"metadata":{"name":"c","namespace":"t","uid":"u-c","resourceVersion":"25"}},)"
          R"({"metadata":{"name":"e","namespace":"t","uid":"u-e","resourceVersion":"41"}}],"metadata":{"resourceVersion":"44"}})");
    }
  };
  tell(1, gone());
  EXPECT_TRUE(until([&] { return told(answer).size() == 7; })) << answer.body;
  EXPECT_EQ(told(answer), (Told{"ADDED a", "ADDED b", "ADDED c", "ADDED d", "ADDED e", "DELETED d",
                                "MODIFIED b"}));
  EXPECT_TRUE(until([&] { return cursor(answer).ends_with("00044"); })) << answer.body;
  EXPECT_EQ(events(answer).front().text({"object", "kind"}), "ConfigMap");
  tell(1, event("MODIFIED", "e", "45"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 8; }));
  EXPECT_FALSE(answer.ended);
  EXPECT_TRUE(wants(*open_[1].back(), "resourceVersion=44"));
}

TEST_F(MergedWatches, WhenAShardForgot_T61_ClientsExpireWhereThatIsAskedFor) {
  start({.resync = Resync::kExpire});
  Answer& answer = synced();
  tell(1, gone());
  EXPECT_TRUE(until([&] { return answer.ended; }));
  EXPECT_EQ(events(answer).back().find("object")->find("code")->as_integer(), 410);
}

TEST_F(MergedWatches, WhenAWatchResumes_T51_ItGetsWhatItMissedOnce) {
  start();
  Answer& first = synced();
  const std::string at = cursor(first);
  tell(0, event("ADDED", "x", "15"));
  tell(1, event("ADDED", "y", "25"));
  EXPECT_TRUE(until([&] { return told(first).size() == 4; }));
  Answer& again = watch("?watch=1&allowWatchBookmarks=true&resourceVersion=" + at);
  EXPECT_TRUE(until([&] { return told(again).size() == 2; })) << again.body;
  tell(0, event("DELETED", "x", "16"));
  EXPECT_TRUE(until([&] { return told(again).size() == 3; }));
  EXPECT_EQ(told(again), (Told{"ADDED x", "ADDED y", "DELETED x"}));
  EXPECT_EQ(streams(0) + streams(1), 2U);
  EXPECT_TRUE(until([&] { return cursor(again) == cursor(first); }));
}

TEST_F(MergedWatches, WhenAWatchResumesAtAnEvent_T52_NothingIsMissed) {
  start();
  Answer& first = synced();
  std::size_t count = 2;
  for (const auto& [from, name, revision] :
       {std::tuple(0U, "x", "25"), std::tuple(1U, "y", "25"), std::tuple(0U, "z", "26")}) {
    tell(from, event("ADDED", name, revision));
    ++count;
    EXPECT_TRUE(until([&] { return told(first).size() == count; }));
  }
  Answer& again = watch("?watch=1&resourceVersion=26");
  Answer& both = watch("?watch=1&resourceVersion=25");
  Answer& never = watch("?watch=1&resourceVersion=24");
  EXPECT_TRUE(until([&] { return never.ended; }));
  EXPECT_EQ(events(never).back().find("object")->find("code")->as_integer(), 410);
  tell(1, event("MODIFIED", "y", "27"));
  EXPECT_TRUE(until([&] { return !told(again).empty() && told(both).size() >= 3; }));
  EXPECT_EQ(told(again), Told{"MODIFIED y"});
  EXPECT_EQ(told(both), (Told{"ADDED y", "ADDED z", "MODIFIED y"}));
}

TEST_F(MergedWatches, WhenTheRightIsGone_T90_NobodyJoinsARunningStream) {
  start({}, [](MergeParams& params) { params.rights_age = Duration(); });
  Answer& first = synced();
  const std::string at = cursor(first);
  Answer& second = watch("?watch=1&resourceVersion=" + at);
  EXPECT_TRUE(until([&] { return second.status == 200; }));
  EXPECT_TRUE(until([&] { return streams(0) == 1 && streams(1) == 1; }));
  scripts_[1] = [](Exchange& exchange) {
    FakeShard::reply(exchange, 403, R"({"kind":"Status","code":403,"reason":"Forbidden"})");
  };
  Answer& third = watch("?watch=1&resourceVersion=" + at);
  EXPECT_TRUE(until([&] { return third.closed; }));
  EXPECT_EQ(third.status, 403);
  EXPECT_TRUE(until([&] { return first.ended && second.ended; }));
  EXPECT_EQ(events(second).back().find("object")->find("code")->as_integer(), 403);
}

TEST_F(MergedWatches, WhenAShardIsAway_T63_T64_ThePolicyDecides) {
  start({.allow_partial = true});
  listener_->close();
  listener_.reset();
  Answer& strict = watch(kNewest);
  EXPECT_TRUE(until([&] { return strict.closed; }));
  EXPECT_EQ(strict.status, 429);
  EXPECT_FALSE(strict.header("retry-after").empty());
  http::RequestHead head = Rig::get(std::string(kMaps) + kNewest);
  head.headers.add("accept", "application/json");
  head.headers.add("x-kintsugi-partial", "true");
  Answer& partial = answers_.emplace_back();
  rig_->send(partial, head);
  EXPECT_TRUE(until([&] { return partial.status == 200 && told(partial).size() == 1; }));
  EXPECT_EQ(told(partial), Told{"ADDED a"});
}

TEST_F(MergedWatches, WhenAnEventIsOfAnotherKind_T68_ItIsNotForwarded) {
  start();
  Answer& answer = synced();
  std::string foreign = event("ADDED", "bad", "30");
  foreign.replace(foreign.find("ConfigMap"), 9, "Secret");
  tell(1, foreign);
  EXPECT_TRUE(until([&] { return open_[1].size() >= 2 && streams(1) == 1; }));
  tell(1, event("ADDED", "good", "31"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 3; }));
  EXPECT_EQ(told(answer), (Told{"ADDED a", "ADDED b", "ADDED good"}));
  const auto& failures = rig_->handler->merge_stats().shard_failures;
  EXPECT_EQ(failures.at({"beta", "malformed"}), 1U);
}

TEST_F(MergedWatches, WhenWatchListIsRefused_T105_TheParameterIsNamed) {
  start({.watch_list = false});
  Answer& answer = watch(kNewest);
  EXPECT_TRUE(until([&] { return answer.closed; }));
  EXPECT_EQ(answer.status, 422);
  EXPECT_NE(answer.body.find("sendInitialEvents"), std::string::npos);
}

}  // namespace
}  // namespace kintsugi::proxy
