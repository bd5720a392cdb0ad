#pragma once

// Only for tests of this folder: two shards, and merged watches over them.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "base/strings.h"
#include "krm/json.h"
#include "proxy/testing/merge_rig.h"

namespace kintsugi::proxy::testing {

using krm::Json;

inline constexpr const char* kNewest =
    "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

inline std::string object(const std::string& name, const std::string& revision) {
  return R"({"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":")" + name +
         R"(","namespace":"t","uid":"u-)" + name + R"(","resourceVersion":")" + revision + R"("}})";
}
inline std::string event(const std::string& type, const std::string& name,
                         const std::string& revision) {
  return R"({"type":")" + type + R"(","object":)" + object(name, revision) + "}\n";
}
inline std::string bookmark(const std::string& revision, bool end = false) {
  return R"({"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{)"
         R"("resourceVersion":")" +
         revision + '"' +
         (end ? R"(,"annotations":{"k8s.io/initial-events-end":"true"})" : std::string()) + "}}}\n";
}
inline std::string gone() {
  return R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}})"
         "\n";
}
inline bool is_watch(const Exchange& exchange) {
  return exchange.head.target.find("watch=true") != std::string::npos;
}
inline bool wants(const Exchange& exchange, const std::string& parameter) {
  return exchange.head.target.find(parameter) != std::string::npos;
}

/// Two shards, alpha with object a at 11 and beta with b at 21; watches stay open.
class MergedWatches : public MergedReads {
 protected:
  void start(const aggregation::MergeOptions& options = {},
             const std::function<void(aggregation::MergeParams&)>& set = {}) {
    begin({"alpha", "beta"}, options, [&](aggregation::MergeParams& params) {
      params.expire_spread = milliseconds(20);
      params.bookmark_gap = milliseconds(5);
      params.headers_wait = milliseconds(300);
      if (set) {
        set(params);
      }
    });
    for (const std::size_t i : {0U, 1U}) {
      scripts_[i] = [this, i](Exchange& exchange) { serve(i, exchange); };
    }
  }

  /// From now on a shard has these objects, at revision 44; its watches are those of serve().
  void list_again(std::size_t i, const std::string& items) {
    scripts_[i] = [this, i, items](Exchange& exchange) {
      if (is_watch(exchange)) {
        serve(i, exchange);
      } else {
        FakeShard::reply(exchange, 200,
                         R"({"kind":"ConfigMapList","apiVersion":"v1","items":[)" + items +
                             R"(],"metadata":{"resourceVersion":"44"}})");
      }
    };
  }

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

  Answer& watch(const std::string& query) { return send(query); }
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
  Answer& synced() {
    Answer& answer = watch(kNewest);
    EXPECT_TRUE(until([&] { return ends(answer) == 1; })) << answer.body;
    return answer;
  }

  using Told = std::vector<std::string>;
  std::array<std::vector<Exchange*>, 2> open_;
};

}  // namespace kintsugi::proxy::testing
