#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "shards/internal/informer_fsm.h"

// The machine against a model of an API server that fails in every way the protocol knows. Whatever
// happens, once the server works the informer holds exactly the server's objects.
namespace kintsugi::shards {
namespace {

using Kind = InformerFsm::Action::Kind;

struct Server {
  struct Event {
    int revision;
    std::string type, name;
  };
  std::map<std::string, int> objects;
  std::vector<Event> history;
  int revision = 1;
  int compacted = 0;

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
  static std::string object(const std::string& name, int at) {
    return R"({"metadata":{"name":")" + name + R"(","resourceVersion":")" + std::to_string(at) +
           R"(","annotations":{"kcp.io/cluster":"c"}}})";
  }
  static std::string event(const std::string& type, const std::string& object) {
    return R"({"type":")" + type + R"(","object":)" + object + "}\n";
  }
  [[nodiscard]] std::string initial() const {
    std::string all;
    for (const auto& [name, at] : objects) {
      all += event("ADDED", object(name, at));
    }
    return all +
           event("BOOKMARK", R"({"metadata":{"resourceVersion":")" + std::to_string(revision) +
                                 R"(","annotations":{"k8s.io/initial-events-end":"true"}}})");
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
  // Pages show the objects as they were at the first one.
  std::map<std::string, int> listed;
  int listed_revision = 0;
  [[nodiscard]] std::string page(std::size_t from, std::size_t count) {
    if (from == 0) {
      listed = objects;
      listed_revision = revision;
    }
    std::string items;
    std::size_t at = 0;
    for (const auto& [name, rv] : listed) {
      if (at >= from && at < from + count) {
        items += (items.empty() ? "" : ",") + object(name, rv);
      }
      ++at;
    }
    const std::string token = from + count < listed.size()
                                  ? R"(,"continue":")" + std::to_string(from + count) + "\""
                                  : "";
    return R"({"metadata":{"resourceVersion":")" + std::to_string(listed_revision) + "\"" + token +
           R"(},"items":[)" + items + "]}";
  }
};

struct Mirror final : InformerSink {
  std::map<std::string, int> objects;
  int synced = 0;
  void on_upsert(const ObjectKey& key, const krm::Json& object) override {
    objects[std::string(key.name)] =
        std::stoi(std::string(object.text({"metadata", "resourceVersion"})));
  }
  void on_delete(const ObjectKey& key) override {
    EXPECT_EQ(objects.erase(std::string(key.name)), 1U) << "deleted what was never there";
  }
  void on_synced() override { ++synced; }
};

std::string parameter(const std::string& target, const std::string& name) {
  const std::size_t at = target.find(name + "=");
  if (at == std::string::npos) {
    return {};
  }
  const std::size_t begin = at + name.size() + 1;
  return target.substr(begin, target.find('&', begin) - begin);
}

TEST(InformerProperty, WhenTheServerFailsAtRandom_TheMirrorEqualsTheServerInTheEnd) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Server server;
    Mirror mirror;
    InformerParams params;
    params.target = "/t";
    params.seed = seed;
    InformerFsm fsm(params, mirror);
    const bool no_watch_list = seed % 3 == 0;
    TimePoint now{};
    InformerFsm::Action action = fsm.start(now);
    int sent = 0;  // revision up to which the open watch has delivered
    bool faulty = true;
    const auto chance = [&](unsigned of) { return faulty && random() % of == 0; };
    const auto take = [&](InformerFsm::Action next) {
      if (next.kind != Kind::kNone) {
        action = std::move(next);
        return true;
      }
      return false;
    };
    const auto deliver = [&](std::string bytes) {
      const bool cut = chance(8);
      if (cut) {
        bytes.resize(random() % (bytes.size() + 1));
      }
      while (!bytes.empty()) {
        const std::size_t part = std::min<std::size_t>(bytes.size(), 1 + random() % 200);
        if (take(fsm.on_data(bytes.substr(0, part), now))) {
          return;
        }
        bytes.erase(0, part);
      }
      if (cut) {
        take(fsm.on_end(random() % 2 == 0 ? Errc::kReset : Errc::kOk, now));
      }
    };
    for (int round = 0; round < 400; ++round) {
      faulty = round < 250;
      now += milliseconds(random() % 3'000);
      for (std::uint64_t i = random() % 3; faulty && i > 0; --i) {
        server.change(random);
      }
      if (chance(30)) {
        server.compacted = server.revision;
      }
      switch (action.kind) {
        case Kind::kRest:
          take(fsm.on_timer(now));
          break;
        case Kind::kList: {
          if (chance(5)) {
            take(fsm.on_page_failed(Errc::kRefused, now));
          } else if (chance(5)) {
            take(fsm.on_page(random() % 2 == 0 ? 410 : 500, 0, "{}", now));
          } else {
            const std::string token = parameter(action.target, "continue");
            const std::size_t from = token.empty() ? 0 : std::stoul(token);
            take(fsm.on_page(200, 0, server.page(from, 5), now));
          }
          break;
        }
        case Kind::kWatch: {
          using State = InformerFsm::State;
          if (fsm.state() == State::kOpening || fsm.state() == State::kResuming) {
            const bool opening = fsm.state() == State::kOpening;
            if (chance(5)) {
              take(fsm.on_end(Errc::kRefused, now));
              break;
            }
            if (chance(5)) {
              const int statuses[] = {401, 403, 404, 429, 500, 503, 504};
              take(fsm.on_head(statuses[random() % 7], 0, now));
              break;
            }
            if (opening && no_watch_list) {
              take(fsm.on_head(422, 0, now));
              break;
            }
            if (opening) {
              (void)fsm.on_head(200, 0, now);
              sent = server.revision;
              deliver(server.initial());
              break;
            }
            sent = std::stoi(parameter(action.target, "resourceVersion"));
            if (sent < server.compacted) {
              if (random() % 2 == 0) {
                take(fsm.on_head(410, 0, now));
              } else {
                (void)fsm.on_head(200, 0, now);
                deliver(Server::event("ERROR", R"({"code":410})"));
              }
              break;
            }
            (void)fsm.on_head(200, 0, now);
          }
          const int from = std::exchange(sent, server.revision);
          if (chance(15)) {
            take(fsm.on_data("garbage\n", now));
          } else if (chance(10)) {
            take(fsm.on_end(Errc::kOk, now));
          } else {
            deliver(server.since(from));
          }
          break;
        }
        default:
          FAIL() << "the machine stopped";
      }
      if (chance(60)) {
        take(fsm.relist({}, now));
      }
    }
    ASSERT_EQ(mirror.objects, server.objects);
    ASSERT_EQ(fsm.keys().size(), server.objects.size());
    ASSERT_TRUE(fsm.synced());
    ASSERT_GT(mirror.synced, 0);
  }
}

}  // namespace
}  // namespace kintsugi::shards
