#include "proxy/overlay/overlay.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "aggregation/documents/discovery_merge.h"
#include "aggregation/documents/openapi_merge.h"
#include "base/digest.h"
#include "base/strings.h"
#include "krm/json.h"
#include "krm/path_prefixes.h"
#include "krm/protobuf.h"
#include "krm/yaml.h"
#include "net/upstream.h"
#include "serving/answer.h"
#include "serving/captured_answer.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;

constexpr Duration kTimeout = seconds(5);
constexpr std::string_view kYamlType = "application/yaml";

std::string_view unquoted(std::string_view tag) {
  return tag.size() >= 2 && tag.front() == '"' ? tag.substr(1, tag.size() - 2) : tag;
}

Expected<Json> read_document(std::string_view type, std::string_view body) {
  if (type == krm::kProtobufMediaType) {
    return krm::decode_protobuf(body);
  }
  return type == kYamlType ? krm::parse_yaml(body) : Json::parse(body);
}

/// @param document  of a kind that its type can hold: it was read from that type.
std::string write_document(std::string_view type, const Json& document) {
  if (type == krm::kProtobufMediaType) {
    return krm::encode_protobuf(document).value_or(std::string());
  }
  return type == kYamlType ? krm::to_yaml(document) : document.dump();
}

/// One discovery request: asks both sides, merges, answers.
class Merge final : public http::RequestHandler {
 public:
  Merge(net::Loop& loop, http::Handler& local, http::RequestHead head, http::ResponseStream& stream,
        shards::ShardClient* client, std::string_view cluster, std::string_view root)
      : loop_(loop),
        stream_(stream),
        form_(serving::AnswerForm::of(head)),
        captured_(stream.peer(), [this] { side_done(); }),
        timer_(loop),
        root_(root) {
    if_none_match_ = head.headers.get("if-none-match");
    head.headers.remove("if-none-match");
    head.headers.remove("accept-encoding");
    openapi_ = aggregation::split_openapi_target(head.target);
    if (openapi_) {
      head.target.resize(openapi_->path.size());  // hashes of merged documents are ours
      openapi_->path = {};
    }
    const std::size_t begin = head.target.find(openapi_ ? "/openapi/" : "/apis");
    const std::string trail = head.target.substr(begin == std::string::npos ? 0 : begin);
    if (head.method == "HEAD") {
      head.method = "GET";
    }
    http::RequestHead local_head = head;
    local_head.end_stream = true;
    local_head.target = krm::cluster_root(cluster) + trail;
    document_url_ = root_ + trail;
    local_ = local.on_request(std::move(local_head), captured_);
    if (client == nullptr || !client->admit()) {
      shard_failed_ = true;
      side_done();
      return;
    }
    net::FetchRequest request;
    request.method = head.method;
    request.target = head.target;
    request.headers = head.headers;
    request.headers.remove("content-length");
    request.timeout = kTimeout;
    if (openapi_ && openapi_->is_v2 && captured_.status() == 200) {
      const std::string_view known = aggregation::their_openapi_v2_tag(
          unquoted(if_none_match_), unquoted(captured_.headers().get("etag")));
      if (!known.empty()) {
        request.headers.add("if-none-match", '"' + std::string(known) + '"');
      }
    }
    call_ = net::fetch(loop_, *client->upstream(), std::move(request),
                       [this](Expected<net::FetchResponse> response) {
                         if (response) {
                           shard_ = std::move(*response);
                         } else {
                           shard_failed_ = true;
                         }
                         side_done();
                       });
  }
  void on_data(std::string_view bytes, bool /*end*/) noexcept override {
    stream_.consume(bytes.size());
  }
  void on_close(Errc cause) noexcept override {
    closed_ = true;
    call_.reset();
    local_->on_close(cause);
  }

 private:
  /// Both sides call it once; the answer is sent outside of their callbacks.
  void side_done() {
    if (++sides_done_ == 2) {
      timer_.start(Duration(0), [this] { finish(); });
    }
  }

  void finish() {
    if (closed_) {
      return;
    }
    const bool local_ok = captured_.status() == 200;
    if (!shard_failed_ && shard_.status == 304 && openapi_ && openapi_->is_v2) {
      http::HeaderList headers;
      headers.add("etag", if_none_match_);
      headers.add("vary", "Accept");
      stream_.send_head(304, headers, true);
      return;
    }
    if (!shard_failed_ && shard_.status != 200) {
      // Its word counts, but for a group that only the proxy has.
      if (shard_.status != 404 || !local_ok) {
        pass(shard_.status, shard_.headers, shard_.body);
        return;
      }
      pass(captured_.status(), captured_.headers(), captured_.body());
      return;
    }
    if (shard_failed_ || !local_ok) {
      if (shard_failed_ && !local_ok) {
        serving::send_error(stream_, form_, serving::shard_unreachable(false));
      } else if (shard_failed_) {
        pass(captured_.status(), captured_.headers(), captured_.body());
      } else {
        pass(shard_.status, shard_.headers, shard_.body);
      }
      return;
    }
    if (openapi_ && openapi_->is_v2) {
      finish_openapi_v2();
      return;
    }
    const std::string_view type = shard_.headers.get("content-type");
    auto theirs = read_document(type, shard_.body);
    auto ours = read_document(captured_.headers().get("content-type"), captured_.body());
    if (theirs && ours && openapi_ && finish_openapi(*theirs, *ours)) {
      return;
    }
    if (!theirs || !ours || !aggregation::merge_discovery(*theirs, *ours)) {
      pass(shard_.status, shard_.headers, shard_.body);
      return;
    }
    http::HeaderList headers;
    headers.add("content-type", type);
    const bool aggregated = shard_.headers.contains("etag");
    const std::string body = write_document(type, *theirs);
    if (aggregated) {
      const auto digest = sha256(body);
      const std::string etag =
          "\"" + hex_encode({reinterpret_cast<const char*>(digest.data()), digest.size()}) + "\"";
      headers.add("etag", etag);
      headers.add("vary", "Accept");
      headers.add("cache-control", "public");
      if (if_none_match_ == etag) {
        stream_.send_head(304, headers, true);
        return;
      }
    } else {
      headers.add("cache-control", "no-cache, private");
    }
    send(200, headers, body);
  }

  void finish_openapi_v2() {
    const std::string_view type = shard_.headers.get("content-type");
    std::optional<std::string> merged;
    if (type == captured_.headers().get("content-type")) {
      merged = type.ends_with("protobuf")
                   ? aggregation::merge_openapi_v2_protobuf(shard_.body, captured_.body())
                   : aggregation::merge_openapi_v2_json(shard_.body, captured_.body());
    }
    if (!merged) {
      pass(shard_.status, shard_.headers, shard_.body);
      return;
    }
    http::HeaderList headers;
    headers.add("cache-control", "no-cache, private");
    headers.add("content-type", type);
    headers.add("etag",
                '"' +
                    aggregation::merged_openapi_v2_tag(unquoted(shard_.headers.get("etag")),
                                                       unquoted(captured_.headers().get("etag"))) +
                    '"');
    headers.add("vary", "Accept");
    send(200, headers, *merged);
  }

  /// False when there is nothing to merge.
  bool finish_openapi(Json& theirs, const Json& ours) {
    const bool is_index = openapi_->is_index;
    if (!(is_index ? aggregation::merge_openapi_index(theirs, ours)
                   : aggregation::merge_openapi_document(theirs, ours))) {
      return false;
    }
    if (is_index) {
      aggregation::root_openapi_index(theirs, root_);
    }
    const std::string hash = aggregation::merged_openapi_hash(
        unquoted(shard_.headers.get("etag")), unquoted(captured_.headers().get("etag")));
    http::HeaderList headers;
    const bool redirect = !is_index && openapi_->hash && *openapi_->hash != hash;
    const bool immutable = !is_index && openapi_->hash && !redirect;
    headers.add("cache-control", immutable ? "public, immutable" : "no-cache, private");
    if (redirect) {
      headers.add("location", document_url_ + "?hash=" + hash);
      send(301, headers, {});
      return true;
    }
    const std::string tag = '"' + hash + '"';
    headers.add("etag", tag);
    headers.add("vary", "Accept");
    if (if_none_match_ == tag) {
      stream_.send_head(304, headers, true);
      return true;
    }
    headers.add("content-type", "application/json");
    send(200, headers, theirs.dump());
    return true;
  }

  void pass(int status, const http::HeaderList& from, std::string_view body) {
    http::HeaderList headers;
    for (const std::string_view name : {"content-type", "cache-control", "vary", "etag", "warning",
                                        "retry-after", "x-content-type-options", "audit-id"}) {
      if (const std::string_view value = from.get(name); value.data() != nullptr) {
        headers.add(name, value);
      }
    }
    send(status, headers, body);
  }

  void send(int status, http::HeaderList& headers, std::string_view body) {
    headers.add("content-length", std::to_string(body.size()));
    const bool empty = form_.head_only || body.empty();
    stream_.send_head(status, headers, empty);
    if (!empty) {
      stream_.send_data(body, true);
    }
  }

  net::Loop& loop_;
  http::ResponseStream& stream_;
  serving::AnswerForm form_;
  int sides_done_ = 0;
  serving::CapturedAnswer captured_;
  net::Timer timer_;
  std::string if_none_match_;
  std::optional<aggregation::OpenApiTarget> openapi_;
  std::string root_;
  std::string document_url_;  ///< as the client sees it
  std::unique_ptr<http::RequestHandler> local_;
  std::unique_ptr<net::Call> call_;
  net::FetchResponse shard_;
  bool shard_failed_ = false, closed_ = false;
};

}  // namespace

struct Overlay::Impl {
  net::Loop& loop;
  http::Handler& local;
};

Overlay::Overlay(net::Loop& loop, http::Handler& local)
    : impl_(std::make_unique<Impl>(Impl{loop, local})) {}
Overlay::~Overlay() = default;

std::unique_ptr<http::RequestHandler> Overlay::answer(http::RequestHead head,
                                                      http::ResponseStream& stream,
                                                      shards::ShardClient* client,
                                                      std::string_view cluster,
                                                      std::string_view root) {
  return std::make_unique<Merge>(impl_->loop, impl_->local, std::move(head), stream, client,
                                 cluster, root);
}

}  // namespace kintsugi::proxy
