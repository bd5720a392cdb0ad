#pragma once

// Only for tests of this folder: a shard with one resource whose whole history is known.

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/testing_rig.h"

namespace kintsugi::proxy::testing {

struct Change {
  std::uint64_t revision = 0;
  std::string type, name;
  bool operator==(const Change&) const = default;
};

inline std::string object(const std::string& name, std::uint64_t revision) {
  return R"({"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":")" + name +
         R"(","namespace":"t","uid":"u-)" + name + R"(","resourceVersion":")" +
         std::to_string(revision) + R"("}})";
}

inline void PrintTo(const Change& one, std::ostream* out) {
  *out << one.type << ' ' << one.name << '@' << one.revision;
}

inline std::string line(const std::string& type, const std::string& object) {
  return R"({"type":")" + type + R"(","object":)" + object + "}\n";
}

inline std::string bookmark(std::uint64_t revision, bool end) {
  return line("BOOKMARK",
              R"({"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":")" +
                  std::to_string(revision) + '"' +
                  (end ? R"(,"annotations":{"k8s.io/initial-events-end":"true"})" : "") + "}}");
}

inline std::uint64_t number(std::string_view text) {
  std::uint64_t out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

/// A shard with all that ever happened on it. Its streams get on when they are told to.
struct HistoryShard {
  struct Stream {
    Exchange* exchange = nullptr;
    std::size_t next = 0;
  };
  FakeShard server;
  std::vector<Change> changes;
  std::map<std::string, std::uint64_t> state;
  std::uint64_t head = 10;
  std::list<Stream> streams;
  int refusal = 0;              ///< status of all answers; 0: they are right
  std::uint64_t forgotten = 0;  ///< watches from before it are answered 410

  void answer(Exchange& exchange) {
    const std::string& target = exchange.head.target;
    if (refusal != 0) {
      FakeShard::reply(
          exchange, refusal,
          R"({"kind":"Status","apiVersion":"v1","code":)" + std::to_string(refusal) + "}");
      return;
    }
    if (target.find("watch=true") == std::string::npos) {
      std::string items;
      for (const auto& [name, revision] : state) {
        items += (items.empty() ? "" : ",") + object(name, revision);
      }
      FakeShard::reply(
          exchange, 200,
          R"({"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":")" +
              std::to_string(head) + R"("},"items":[)" + items + "]}");
      return;
    }
    const std::size_t at = target.find("resourceVersion=");
    const std::uint64_t from =
        at == std::string::npos ? 0 : number(std::string_view(target).substr(at + 16));
    const bool initial_events = target.find("sendInitialEvents=true") != std::string::npos;
    if (!initial_events && from < forgotten) {
      FakeShard::reply(exchange, 410, R"({"kind":"Status","apiVersion":"v1","code":410})");
      return;
    }
    http::HeaderList headers;
    headers.add("content-type", "application/json");
    exchange.stream->send_head(200, headers, false);
    Stream stream{&exchange, changes.size()};
    if (initial_events) {
      std::string initial;
      for (const auto& [name, revision] : state) {
        initial += line("ADDED", object(name, revision));
      }
      exchange.stream->send_data(initial + bookmark(head, true), false);
    } else if (at != std::string::npos) {
      stream.next = static_cast<std::size_t>(
          std::find_if(changes.begin(), changes.end(),
                       [from](const Change& one) { return one.revision > from; }) -
          changes.begin());
    }
    streams.push_back(stream);
  }
  void write(const std::string& type, const std::string& name, std::uint64_t step) {
    head += step;
    changes.push_back({head, type, name});
    apply(state, changes.back());
  }
  [[nodiscard]] std::map<std::string, std::uint64_t> state_at(std::uint64_t revision) const {
    std::map<std::string, std::uint64_t> out;
    for (const Change& one : changes) {
      if (one.revision <= revision) {
        apply(out, one);
      }
    }
    return out;
  }
  static void apply(std::map<std::string, std::uint64_t>& state, const Change& change) {
    if (change.type == "DELETED") {
      state.erase(change.name);
    } else {
      state[change.name] = change.revision;
    }
  }
  void tell(Stream& stream, std::size_t most) {
    std::string text;
    for (; most > 0 && stream.next < changes.size(); --most) {
      const Change& one = changes[stream.next++];
      text += line(one.type, object(one.name, one.revision));
    }
    if (!text.empty()) {
      stream.exchange->stream->send_data(text, false);
    }
  }
  void tell_bookmark(Stream& stream) {
    const std::uint64_t revision = stream.next == changes.size() ? head
                                   : stream.next == 0            ? 0
                                                      : changes[stream.next - 1].revision;
    if (revision != 0) {
      stream.exchange->stream->send_data(bookmark(revision, false), false);
    }
  }
  void forget_ended() {
    streams.remove_if([](const Stream& one) { return one.exchange->stream == nullptr; });
  }
};

}  // namespace kintsugi::proxy::testing
