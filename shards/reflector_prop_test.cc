#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "shards/testing/reflector_script.h"

// A reflector's machine against a model of an API server that fails in every way the protocol
// knows. At all times: what the mirror drops had been deleted at the server (RT-26, RT-27). Once
// the server works: the mirror holds exactly the server's objects.
namespace kintsugi::shards {
namespace {

using testing::bookmark;
using testing::error_event;
using testing::event;
using testing::Kind;
using testing::list;
using testing::object;
using State = InformerFsm::State;

struct Server {
  struct Event {
    int revision;
    std::string type, name;
  };
  std::map<std::string, int> objects;
  std::vector<Event> history;
  int revision = 1;
  int compacted = 0;
  std::map<std::string, int> listed;  // pages show the objects as they were at the first one
  int listed_revision = 0;

  void change(std::mt19937_64& random) {
    const std::string name = "o" + std::to_string(random() % 12);
    ++revision;
    if (objects.count(name) != 0 && random() % 2 == 0) {
      objects.erase(name);
      history.push_back({revision, "DELETED", name});
    } else {
      history.push_back({revision, objects.count(name) != 0 ? "MODIFIED" : "ADDED", name});
      objects[name] = revision;
    }
  }
  [[nodiscard]] bool deleted_after(int from, const std::string& name) const {
    return std::any_of(history.begin(), history.end(), [&](const Event& e) {
      return e.revision > from && e.name == name && e.type == "DELETED";
    });
  }
  [[nodiscard]] std::string initial() const {
    std::string all;
    for (const auto& [name, at] : objects) {
      all += event("ADDED", object(name, at));
    }
    return all + bookmark(revision, true);
  }
  [[nodiscard]] std::string since(int from) const {
    std::string all;
    for (const Event& e : history) {
      if (e.revision > from) {
        all += event(e.type, object(e.name, e.revision));
      }
    }
    return all;
  }
  [[nodiscard]] std::string page(std::size_t from, std::size_t count) {
    if (from == 0) {
      listed = objects;
      listed_revision = revision;
    }
    std::vector<std::string> items;
    std::size_t at = 0;
    for (const auto& [name, rv] : listed) {
      if (at >= from && at < from + count) {
        items.push_back(object(name, rv));
      }
      ++at;
    }
    return list(std::to_string(listed_revision), items,
                from + count < listed.size() ? std::to_string(from + count) : "");
  }
};

struct Mirror final : InformerSink {
  explicit Mirror(const Server& the_server) : server(the_server) {}
  void on_upsert(const ObjectKey& key, const krm::Json& item) override {
    objects[std::string(key.name)] =
        std::stoi(std::string(item.text({"metadata", "resourceVersion"})));
  }
  void on_delete(const ObjectKey& key) override {
    const auto at = objects.find(std::string(key.name));
    ASSERT_NE(at, objects.end()) << "deleted what was never there";
    EXPECT_TRUE(server.deleted_after(at->second, at->first)) << at->first << " is there";
    objects.erase(at);
  }
  void on_synced() override {}
  const Server& server;
  std::map<std::string, int> objects;
};

std::string parameter(const std::string& target, const std::string& name) {
  for (std::size_t at = target.find(name + "="); at != std::string::npos;
       at = target.find(name + "=", at + 1)) {
    if (target[at - 1] == '?' || target[at - 1] == '&') {
      const std::size_t begin = at + name.size() + 1;
      return target.substr(begin, target.find('&', begin) - begin);
    }
  }
  return {};
}

/// One history.
class World {
 public:
  explicit World(std::uint64_t seed)
      : random_(seed), no_watch_list_(seed % 3 == 0), mirror(server), fsm(params(seed), mirror) {}

  void run() {
    take(fsm.start(now_));
    for (int round = 0; round < 500; ++round) {
      faulty_ = round < 300;
      now_ += milliseconds(random_() % 3'000);
      for (std::uint64_t i = random_() % 3; faulty_ && i > 0; --i) {
        server.change(random_);
      }
      if (chance(30)) {
        server.compacted = server.revision;
      }
      if (chance(40)) {
        now_ += seconds(151);
        if (take(fsm.on_timer(now_))) {
          continue;
        }
      }
      if (chance(40)) {
        take(fsm.kick(now_));
      }
      switch (action_.kind) {
        case Kind::kRest:
          now_ += action_.wait;
          take(fsm.on_timer(now_));
          break;
        case Kind::kList:
          answer_list();
          break;
        case Kind::kWatch:
          answer_watch();
          break;
        default:
          FAIL() << "the machine stopped";
      }
    }
  }

 private:
  static InformerParams params(std::uint64_t seed) {
    InformerParams result = reflector_params("/t", "Thing");
    result.seed = seed;
    return result;
  }
  bool chance(unsigned of) { return faulty_ && random_() % of == 0; }
  bool take(InformerFsm::Action next) {
    if (next.kind == Kind::kNone) {
      return false;
    }
    action_ = std::move(next);
    return true;
  }
  Errc end() {
    constexpr Errc kEnds[] = {Errc::kOk, Errc::kReset, Errc::kClosed, Errc::kNotProcessed};
    return kEnds[random_() % 4];
  }
  void answer_list() {
    if (chance(6)) {
      take(fsm.on_page_failed(end(), now_));
      return;
    }
    if (chance(6)) {
      constexpr int kStatuses[] = {401, 403, 410, 429, 500, 503};
      take(fsm.on_page(kStatuses[random_() % 6], static_cast<int>(random_() % 3), "{}", now_));
      return;
    }
    const std::string token = parameter(action_.target, "continue");
    const bool whole = parameter(action_.target, "limit").empty();
    std::string body = server.page(token.empty() ? 0 : std::stoul(token), whole ? 1'000 : 5);
    if (chance(6)) {
      body.resize(random_() % body.size());
    }
    const bool partial = chance(8);
    if (partial) {
      body = list(std::to_string(server.revision), {});  // some shards' objects are not there
    } else if (chance(8)) {
      body = list("", {});
    }
    take(fsm.on_page(200, 0, body, now_, partial));
  }
  void answer_watch() {
    if (fsm.state() == State::kOpening || fsm.state() == State::kResuming) {
      if (!open_watch()) {
        return;
      }
    }
    const int from = std::exchange(sent_, server.revision);
    if (chance(15)) {
      constexpr int kCodes[] = {410, 429, 500, 503, 504};
      take(fsm.on_data(error_event(kCodes[random_() % 5]), now_));
    } else if (chance(20)) {
      take(fsm.on_data("garbage\n", now_));
    } else if (chance(10)) {
      take(fsm.on_end(end(), now_));
    } else {
      deliver(server.since(from));
    }
  }
  /// False when there is nothing more to say in this round.
  bool open_watch() {
    const bool opening = fsm.state() == State::kOpening;
    if (chance(6)) {
      take(fsm.on_end(Errc::kRefused, now_));
      return false;
    }
    if (chance(6)) {
      constexpr int kStatuses[] = {401, 403, 429, 500, 503, 504};
      take(fsm.on_head(kStatuses[random_() % 6], static_cast<int>(random_() % 3), now_));
      return false;
    }
    if (opening && no_watch_list_) {
      take(fsm.on_head(422, 0, now_));
      return false;
    }
    if (!opening) {
      sent_ = std::stoi(parameter(action_.target, "resourceVersion"));
      if (sent_ < server.compacted) {
        if (random_() % 2 == 0) {
          take(fsm.on_head(410, 0, now_));
        } else {
          (void)fsm.on_head(200, 0, now_);
          take(fsm.on_data(error_event(410), now_));
        }
        return false;
      }
    }
    (void)fsm.on_head(200, 0, now_);
    if (opening) {
      sent_ = server.revision;
      deliver(server.initial());
      return false;
    }
    return true;
  }
  void deliver(std::string bytes) {
    const bool cut = chance(8);
    if (cut) {
      bytes.resize(random_() % (bytes.size() + 1));
    }
    while (!bytes.empty()) {
      const std::size_t part = std::min<std::size_t>(bytes.size(), 1 + random_() % 300);
      if (take(fsm.on_data(bytes.substr(0, part), now_))) {
        return;
      }
      bytes.erase(0, part);
    }
    if (cut) {
      take(fsm.on_end(end(), now_));
    }
  }

  std::mt19937_64 random_;
  bool no_watch_list_;
  bool faulty_ = true;
  TimePoint now_{};
  InformerFsm::Action action_;
  int sent_ = 0;  // revision up to which the open watch has delivered

 public:
  Server server;
  Mirror mirror;
  InformerFsm fsm;
};

TEST(ReflectorProperty, RT26_RT27_WhenTheServerFailsAtRandom_NothingIsDroppedThatIsThere) {
  const char* const full = std::getenv("KINTSUGI_FULL_LOAD");
  const std::uint64_t seeds = full != nullptr ? 10'000 : 150;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed);
    world.run();
    ASSERT_EQ(world.mirror.objects, world.server.objects);
    ASSERT_EQ(world.fsm.keys().size(), world.server.objects.size());
    ASSERT_EQ(world.fsm.state(), State::kWatching);
    ASSERT_TRUE(world.fsm.synced());
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
}

}  // namespace
}  // namespace kintsugi::shards
