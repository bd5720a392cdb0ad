#pragma once

// Only for tests of this folder: a shard with one resource whose whole history is known.

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/testing/rig.h"

namespace kintsugi::proxy::testing {

struct Change {
  std::uint64_t revision = 0;
  std::string type, name;
  bool operator==(const Change&) const = default;
};

/// What a client has asked objects to be shown as.
enum class Form : std::uint8_t { kObject, kMetadata, kTable };
inline Form form_of(std::string_view accept) {
  return accept.find("as=Table") != std::string_view::npos                ? Form::kTable
         : accept.find("PartialObjectMetadata") != std::string_view::npos ? Form::kMetadata
                                                                          : Form::kObject;
}
inline std::string_view accept_of(Form form) {
  return form == Form::kTable      ? "application/json;as=Table;v=v1;g=meta.k8s.io"
         : form == Form::kMetadata ? "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
                                   : "application/json";
}

inline constexpr std::string_view kHead = R"("kind":"ConfigMap","apiVersion":"v1",)";
inline constexpr std::string_view kMetadataHead =
    R"("kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",)";
inline constexpr std::string_view kColumns = R"([{"name":"Name","type":"string"}])";

/// @param metadata  members of it
inline std::string table(std::string_view metadata, bool with_columns, const std::string& rows) {
  return R"({"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{)" + std::string(metadata) +
         R"(},"columnDefinitions":)" + (with_columns ? std::string(kColumns) : "null") +
         R"(,"rows":[)" + rows + "]}";
}

/// @param cluster  "": it says none
inline std::string item(Form form, const std::string& name, std::uint64_t revision,
                        const std::string& cluster = {}) {
  const std::string annotations =
      cluster.empty() ? cluster : R"(,"annotations":{"kcp.io/cluster":")" + cluster + "\"}";
  std::string out = "{" + std::string(form == Form::kObject ? kHead : kMetadataHead) +
                    R"("metadata":{"name":")" + name + R"(","namespace":"t","uid":"u-)" + name +
                    R"(","resourceVersion":")" + std::to_string(revision) + '"' + annotations +
                    "}}";
  return form == Form::kTable ? R"({"cells":[")" + name + R"("],"object":)" + out + "}" : out;
}

inline void PrintTo(const Change& one, std::ostream* out) {
  *out << one.type << ' ' << one.name << '@' << one.revision;
}

inline std::string line(const std::string& type, const std::string& object) {
  return R"({"type":")" + type + R"(","object":)" + object + "}\n";
}

inline std::string bookmark(Form form, std::uint64_t revision, bool end, bool first) {
  const std::string version = R"("resourceVersion":")" + std::to_string(revision) + '"';
  const std::string object =
      "{" + std::string(form == Form::kObject ? kHead : kMetadataHead) + R"("metadata":{)" +
      version + (end ? R"(,"annotations":{"k8s.io/initial-events-end":"true"})" : "") + "}}";
  return line("BOOKMARK", form == Form::kTable
                              ? table(version, first, R"({"cells":[],"object":)" + object + "}")
                              : object);
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
    Form form = Form::kObject;
    bool first = true;  ///< nothing was sent yet: a Table begins with its columns
  };
  FakeShard server;
  std::vector<Change> changes;
  std::map<std::string, std::uint64_t> state;
  std::uint64_t head = 10;
  std::list<Stream> streams;
  int refusal = 0;              ///< status of all answers; 0: they are right
  std::uint64_t forgotten = 0;  ///< watches from before it are answered 410
  /// Logical cluster of an object; empty: none says any.
  std::function<std::string(const std::string& name)> cluster_of;

  [[nodiscard]] std::string shown(Form form, const std::string& name,
                                  std::uint64_t revision) const {
    return item(form, name, revision, cluster_of ? cluster_of(name) : std::string());
  }
  [[nodiscard]] std::string event(Stream& stream, const std::string& type, const std::string& name,
                                  std::uint64_t revision) const {
    const std::string one = shown(stream.form, name, revision);
    const bool first = std::exchange(stream.first, false);
    return line(type,
                stream.form == Form::kTable
                    ? table(R"("resourceVersion":")" + std::to_string(revision) + '"', first, one)
                    : one);
  }

  void answer(Exchange& exchange) {
    const std::string& target = exchange.head.target;
    if (refusal != 0) {
      FakeShard::reply(
          exchange, refusal,
          R"({"kind":"Status","apiVersion":"v1","code":)" + std::to_string(refusal) + "}");
      return;
    }
    if (target.find("watch=true") == std::string::npos) {
      const Form form = form_of(exchange.head.headers.get("accept"));
      const std::string prefix = "/clusters/";
      const std::string only =
          target.substr(prefix.size(), target.find('/', prefix.size()) - prefix.size());
      std::string items;
      for (const auto& [name, revision] : state) {
        if (!cluster_of || only == "*" || only == cluster_of(name)) {
          items += (items.empty() ? "" : ",") + shown(form, name, revision);
        }
      }
      const std::string version = R"("resourceVersion":")" + std::to_string(head) + '"';
      FakeShard::reply(
          exchange, 200,
          form == Form::kTable
              ? table(version, true, items)
              : (form == Form::kMetadata
                     ? R"({"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1",)"
                     : R"({"kind":"ConfigMapList","apiVersion":"v1",)") +
                    (R"("metadata":{)" + version + R"(},"items":[)" + items + "]}"));
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
    Stream stream{&exchange, changes.size(), form_of(exchange.head.headers.get("accept"))};
    if (initial_events) {
      std::string initial;
      for (const auto& [name, revision] : state) {
        initial += event(stream, "ADDED", name, revision);
      }
      initial += bookmark(stream.form, head, true, std::exchange(stream.first, false));
      exchange.stream->send_data(initial, false);
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
      text += event(stream, one.type, one.name, one.revision);
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
      stream.exchange->stream->send_data(
          bookmark(stream.form, revision, false, std::exchange(stream.first, false)), false);
    }
  }
  void forget_ended() {
    streams.remove_if([](const Stream& one) { return one.exchange->stream == nullptr; });
  }
};

/// The end of a story: all streams of the shards get on, turn by turn, until it is `done`; a story
/// that is not by then is not going to be.
template <class Shards>
void tell_the_rest(Shards& shards, const std::function<bool()>& done,
                   const std::function<void()>& turn) {
  for (int i = 0; i < 2000 && !done(); ++i) {
    for (HistoryShard& shard : shards) {
      for (HistoryShard::Stream& stream : shard.streams) {
        if (stream.exchange->stream != nullptr) {
          shard.tell(stream, 100);
        }
      }
    }
    turn();
  }
}

/// 1 to 4, or to KINTSUGI_RANDOM_SEEDS.
inline std::vector<std::uint32_t> random_seeds() {
  const char* wished = std::getenv("KINTSUGI_RANDOM_SEEDS");
  std::vector<std::uint32_t> out(wished == nullptr ? 4 : std::strtoul(wished, nullptr, 10));
  for (std::uint32_t i = 0; i < out.size(); ++i) {
    out[i] = i + 1;
  }
  return out;
}

}  // namespace kintsugi::proxy::testing
