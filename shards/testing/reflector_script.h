#pragma once

// Only for tests: a machine with the rules of a reflector, fed event by event.

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "shards/internal/informer_fsm.h"

namespace kintsugi::shards::testing {

using Kind = InformerFsm::Action::Kind;
using State = InformerFsm::State;
using Log = std::vector<std::string>;

inline std::string object(const std::string& name, int revision, const std::string& more = {},
                          const std::string& cluster = "one") {
  return R"({"kind":"Thing","metadata":{"name":")" + name + R"(","uid":"u-)" + name +
         R"(","resourceVersion":")" + std::to_string(revision) +
         R"(","annotations":{"kcp.io/cluster":")" + cluster + R"("}})" + more + "}";
}
inline std::string event(const std::string& type, const std::string& what) {
  return R"({"type":")" + type + R"(","object":)" + what + "}\n";
}
inline std::string bookmark(int revision, bool end, const std::string& kind = "Thing") {
  return event(
      "BOOKMARK",
      R"({"kind":")" + kind + R"(","metadata":{"resourceVersion":")" + std::to_string(revision) +
          R"(")" +
          (end ? R"(,"annotations":{"k8s.io/initial-events-end":"true"})" : std::string()) + "}}");
}
inline std::string error_event(int code, const std::string& more = {}) {
  return event("ERROR", R"({"kind":"Status","code":)" + std::to_string(code) + more + "}");
}
inline std::string list(const std::string& revision, const std::vector<std::string>& items,
                        const std::string& token = {}) {
  std::string text = R"({"kind":"ThingList","items":[)";
  for (const std::string& item : items) {
    text += (text.back() == '[' ? "" : ",") + item;
  }
  return text + R"(],"metadata":{"resourceVersion":")" + revision + R"(","continue":")" + token +
         R"("}})";
}
inline std::vector<std::string> many(int from, int to) {
  std::vector<std::string> items;
  for (int i = from; i < to; ++i) {
    items.push_back(object("n" + std::to_string(i), i + 1));
  }
  return items;
}

/// Feeds a machine and writes down what comes out.
class Script : public InformerSink {
 public:
  explicit Script(InformerParams params = reflector_params("/t", "Thing"))
      : fsm(std::move(params), *this) {}
  void on_upsert(const ObjectKey& key, const krm::Json& item) override {
    log.push_back("+" + std::string(key.name) + "@" +
                  std::string(item.text({"metadata", "resourceVersion"})));
    clusters.emplace(key.cluster);
    EXPECT_EQ(fsm.keys().find(std::string(key.cluster) + "|" + std::string(key.ns) + "/" +
                              std::string(key.name)),
              key.id);
  }
  void on_delete(const ObjectKey& key) override {
    log.push_back("-" + std::string(key.name));
    EXPECT_NE(key.id, KeyTable::kNone);
    EXPECT_FALSE(fsm.keys().holds(key.id));
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
  Script& head(int status, int retry_after = 0, bool partial = false) {
    return feed(fsm.on_head(status, retry_after, now, partial));
  }
  Script& data(const std::string& bytes) { return feed(fsm.on_data(bytes, now)); }
  Script& end(Errc cause) { return feed(fsm.on_end(cause, now)); }
  Script& timer() { return feed(fsm.on_timer(now)); }
  Script& page(int status, const std::string& body, int retry_after = 0, bool partial = false) {
    return feed(fsm.on_page(status, retry_after, body, now, partial));
  }
  Script& lost(Errc cause) { return feed(fsm.on_page_failed(cause, now)); }
  Script& wait(Duration time) {
    now += time;
    return *this;
  }
  /// In step at revision 10 with a@3 and b@4, nothing in the log.
  Script& in_step() {
    start().head(200).data(event("ADDED", object("a", 3)) + event("ADDED", object("b", 4)) +
                           bookmark(10, true));
    log.clear();
    return *this;
  }
  /// The same with n0 … n<count-1>, for lists that delete much.
  Script& in_step_with(int count) {
    start().head(200);
    for (const std::string& item : many(0, count)) {
      data(event("ADDED", item));
    }
    data(bookmark(1'000, true));
    log.clear();
    return *this;
  }
  [[nodiscard]] std::size_t deletes() const {
    std::size_t count = 0;
    for (const std::string& line : log) {
      count += line[0] == '-' ? 1U : 0U;
    }
    return count;
  }
  void expect_list(const std::string& target) const {
    EXPECT_EQ(action.kind, Kind::kList);
    EXPECT_EQ(action.target, target);
  }
  void expect_rewatch(const std::string& revision) const {
    ASSERT_EQ(action.kind, Kind::kWatch);
    EXPECT_EQ(
        action.target.substr(0, action.target.rfind('=') + 1),
        "/t?watch=true&allowWatchBookmarks=true&resourceVersion=" + revision + "&timeoutSeconds=");
  }
  void expect_watch_list() const {
    ASSERT_EQ(action.kind, Kind::kWatch);
    EXPECT_NE(action.target.find("sendInitialEvents=true"), std::string::npos);
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
  Log log;
  std::set<std::string> clusters;
};

}  // namespace kintsugi::shards::testing
