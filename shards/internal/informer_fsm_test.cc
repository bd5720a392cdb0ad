#include "shards/internal/informer_fsm.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kintsugi::shards {
namespace {

using Kind = InformerFsm::Action::Kind;
using State = InformerFsm::State;

std::string object(const std::string& name, int revision, const std::string& cluster = "one") {
  return R"({"metadata":{"name":")" + name + R"(","resourceVersion":")" + std::to_string(revision) +
         R"(","annotations":{"kcp.io/cluster":")" + cluster + R"("}}})";
}

std::string event(const std::string& type, const std::string& what) {
  return R"({"type":")" + type + R"(","object":)" + what + "}\n";
}

std::string bookmark(int revision, bool end) {
  return event(
      "BOOKMARK",
      R"({"metadata":{"resourceVersion":")" + std::to_string(revision) + R"(")" +
          (end ? R"(,"annotations":{"k8s.io/initial-events-end":"true"})" : std::string()) + "}}");
}

std::string error_event(int code) {
  return event("ERROR", R"({"kind":"Status","code":)" + std::to_string(code) + "}");
}

/// Feeds a machine and writes down what comes out.
class Script : public InformerSink {
 public:
  explicit Script(InformerParams of = params()) : fsm(std::move(of), *this) {}
  static InformerParams params() {
    InformerParams p;
    p.target = "/t";
    p.default_cluster = "root";
    p.max_event_bytes = 512;
    return p;
  }
  void on_upsert(const ObjectKey& key, const krm::Json& item) override {
    log.push_back("+" + std::string(key.cluster) + "/" + std::string(key.name) + "@" +
                  std::string(item.text({"metadata", "resourceVersion"})));
  }
  void on_delete(const ObjectKey& key) override {
    log.push_back("-" + std::string(key.cluster) + "/" + std::string(key.name));
  }
  void on_synced() override { log.emplace_back("synced"); }
  void on_refused(int status) override { log.push_back("refused " + std::to_string(status)); }

  Script& feed(InformerFsm::Action next) {
    if (next.kind != Kind::kNone) {
      action = std::move(next);
      ++actions;
    }
    return *this;
  }
  Script& start() { return feed(fsm.start(now)); }
  Script& head(int status, int retry_after = 0) {
    return feed(fsm.on_head(status, retry_after, now));
  }
  Script& data(const std::string& bytes) { return feed(fsm.on_data(bytes, now)); }
  Script& end(Errc cause) { return feed(fsm.on_end(cause, now)); }
  Script& timer() { return feed(fsm.on_timer(now)); }
  Script& page(int status, const std::string& body, int retry_after = 0) {
    return feed(fsm.on_page(status, retry_after, body, now));
  }
  Script& wait(Duration time) {
    now += time;
    return *this;
  }
  /// A machine in step at revision 10 with objects a@3 and b@4.
  Script& in_step() {
    return start().head(200).data(event("ADDED", object("a", 3)) + event("ADDED", object("b", 4)) +
                                  bookmark(10, true));
  }
  [[nodiscard]] bool asks(std::string_view text) const {
    return action.target.find(text) != std::string::npos;
  }
  void expect_rest(Duration least, Duration most) const {
    ASSERT_EQ(action.kind, Kind::kRest);
    EXPECT_GE(action.wait, least);
    EXPECT_LE(action.wait, most);
  }

  InformerFsm fsm;
  TimePoint now{};
  InformerFsm::Action action;
  int actions = 0;
  std::vector<std::string> log;
};

using Log = std::vector<std::string>;

TEST(InformerFsm, WhenStarted_AsksForWatchListWithAllParameters) {
  Script s;
  s.start();
  ASSERT_EQ(s.action.kind, Kind::kWatch);
  EXPECT_EQ(s.action.target.substr(0, s.action.target.rfind('=') + 1),
            "/t?watch=true&allowWatchBookmarks=true&sendInitialEvents=true"
            "&resourceVersionMatch=NotOlderThan&timeoutSeconds=");
  const int timeout = std::stoi(s.action.target.substr(s.action.target.rfind('=') + 1));
  EXPECT_GE(timeout, 300);
  EXPECT_LE(timeout, 600);
}

TEST(InformerFsm, WhenInitialEventsEnd_IsSyncedAndFollows) {
  Script s;
  s.in_step();
  EXPECT_EQ(s.log, (Log{"+one/a@3", "+one/b@4", "synced"}));
  EXPECT_EQ(s.fsm.state(), State::kWatching);
  s.data(event("MODIFIED", object("a", 11)) + event("DELETED", object("b", 12)));
  EXPECT_EQ(s.log.size(), 5U);
  EXPECT_EQ(s.log[3], "+one/a@11");
  EXPECT_EQ(s.log[4], "-one/b");
  EXPECT_EQ(s.fsm.revision(), "12");
  s.data(bookmark(20, false));
  EXPECT_EQ(s.fsm.revision(), "20");
  EXPECT_EQ(s.actions, 1);
}

TEST(InformerFsm, WhenBytesComeOneByOne_ReadsTheSameEvents) {
  Script s;
  s.start().head(200);
  const std::string all = event("ADDED", object("a", 3)) + "\n" + bookmark(10, true);
  for (char byte : all) {
    s.data(std::string(1, byte));
  }
  EXPECT_EQ(s.log, (Log{"+one/a@3", "synced"}));
}

TEST(InformerFsm, WhenAnObjectHasNoClusterAnnotation_BelongsToTheDefault) {
  Script s;
  s.start().head(200).data(event("ADDED", R"({"metadata":{"name":"beta","resourceVersion":"1"}})"));
  EXPECT_EQ(s.log, (Log{"+root/beta@1"}));
}

TEST(InformerFsm, WhenWatchListIsTurnedDown_ListsPageByPageThenWatches) {
  for (int status : {400, 405, 406, 415, 422, 501}) {
    Script s;
    s.start().head(status);
    ASSERT_EQ(s.action.kind, Kind::kList);
    EXPECT_EQ(s.action.target, "/t?limit=500&resourceVersion=0");
    s.page(200, R"({"metadata":{"resourceVersion":"9","continue":"a+/="},"items":[)" +
                    object("a", 3) + "]}");
    EXPECT_EQ(s.action.target, "/t?limit=500&continue=a%2B%2F%3D");
    s.page(200, R"({"metadata":{"resourceVersion":"9"},"items":[)" + object("b", 4) + "]}");
    EXPECT_EQ(s.log, (Log{"+one/a@3", "+one/b@4", "synced"}));
    ASSERT_EQ(s.action.kind, Kind::kWatch);
    EXPECT_TRUE(s.asks("resourceVersion=9&"));
    EXPECT_FALSE(s.asks("sendInitialEvents"));
  }
}

TEST(InformerFsm, WhenTheListIsTooLarge_AsksForPagesFromTheStore) {
  Script s;
  s.start().head(422);
  s.feed(s.fsm.on_page_failed(Errc::kRequestEntityTooLarge, s.now));
  EXPECT_EQ(s.action.target, "/t?limit=500");
  s.feed(s.fsm.on_page_failed(Errc::kRequestEntityTooLarge, s.now));
  EXPECT_EQ(s.action.kind, Kind::kRest);
}

TEST(InformerFsm, WhenTheWatchEndsInOrder_ResumesAtOnceFromTheLastRevision) {
  Script s;
  s.in_step().data(bookmark(15, false)).wait(seconds(400)).end(Errc::kOk);
  ASSERT_EQ(s.action.kind, Kind::kWatch);
  EXPECT_TRUE(s.asks("resourceVersion=15&"));
  s.head(200).data(event("MODIFIED", object("a", 16)));
  EXPECT_EQ(s.log.back(), "+one/a@16");
}

TEST(InformerFsm, WhenTheWatchEndsWithinASecond_RestsFirst) {
  Script s;
  s.in_step().wait(milliseconds(999)).end(Errc::kOk);
  s.expect_rest(milliseconds(100), milliseconds(200));
}

TEST(InformerFsm, WhenFailuresGoOn_TheRestGrowsToThirtySeconds) {
  Script s;
  s.start();
  Duration least = milliseconds(100);
  for (int i = 0; i < 30; ++i) {
    s.end(Errc::kRefused);
    s.expect_rest(std::min<Duration>(least, seconds(30)),
                  std::min<Duration>(2 * least, seconds(30)));
    least = std::min<Duration>(2 * least, seconds(30));
    s.timer();
    ASSERT_EQ(s.action.kind, Kind::kWatch);
  }
}

TEST(InformerFsm, WhenItWorksAgain_TheRestBeginsAnew) {
  Script s;
  s.start();
  for (int i = 0; i < 8; ++i) {
    s.end(Errc::kRefused).timer();
  }
  s.head(200).data(bookmark(10, true)).end(Errc::kReset);
  s.expect_rest(milliseconds(100), milliseconds(200));
}

TEST(InformerFsm, WhenRetryAfterIsLonger_WaitsThatLong) {
  Script s;
  s.start().head(429, 7);
  s.expect_rest(seconds(7), seconds(7));
  EXPECT_TRUE(s.log.empty());
  s.timer().head(503, 2);
  s.expect_rest(seconds(2), seconds(2));
}

TEST(InformerFsm, WhenRefused_TellsTheSinkAndTriesOn) {
  for (int status : {401, 403, 404}) {
    Script s;
    s.start().head(status);
    EXPECT_EQ(s.log, (Log{"refused " + std::to_string(status)}));
    EXPECT_EQ(s.action.kind, Kind::kRest);
    s.timer();
    EXPECT_TRUE(s.asks("sendInitialEvents"));
  }
}

TEST(InformerFsm, FP118_WhenRevisionIsGone_ListsAgainAndReportsWhatVanished) {
  Script s;
  s.in_step().log.clear();
  s.data(error_event(410));
  ASSERT_EQ(s.action.kind, Kind::kWatch);
  EXPECT_TRUE(s.asks("sendInitialEvents"));
  s.head(200).data(event("ADDED", object("b", 4)) + event("ADDED", object("c", 30)) +
                   bookmark(31, true));
  EXPECT_EQ(s.log, (Log{"+one/c@30", "-one/a", "synced"}));
}

TEST(InformerFsm, WhenAResumedWatchAnswers410_ListsAgain) {
  Script s;
  s.in_step().wait(seconds(2)).end(Errc::kOk).head(410);
  EXPECT_EQ(s.action.kind, Kind::kWatch);
  EXPECT_TRUE(s.asks("sendInitialEvents"));
  s.head(200).data(bookmark(40, true)).wait(seconds(2)).end(Errc::kOk).head(410);
  EXPECT_EQ(s.action.kind, Kind::kWatch) << "a long watch between proves progress";
  s.head(200).data(bookmark(41, true) + error_event(410));
  EXPECT_EQ(s.action.kind, Kind::kRest) << "the second time in a row is not immediate";
}

TEST(InformerFsm, WhenAResumptionIsRefusedThreeTimes_ListsAgain) {
  Script s;
  s.in_step().wait(seconds(2)).end(Errc::kOk).head(504).timer().head(504).timer();
  EXPECT_TRUE(s.asks("resourceVersion=10"));
  s.head(504).timer();
  EXPECT_TRUE(s.asks("sendInitialEvents"));
}

TEST(InformerFsm, WhenAnErrorEventIsNot410_RestsAndResumes) {
  Script s;
  s.in_step().data(error_event(500));
  s.expect_rest(milliseconds(100), milliseconds(200));
  s.timer();
  EXPECT_TRUE(s.asks("resourceVersion=10"));
}

TEST(InformerFsm, WhenAnEventIsMalformed_ListsAgainAfterARest) {
  for (const char* bytes : {"{\n", "[]\n", "{\"type\":\"ADDED\"}\n", "\xff\n"}) {
    Script s;
    s.in_step().data(bytes);
    ASSERT_EQ(s.action.kind, Kind::kRest);
    s.timer();
    EXPECT_TRUE(s.asks("sendInitialEvents"));
    EXPECT_EQ(s.fsm.counters().malformed, 1U);
  }
}

TEST(InformerFsm, WhenAnEventIsTooLarge_SkipsItAndGoesOn) {
  Script s;
  s.in_step();
  const std::string large = event("MODIFIED", object(std::string(600, 'x'), 11));
  s.data(large.substr(0, 300)).data(large.substr(300) + event("MODIFIED", object("a", 12)));
  s.data(large + event("MODIFIED", object("a", 13)));
  EXPECT_EQ(s.fsm.counters().oversized, 2U);
  EXPECT_EQ(s.log.back(), "+one/a@13");
  EXPECT_EQ(s.log[s.log.size() - 2], "+one/a@12");
}

TEST(InformerFsm, WhenInitialEventsNeverEnd_FallsBackToList) {
  Script s;
  s.start().head(200).data(event("ADDED", object("a", 3))).wait(seconds(300)).end(Errc::kOk);
  EXPECT_EQ(s.action.kind, Kind::kList);
}

TEST(InformerFsm, WhenTheServerChanges_ListsThereAndDropsWhatIsGone) {
  Script s;
  s.in_step().log.clear();
  s.feed(s.fsm.relist("/u", s.now));
  EXPECT_EQ(s.action.target.substr(0, 3), "/u?");
  EXPECT_TRUE(s.asks("sendInitialEvents"));
  EXPECT_FALSE(s.fsm.synced());
  s.head(200).data(event("ADDED", object("a", 3)) + bookmark(2, true));
  EXPECT_EQ(s.log, (Log{"-one/b", "synced"}));
}

TEST(InformerFsm, WhenKicked_EndsOnlyARest) {
  Script s;
  s.start();
  EXPECT_EQ(s.fsm.kick(s.now).kind, Kind::kNone);
  s.end(Errc::kRefused);
  EXPECT_EQ(s.fsm.kick(s.now).kind, Kind::kWatch);
}

// The good script, for injecting one fault at every step.
struct Step {
  State before;
  void (*run)(Script&);
};
const Step kGood[] = {
    {State::kIdle, [](Script& s) { s.start(); }},
    {State::kOpening, [](Script& s) { s.head(200); }},
    {State::kInitial, [](Script& s) { s.data(event("ADDED", object("a", 3))); }},
    {State::kInitial, [](Script& s) { s.data(bookmark(10, true)); }},
    {State::kWatching, [](Script& s) { s.data(event("ADDED", object("b", 11))); }},
    {State::kWatching, [](Script& s) { s.wait(seconds(300)).end(Errc::kOk); }},
    {State::kResuming, [](Script& s) { s.head(200); }},
    {State::kWatching, [](Script& s) { s.data(event("DELETED", object("a", 12))); }},
};

TEST(InformerFsm, WhenAnyStepFails_RecoversToTheSameObjects) {
  const std::vector<std::pair<const char*, void (*)(Script&)>> faults = {
      {"refused", [](Script& s) { s.end(Errc::kRefused); }},
      {"reset", [](Script& s) { s.end(Errc::kReset); }},
      {"closed", [](Script& s) { s.end(Errc::kClosed); }},
      {"early end", [](Script& s) { s.end(Errc::kOk); }},
      {"500", [](Script& s) { s.head(500); }},
      {"403", [](Script& s) { s.head(403); }},
      {"410", [](Script& s) { s.head(410); }},
      {"429", [](Script& s) { s.head(429, 1); }},
      {"half an event", [](Script& s) { s.data(R"({"type":"ADDED",)").end(Errc::kReset); }},
      {"error event", [](Script& s) { s.data(error_event(500)); }},
      {"expired event", [](Script& s) { s.data(error_event(410)); }},
      {"garbage", [](Script& s) { s.data("no json\n"); }},
      {"timer", [](Script& s) { s.timer(); }},
      {"page", [](Script& s) { s.page(200, "{}"); }},
  };
  for (std::size_t at = 0; at < std::size(kGood); ++at) {
    for (const auto& [name, fault] : faults) {
      SCOPED_TRACE(std::to_string(at) + " " + name);
      Script s;
      for (std::size_t i = 0; i < at; ++i) {
        ASSERT_EQ(s.fsm.state(), kGood[i].before);
        kGood[i].run(s);
      }
      fault(s);
      // A server that works from here on and holds b@11 and c@20.
      for (int i = 0; i < 10 && s.fsm.state() != State::kWatching; ++i) {
        s.start().timer().wait(seconds(1));
        if (s.asks("sendInitialEvents")) {
          s.head(200).data(event("ADDED", object("b", 11)) + event("ADDED", object("c", 20)) +
                           event("DELETED", object("a", 12)) + bookmark(20, true));
        } else if (s.asks("resourceVersion=1")) {
          s.head(200).data(event("DELETED", object("a", 12)) + event("ADDED", object("b", 11)) +
                           event("ADDED", object("c", 20)));
        }
      }
      ASSERT_EQ(s.fsm.state(), State::kWatching);
      if (s.fsm.revision() != "20") {  // the fault did not matter in this state
        s.data(event("DELETED", object("a", 12)) + event("ADDED", object("b", 11)) +
               event("ADDED", object("c", 20)));
      }
      EXPECT_EQ(s.fsm.keys().size(), 2U);
      EXPECT_TRUE(s.fsm.synced());
    }
  }
}

TEST(InformerFsm, WhenStoppedInAnyState_CancelsAndIgnoresWhatComesLate) {
  for (std::size_t at = 0; at <= std::size(kGood); ++at) {
    Script s;
    for (std::size_t i = 0; i < at; ++i) {
      kGood[i].run(s);
    }
    s.feed(s.fsm.stop());
    EXPECT_EQ(s.action.kind, Kind::kCancel);
    const int before = s.actions;
    const std::size_t logged = s.log.size();
    s.head(200).data(bookmark(99, true)).end(Errc::kOk).timer().page(200, "{}");
    EXPECT_EQ(s.actions, before);
    EXPECT_EQ(s.log.size(), logged);
    s.start();
    EXPECT_EQ(s.action.kind, Kind::kWatch);
  }
}

/// Lists ask for the same as watches do.
TEST(InformerFsmTest, GR_702_ASelector_IsInEveryQuestion) {
  InformerParams params = Script::params();
  params.reflector.selector = "labelSelector=a";
  Script s(params);
  s.feed(s.fsm.start(TimePoint()));
  EXPECT_NE(s.action.target.find("&labelSelector=a"), std::string::npos) << s.action.target;
  s.feed(s.fsm.on_head(422, 0, TimePoint()));
  EXPECT_EQ(s.action.kind, Kind::kList);
  EXPECT_NE(s.action.target.find("&labelSelector=a"), std::string::npos) << s.action.target;
  s.feed(s.fsm.on_page(200, 0, R"({"metadata":{"resourceVersion":"5"},"items":[]})", TimePoint()));
  EXPECT_EQ(s.action.kind, Kind::kWatch);
  EXPECT_NE(s.action.target.find("&labelSelector=a"), std::string::npos) << s.action.target;
}

}  // namespace
}  // namespace kintsugi::shards
