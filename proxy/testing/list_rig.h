#pragma once

// Only for tests of this folder: three shards that answer what the test says, and lists over them.

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "krm/json.h"
#include "krm/protobuf.h"
#include "proxy/testing/merge_rig.h"

namespace kintsugi::proxy::testing {

using krm::Json;

inline constexpr const char* kProtobuf = "application/vnd.kubernetes.protobuf";
inline constexpr const char* kTypedClient = "application/vnd.kubernetes.protobuf,application/json";
inline constexpr const char* kTableOrJson =
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

inline std::string item(const std::string& name, const std::string& more = "") {
  return R"({"metadata":{"name":")" + name + R"(","namespace":"t","resourceVersion":"7")" + more +
         "}}";
}

inline std::string list_of(const std::string& revision, const std::vector<std::string>& items,
                           const std::string& token = "") {
  std::string out = R"({"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":")" +
                    revision + R"(","continue":")" + token + R"("},"items":[)";
  for (const std::string& one : items) {
    out += (&one == items.data() ? "" : ",") + one;
  }
  return out + "]}\n";
}

inline std::string encoded_list(const std::string& revision,
                                const std::vector<std::string>& names) {
  Json list = *Json::parse(list_of(revision, {}));
  for (const std::string& name : names) {
    list["items"].push_back(*Json::parse(item(name)));
  }
  return krm::encode_protobuf(list).value();
}

inline std::string table(const std::string& columns, const std::string& name) {
  return R"({"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"5"},)"
         R"("columnDefinitions":[)" +
         columns + R"(],"rows":[{"cells":[")" + name + R"("],"object":)" + item(name) + "}]}";
}

inline std::string parameter(const Exchange& exchange, const std::string& name) {
  const std::string& target = exchange.head.target;
  const std::size_t at = target.find(name + "=");
  return at == std::string::npos
             ? std::string()
             : target.substr(at + name.size() + 1, target.find('&', at) - at - name.size() - 1);
}

inline void reply_with(Exchange& exchange, int status, std::string_view body, Fields fields) {
  http::HeaderList headers;
  headers.add("content-type", "application/json");
  for (const auto& [name, value] : fields) {
    headers.set(name, value);
  }
  exchange.stream->send_head(status, headers, false);
  exchange.stream->send_data(body, true);
}

/// Three shards; each answers with one object of its name unless a test says otherwise.
class MergedLists : public MergedReads {
 protected:
  void start(const aggregation::MergeOptions& options = {},
             const std::function<void(aggregation::MergeParams&)>& set = {}) {
    begin(all_, options, [&](aggregation::MergeParams& params) {
      params.first_byte = milliseconds(150);
      if (set) {
        set(params);
      }
    });
    for (std::size_t i = 0; i < all_.size(); ++i) {
      scripts_[i] = [name = all_[i]](Exchange& exchange) {
        FakeShard::reply(exchange, 200, list_of("1" + std::to_string(name.size()), {item(name)}));
      };
    }
  }

  Answer& ask(const std::string& query = "", const std::string& accept = "application/json",
              Fields fields = {}) {
    Answer& answer = send(query, accept, fields);
    EXPECT_TRUE(rig_->until([&] { return answer.closed; }));
    return answer;
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

  static constexpr aggregation::MergeOptions kOnRequest{aggregation::MissingShards::kStrict, true,
                                                        aggregation::Resync::kDiff, true};
  static constexpr aggregation::MergeOptions kPartial{aggregation::MissingShards::kPartial, false,
                                                      aggregation::Resync::kDiff, true};
  static inline const std::vector<std::string> all_ = {"alpha", "b", "cc"};
};

inline Script status(int code, const std::string& retry_after = "") {
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
inline const Script kSilent = [](Exchange&) {};

/// Answers like a shard with one object at one revision.
inline Script paged(const std::string& name) {
  return [=](Exchange& exchange) { FakeShard::reply(exchange, 200, list_of("9", {item(name)})); };
}

}  // namespace kintsugi::proxy::testing
