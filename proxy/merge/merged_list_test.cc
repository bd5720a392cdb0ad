#include "proxy/merge/merged_list.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "base/strings.h"
#include "krm/json.h"
#include "krm/protobuf.h"
#include "proxy/merge/proto_build.h"
#include "proxy/merge/proto_split.h"
#include "proxy/testing_rig.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;
using testing::Answer;
using testing::Exchange;
using testing::FakeShard;
using testing::Rig;

constexpr const char* kMaps = "/clusters/*/api/v1/configmaps";
constexpr const char* kProtobuf = "application/vnd.kubernetes.protobuf";
constexpr const char* kTypedClient = "application/vnd.kubernetes.protobuf,application/json";
constexpr const char* kTableOrJson =
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

std::string item(const std::string& name, const std::string& more = "") {
  return R"({"metadata":{"name":")" + name + R"(","namespace":"t","resourceVersion":"7")" + more +
         "}}";
}

std::string list_of(const std::string& revision, const std::vector<std::string>& items,
                    const std::string& token = "") {
  std::string out = R"({"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":")" +
                    revision + R"(","continue":")" + token + R"("},"items":[)";
  for (const std::string& one : items) {
    out += (&one == items.data() ? "" : ",") + one;
  }
  return out + "]}\n";
}

std::string encoded_list(const std::string& revision, const std::vector<std::string>& names) {
  Json list = *Json::parse(list_of(revision, {}));
  for (const std::string& name : names) {
    list["items"].push_back(*Json::parse(item(name)));
  }
  return krm::encode_protobuf(list).value();
}

std::string table(const std::string& columns, const std::string& name) {
  return R"({"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"5"},)"
         R"("columnDefinitions":[)" +
         columns + R"(],"rows":[{"cells":[")" + name + R"("],"object":)" + item(name) + "}]}";
}

std::string parameter(const Exchange& exchange, const std::string& name) {
  const std::string& target = exchange.head.target;
  const std::size_t at = target.find(name + "=");
  return at == std::string::npos
             ? std::string()
             : target.substr(at + name.size() + 1, target.find('&', at) - at - name.size() - 1);
}

void reply_with(Exchange& exchange, int status, std::string_view body,
                std::initializer_list<std::pair<std::string_view, std::string_view>> fields) {
  http::HeaderList headers;
  headers.add("content-type", "application/json");
  for (const auto& [name, value] : fields) {
    headers.set(name, value);
  }
  exchange.stream->send_head(status, headers, false);
  exchange.stream->send_data(body, true);
}

using Script = std::function<void(Exchange&)>;

/// Three shards; each answers with one object of its name unless a test says otherwise.
class MergedLists : public ::testing::Test {
 protected:
  void start(const MergeOptions& options = {}, const std::function<void(MergeParams&)>& set = {}) {
    rig_ = std::make_unique<Rig>(
        [](net::UpstreamParams& params) { params.restart_window = Duration(); },
        [&](ProxyHandlerParams& params) {
          params.wildcard = true;
          params.merge_options = options;
          params.merge_params.first_byte = milliseconds(150);
          if (set) {
            set(params.merge_params);
          }
        });
    rig_->log_in();
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      FakeShard& shard = i == 0 ? rig_->shard : more_[i - 1];
      scripts_[i] = [name = std::string(kNames[i])](Exchange& exchange) {
        FakeShard::reply(exchange, 200, list_of("1" + std::to_string(name.size()), {item(name)}));
      };
      shard.complete = [this, i](Exchange& exchange) { scripts_[i](exchange); };
      if (i > 0) {
        net::ListenerParams listening;
        listeners_[i - 1] = Rig::must(net::Listener::open(rig_->loop, listening, shard));
        topology::ShardSpec spec;
        spec.name = kNames[i];
        spec.base_url = "http://127.0.0.1:" + std::to_string(listeners_[i - 1]->port());
        rig_->add_shard(spec);
      }
    }
  }
  void TearDown() override {
    answers_.clear();
    for (const auto& listener : listeners_) {
      if (listener) {
        listener->close();
      }
    }
  }

  Answer& send(const std::string& query = "", const std::string& accept = "application/json",
               std::initializer_list<std::pair<std::string_view, std::string_view>> fields = {}) {
    http::RequestHead head = Rig::get(kMaps + query);
    head.headers.add("accept", accept);
    for (const auto& [name, value] : fields) {
      head.headers.add(name, value);
    }
    Answer& answer = *answers_.emplace_back(std::make_unique<Answer>());
    rig_->send(answer, head);
    return answer;
  }
  Answer& ask(const std::string& query = "", const std::string& accept = "application/json",
              std::initializer_list<std::pair<std::string_view, std::string_view>> fields = {}) {
    Answer& answer = send(query, accept, fields);
    EXPECT_TRUE(rig_->until([&] { return answer.closed; }));
    return answer;
  }
  FakeShard& shard(std::size_t i) { return i == 0 ? rig_->shard : more_[i - 1]; }
  std::uint64_t failures(const std::string& name, std::string_view reason) {
    const auto& all = rig_->handler->merge_stats().shard_failures;
    const auto found = all.find({name, reason});
    return found == all.end() ? 0 : found->second;
  }

  static std::vector<std::string> names(const Json& list) {
    std::vector<std::string> out;
    const Json* items = list.find("items");
    for (const Json& one : items == nullptr ? std::span<const Json>() : items->items()) {
      out.emplace_back(one.text({"metadata", "name"}));
    }
    return out;
  }
  static std::vector<std::string> names(const Answer& answer) {
    const auto list = Json::parse(answer.body);
    return list ? names(*list) : std::vector<std::string>{answer.body};
  }
  static std::vector<std::string> warnings(const Answer& answer) {
    std::vector<std::string> out;
    for (std::size_t i = 0; i < answer.headers.size(); ++i) {
      if (answer.headers[i].name == "warning") {
        out.emplace_back(answer.headers[i].value);
      }
    }
    return out;
  }
  static std::string cursor(const Answer& answer) {
    const auto list = Json::parse(answer.body);
    return std::string(list ? list->text({"metadata", "resourceVersion"}) : std::string_view());
  }
  static std::uint64_t component(const Answer& answer, std::size_t slot) {
    const std::string text = cursor(answer);
    return text.size() < 35 + 20 * slot
               ? 0
               : parse_decimal(std::string_view(text).substr(16 + 20 * slot, 19)).value_or(0);
  }

  static constexpr std::array<const char*, 3> kNames = {"alpha", "b", "cc"};
  static constexpr MergeOptions kOnRequest{MissingShards::kStrict, true, Resync::kDiff, true};
  static constexpr MergeOptions kPartial{MissingShards::kPartial, false, Resync::kDiff, true};
  const std::vector<std::string> all_ = {"alpha", "b", "cc"};
  std::array<FakeShard, 2> more_;
  std::array<Script, 3> scripts_;
  std::array<std::unique_ptr<net::Listener>, 2> listeners_;
  std::unique_ptr<Rig> rig_;
  std::vector<std::unique_ptr<Answer>> answers_;
};

Script status(int code, const std::string& retry_after = "") {
  return [=](Exchange& exchange) {
    const std::string body = R"({"kind":"Status","apiVersion":"v1","code":)" +
                             std::to_string(code) + R"(,"message":"from the shard"})";
    if (retry_after.empty()) {
      reply_with(exchange, code, body, {});
    } else {
      reply_with(exchange, code, body, {{"retry-after", retry_after}});
    }
  };
}
const Script kSilent = [](Exchange&) {};

TEST_F(MergedLists, WhenAllAnswer_T01_HasTheObjectsOfAllInOrder) {
  start();
  for (std::size_t i = 0; i < 3; ++i) {
    scripts_[i] = [i](Exchange& exchange) {
      reply_with(exchange, 200, list_of("4" + std::to_string(i), {item("x" + std::to_string(i))}),
                 {{"warning", "299 - \"old\""}});
    };
  }
  const Answer& answer = ask();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(names(answer), (std::vector<std::string>{"x0", "x1", "x2"}));
  EXPECT_EQ(cursor(answer).size(), 15U + 60U);
  EXPECT_EQ(component(answer, 2), 42U);
  EXPECT_EQ(warnings(answer), std::vector<std::string>{"299 - \"old\""});
  EXPECT_EQ(rig_->handler->merge_stats().list_times.at(200).counts.size(), 7U);
}

TEST_F(MergedLists, WhenAShardDoesNotAnswer_T62_StrictIsUnavailableAndNamesIt) {
  start(kOnRequest);
  scripts_[1] = kSilent;
  const Answer& answer = ask();
  EXPECT_EQ(answer.status, 503);
  EXPECT_NE(answer.header("retry-after"), "");
  const auto body = Json::parse(answer.body);
  ASSERT_TRUE(body);
  EXPECT_EQ(body->text({"reason"}), "ServiceUnavailable");
  EXPECT_EQ((*body->at({"details", "causes"})).items()[0].text({"field"}), "b");
  EXPECT_EQ(failures("b", "timeout"), 1U);
}

TEST_F(MergedLists, WhenAskedFor_T63_GoesOnWithoutTheShardThatIsAway) {
  start(kOnRequest);
  for (const auto& script : {kSilent, status(500), status(401), status(403)}) {
    scripts_[1] = script;
    const Answer& answer = ask("", "application/json", {{"x-kintsugi-partial", "true"}});
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(names(answer), (std::vector<std::string>{"alpha", "cc"}));
    EXPECT_EQ(component(answer, 1), 0U);
    EXPECT_NE(component(answer, 2), 0U);
    ASSERT_EQ(warnings(answer).size(), 1U);
    EXPECT_TRUE(warnings(answer)[0].starts_with("299 - \"the answer lacks shard b: "));
  }
  EXPECT_FALSE(shard(0).exchanges.back().head.headers.contains("x-kintsugi-partial"));
  EXPECT_EQ(rig_->handler->merge_stats().lists_partial, 4U);
  EXPECT_EQ(ask().status, 403);
}

TEST_F(MergedLists, WhenPartialIsNotAllowed_TheRequestCannotHaveIt) {
  start();
  scripts_[1] = status(500);
  EXPECT_EQ(ask("", "application/json", {{"x-kintsugi-partial", "true"}}).status, 503);
}

TEST_F(MergedLists, WhenEveryShardIsAway_PartialIsNoEmptyList) {
  start(kPartial);
  scripts_ = {status(500), status(500), status(500)};
  EXPECT_EQ(ask().status, 503);
  scripts_ = {status(403), status(404), status(403)};
  EXPECT_EQ(ask().status, 403);
  scripts_ = {status(404), status(500), status(404)};
  EXPECT_EQ(ask().status, 503);
  scripts_ = {status(404), status(404), status(404)};
  EXPECT_EQ(ask().status, 404);
}

TEST_F(MergedLists, WhenAShardAnswersSomethingElse_T19_T67_ItIsDown) {
  start(kPartial);
  scripts_[1] = [](Exchange& exchange) { FakeShard::reply(exchange, 200, "<html>", "text/html"); };
  const Answer& answer = ask();
  EXPECT_EQ(names(answer), (std::vector<std::string>{"alpha", "cc"}));
  EXPECT_EQ(failures("b", "malformed"), 1U);
}

TEST_F(MergedLists, WhenIdentityIsNotTaken_T67_OnlyACallersOwnTokenIsTold) {
  start();
  scripts_[2] = status(401);
  EXPECT_EQ(ask().status, 503);
  EXPECT_EQ(failures("cc", "identity"), 1U);
  rig_->identity = nullptr;
  rig_->client = net::Upstream::make(rig_->loop, rig_->client->params());
  EXPECT_EQ(ask("", "application/json", {{"authorization", "Bearer x"}}).status, 401);
}

TEST_F(MergedLists, WhenAShardIsBusy_T67_ItIsWaitedForOnce) {
  start();
  int calls = 0;
  scripts_[1] = [&](Exchange& exchange) {
    ++calls;
    (calls == 1 ? status(429, "1") : [](Exchange& again) {
      FakeShard::reply(again, 200, list_of("9", {item("b")}));
    })(exchange);
  };
  EXPECT_EQ(names(ask()), all_);
  EXPECT_EQ(calls, 2);
}

TEST_F(MergedLists, WhenShardsStayBusy_T67_SaysTheLongestWait) {
  start({}, [](MergeParams& params) { params.list_deadline = seconds(5); });
  scripts_[1] = status(429, "1");
  scripts_[2] = status(429, "3");
  const Answer& answer = ask();
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.header("retry-after"), "3");
}

TEST_F(MergedLists, WhenItsWaitIsTooLong_T67_BusyIsSaidAtOnce) {
  start();
  scripts_[2] = status(429, "60");
  const Answer& answer = ask();
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.header("retry-after"), "60");
}

TEST_F(MergedLists, WhenAShardIsCutOff_T65_TheListIsNoList) {
  start(kPartial);
  scripts_[1] = [](Exchange& exchange) {
    http::HeaderList headers;
    headers.add("content-type", "application/json");
    exchange.stream->send_head(200, headers, false);
    exchange.stream->send_data(list_of("9", {item("b1"), item("b2")}).substr(0, 150), true);
  };
  for (const char* encoding : {"identity", "gzip"}) {
    const Answer& answer = ask("", "application/json", {{"accept-encoding", encoding}});
    EXPECT_TRUE(answer.closed && !answer.ended);
    EXPECT_NE(answer.result, Errc::kOk);
    EXPECT_FALSE(Json::parse(answer.body));
  }
  EXPECT_EQ(rig_->handler->merge_stats().list_times.at(0).counts[0] +
                rig_->handler->merge_stats().list_times.at(0).counts[1] +
                rig_->handler->merge_stats().list_times.at(0).counts[2],
            2U);
}

TEST_F(MergedLists, WhenAnotherKindOrAStatusComes_T68_IsNotForwarded) {
  start();
  for (
      const char* body :
      {R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"})",
       R"({"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"s"}}]})",
       R"({"items":[{"metadata":{"name":"s"}}],"apiVersion":"v1","kind":"OtherList","metadata":{}})"}) {
    scripts_[1] = [body](Exchange& exchange) { FakeShard::reply(exchange, 200, body); };
    const Answer& answer = ask();
    EXPECT_FALSE(answer.ended) << body;
    EXPECT_EQ(failures("b", "malformed"), rig_->handler->merge_stats().malformed);
  }
  EXPECT_EQ(failures("b", "malformed"), 3U);
}

TEST_F(MergedLists, WhenAnObjectOnlySpeaksOfASystemCluster_AGG1501_StaysInTheList) {
  start();
  const std::string system = R"(,"annotations":{"kcp.io/cluster":"system:admin"})";
  scripts_[0] = [&](Exchange& exchange) {
    FakeShard::reply(
        exchange, 200,
        list_of("9", {R"({"metadata":{"name":"mine"},"spec":{"kcp.io/cluster":"system:admin"}})",
                      R"({"metadata": {"name": "theirs", "annotations": )"
                      R"({"kcp.io/cluster" : "system:admin"}}})",
                      item("too", system)}));
  };
  EXPECT_EQ(names(ask()), (std::vector<std::string>{"mine", "b", "cc"}));
}

TEST_F(MergedLists, WhenAShardMakesPagesUnasked_AllOfThemAreRead) {
  start();
  scripts_[1] = [](Exchange& exchange) {
    const bool first = parameter(exchange, "continue").empty();
    FakeShard::reply(exchange, 200,
                     first ? list_of("9", {item("b1")}, "more") : list_of("9", {item("b2")}));
  };
  EXPECT_EQ(names(ask()), (std::vector<std::string>{"alpha", "b1", "b2", "cc"}));
}

// Paging

/// Answers like a shard with one object at one revision.
Script paged(const std::string& name) {
  return [=](Exchange& exchange) { FakeShard::reply(exchange, 200, list_of("9", {item(name)})); };
}

TEST_F(MergedLists, WhenAShardFailsInTheMiddle_AGG609_ThePageIsShorter) {
  start(kPartial);
  scripts_[1] = [](Exchange& exchange) {
    const bool pinned = !parameter(exchange, "resourceVersionMatch").empty();
    (pinned ? status(500) : paged("b"))(exchange);
  };
  const Answer& first = ask("?limit=10");
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(names(first), std::vector<std::string>{"alpha"});
  const std::string token(Json::parse(first.body)->text({"metadata", "continue"}));
  ASSERT_FALSE(token.empty());
  // What it had is part of the state that the pages show, so not even `partial` goes on without it.
  EXPECT_EQ(ask("?limit=10&continue=" + token).status, 503);
  scripts_[1] = paged("b");
  const Answer& rest = ask("?limit=10&continue=" + token);
  EXPECT_EQ(names(rest), (std::vector<std::string>{"b", "cc"}));
  EXPECT_EQ(cursor(rest), cursor(first));
}

TEST_F(MergedLists, WhenALaterShardForgotItsPin_T24_ThePageBeforeIsWhole) {
  start();
  const Answer& first = ask("?limit=1");
  const std::string token(Json::parse(first.body)->text({"metadata", "continue"}));
  scripts_[2] = status(410);
  const Answer& second = ask("?limit=5&continue=" + token);
  EXPECT_EQ(names(second), std::vector<std::string>{"b"});
  const std::string next(Json::parse(second.body)->text({"metadata", "continue"}));
  EXPECT_EQ(ask("?limit=5&continue=" + next).status, 410);
  // No item of that page has been sent: the answer is as it would be at once.
  scripts_[1] = [](Exchange& exchange) { FakeShard::reply(exchange, 200, list_of("9", {})); };
  EXPECT_EQ(ask("?limit=5&continue=" + token).status, 410);
}

TEST_F(MergedLists, WhenAShardJoinsBetweenPages_T28_TheListEndsUnderItsOwnGeneration) {
  start();
  const Answer& first = ask("?limit=1");
  std::string token(Json::parse(first.body)->text({"metadata", "continue"}));
  topology::ShardSpec joined;
  joined.name = "joined";
  joined.base_url = "http://127.0.0.1:1";
  const SlotHistoryPtr before = rig_->slots;
  rig_->add_shard(joined, before);
  std::vector<std::string> seen = names(first);
  for (int page = 0; page < 2; ++page) {
    const Answer& next = ask("?limit=1&continue=" + token);
    EXPECT_EQ(cursor(next), cursor(first));
    for (const std::string& name : names(next)) {
      seen.push_back(name);
    }
    const auto list = Json::parse(next.body);
    token = list ? std::string(list->text({"metadata", "continue"})) : std::string();
  }
  EXPECT_EQ(seen, all_);
  EXPECT_EQ(token, "");
}

TEST_F(MergedLists, WhenAShardIsAwayAtTheFirstPage_AGG612_ItHasNoPin) {
  start(kPartial);
  scripts_[0] = status(500);
  const Answer& first = ask("?limit=1");
  EXPECT_EQ(names(first), std::vector<std::string>{"b"});
  EXPECT_EQ(component(first, 0), 0U);
  const std::string token(Json::parse(first.body)->text({"metadata", "continue"}));
  scripts_[0] = paged("alpha");
  const Answer& rest = ask("?limit=1&continue=" + token);
  EXPECT_EQ(names(rest), std::vector<std::string>{"cc"});
  EXPECT_EQ(cursor(rest), cursor(first));
}

TEST_F(MergedLists, WhenAShardForgotItsPin_T24_TheTokenOfTheAnswerGoesOn) {
  start();
  bool forgotten = false;
  scripts_[1] = [&](Exchange& exchange) {
    if (parameter(exchange, "continue") == "FRESH") {
      FakeShard::reply(exchange, 200, list_of("50", {item("b-now")}));
    } else if (forgotten) {
      reply_with(exchange, 410, R"({"kind":"Status","code":410,"metadata":{"continue":"FRESH"}})",
                 {});
    } else {
      paged("b")(exchange);
    }
  };
  const Answer& first = ask("?limit=1");
  const std::string token(Json::parse(first.body)->text({"metadata", "continue"}));
  forgotten = true;
  const Answer& gone = ask("?limit=1&continue=" + token);
  EXPECT_EQ(gone.status, 410);
  const std::string fresh(Json::parse(gone.body)->text({"metadata", "continue"}));
  ASSERT_FALSE(fresh.empty());
  const Answer& rest = ask("?limit=1&continue=" + fresh);
  EXPECT_EQ(names(rest), std::vector<std::string>{"b-now"});
  EXPECT_EQ(component(rest, 1), 50U);
}

TEST_F(MergedLists, WhenAShardForgotAPinThatWasNotBegun_T24_PagesGoOnWithWhatItHas) {
  start();
  const Answer& first = ask("?limit=1");
  const std::string token(Json::parse(first.body)->text({"metadata", "continue"}));
  scripts_[1] = [](Exchange& exchange) {
    const bool pinned = !parameter(exchange, "resourceVersion").empty();
    (pinned ? status(410) : [](Exchange& now) {
      FakeShard::reply(now, 200, list_of("50", {item("b-now")}));
    })(exchange);
  };
  const Answer& gone = ask("?limit=1&continue=" + token);
  EXPECT_EQ(gone.status, 410);
  const std::string next(Json::parse(gone.body)->text({"metadata", "continue"}));
  const Answer& rest = ask("?limit=5&continue=" + next);
  EXPECT_EQ(names(rest), (std::vector<std::string>{"b-now", "cc"}));
  EXPECT_EQ(component(rest, 1), 50U);
  EXPECT_EQ(parameter(shard(2).exchanges.back(), "resourceVersion"), "");
}

TEST_F(MergedLists, WhenTheEndOfAFullPageComesLate_T20_ItsTokenIsWaitedFor) {
  start();
  Exchange* late = nullptr;
  const std::string body =
      R"({"items":[)" + item("a1") +
      R"(],"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9","continue":"REST"}})";
  const std::size_t half = body.find("],");
  scripts_[0] = [&](Exchange& exchange) {
    http::HeaderList headers;
    headers.add("content-type", "application/json");
    exchange.stream->send_head(200, headers, false);
    exchange.stream->send_data(body.substr(0, half), false);
    late = &exchange;
  };
  const Answer& answer = send("?limit=1");
  ASSERT_TRUE(rig_->until([&] { return !answer.body.empty(); }));
  late->stream->send_data(body.substr(half), true);
  ASSERT_TRUE(rig_->until([&] { return answer.closed; }));
  const std::string token(Json::parse(answer.body)->text({"metadata", "continue"}));
  scripts_[0] = paged("a2");
  EXPECT_EQ(names(ask("?limit=1&continue=" + token)), std::vector<std::string>{"a2"});
  EXPECT_EQ(parameter(shard(0).exchanges.back(), "continue"), "REST");
}

// Media types

TEST_F(MergedLists, WhenAllSpeakProtobuf_T10_ItIsSpliced) {
  start();
  for (std::size_t i = 0; i < 3; ++i) {
    scripts_[i] = [i](Exchange& exchange) {
      FakeShard::reply(exchange, 200, encoded_list("4" + std::to_string(i), {kNames[i]}),
                       kProtobuf);
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
      const std::string body = encoded_list("4", {kNames[i]});
      FakeShard::reply(exchange, 200, body.substr(0, body.size() - (i == 2 ? 30 : 0)), kProtobuf);
    };
  }
  EXPECT_EQ(ask("", kTypedClient).status, 503);
}

TEST_F(MergedLists, WhenProtobufIsTooMuchToWaitFor_T10_JsonOfTheSameStateComes) {
  start({}, [](MergeParams& params) { params.protobuf_spool = 60; });
  for (std::size_t i = 0; i < 3; ++i) {
    scripts_[i] = [i](Exchange& exchange) {
      if (exchange.head.headers.get("accept") == "application/json") {
        FakeShard::reply(exchange, 200, list_of("4" + std::to_string(i), {item(kNames[i])}));
      } else {
        FakeShard::reply(exchange, 200, encoded_list("4" + std::to_string(i), {kNames[i], "z"}),
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
      FakeShard::reply(exchange, 200, table(columns, kNames[i]));
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
        FakeShard::reply(exchange, 200, list_of("5", {item(kNames[i])}));
      } else {
        FakeShard::reply(exchange, 200,
                         table(i == 1 ? R"({"name":"Age","type":"string"})"
                                      : R"({"name":"Name","type":"string"})",
                               kNames[i]));
      }
    };
  }
  EXPECT_EQ(names(ask("", kTableOrJson)), all_);
  EXPECT_EQ(names(ask("?limit=3", kTableOrJson)), all_);
  EXPECT_EQ(ask("", "application/json;as=Table;v=v1;g=meta.k8s.io").status, 406);
}

// Limits

TEST_F(MergedLists, WhenTooManyStreamsAreOpen_AGG601_WholeListsWait) {
  start({}, [](MergeParams& params) {
    params.list_streams = 3;
    params.first_byte = seconds(20);
  });
  scripts_[2] = kSilent;
  Answer& first = send();
  ASSERT_TRUE(rig_->until([&] { return shard(2).exchanges.size() == 1; }));
  Answer& second = send();
  Answer& third = send("?timeout=100ms");
  ASSERT_TRUE(rig_->until([&] { return third.closed; }));
  EXPECT_EQ(third.status, 503);
  EXPECT_EQ(shard(0).exchanges.size(), 1U);
  scripts_[2] = paged("cc");
  scripts_[2](shard(2).exchanges.front());
  ASSERT_TRUE(rig_->until([&] { return first.closed && second.closed; }));
  EXPECT_EQ(names(first), all_);
  EXPECT_EQ(names(second), all_);
}

TEST_F(MergedLists, WhenItWaitsTooLongForItsTurn_AGG601_IsTooMany) {
  start({}, [](MergeParams& params) { params.list_streams = 1; });
  scripts_[0] = [](Exchange& exchange) {
    http::HeaderList headers;
    headers.add("content-type", "application/json");
    exchange.stream->send_head(200, headers, false);
  };
  const Answer& first = send();
  ASSERT_TRUE(rig_->until([&] { return shard(0).exchanges.size() == 1; }));
  const Answer& second = ask();
  EXPECT_EQ(second.status, 429);
  EXPECT_EQ(second.header("retry-after"), "1");
  EXPECT_FALSE(first.closed);
}

}  // namespace
}  // namespace kintsugi::proxy
