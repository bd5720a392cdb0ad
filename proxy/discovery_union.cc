#include "proxy/discovery_union.h"

#include <optional>
#include <string>
#include <utility>

#include "base/sha256.h"
#include "base/strings.h"
#include "krm/json.h"
#include "net/upstream.h"
#include "proxy/answer.h"
#include "proxy/discovery_merge.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;

constexpr Duration kTimeout = seconds(5);
constexpr std::string_view kJson = "application/json";

class Union final : public http::RequestHandler {
 public:
  Union(net::Loop& loop, http::RequestHead head, http::ResponseStream& stream,
        const std::vector<shards::ShardClient*>& clients)
      : stream_(stream), form_(AnswerForm::of(head)), answers_(clients.size()), timer_(loop) {
    if_none_match_ = head.headers.get("if-none-match");
    for (const std::string_view name : {"if-none-match", "accept-encoding", "content-length"}) {
      head.headers.remove(name);
    }
    missing_ = clients.size() + 1;
    for (std::size_t i = 0; i < clients.size(); ++i) {
      if (!clients[i]->admit()) {
        --missing_;
        continue;
      }
      net::FetchRequest request;
      request.target = head.target;
      request.headers = head.headers;
      request.timeout = kTimeout;
      calls_.push_back(net::fetch(loop, *clients[i]->upstream(), std::move(request),
                                  [this, i](Expected<net::FetchResponse> response) {
                                    if (response) {
                                      answers_[i] = std::move(*response);
                                    }
                                    one_done();
                                  }));
    }
    one_done();
  }
  void on_data(std::string_view bytes, bool /*end*/) noexcept override {
    stream_.consume(bytes.size());
  }
  void on_close(Errc /*cause*/) noexcept override {
    timer_.cancel();
    calls_.clear();
  }

 private:
  /// The answer is sent outside of the callbacks of the calls.
  void one_done() {
    if (--missing_ == 0) {
      timer_.start(Duration(0), [this] { finish(); });
    }
  }

  void finish() {
    const net::FetchResponse* first = nullptr;
    std::optional<Json> document;
    for (const auto& answer : answers_) {
      if (!answer) {
        continue;
      }
      const bool better = first == nullptr || (first->status != 200 && answer->status == 200);
      first = better ? &*answer : first;
      if (answer->status != 200 || !answer->headers.get("content-type").starts_with(kJson)) {
        continue;
      }
      if (auto one = Json::parse(answer->body); one && !document) {
        document = std::move(*one);
      } else if (one && !unite_discovery(*document, *one)) {
        break;  // what is no discovery document is passed on as the first shard says it
      }
    }
    if (first == nullptr) {
      send_error(stream_, form_, shard_unreachable(false));
    } else if (document && first->status == 200) {
      send_document(*first, document->dump());
    } else {
      send(first->status, *first, first->body, {});
    }
  }

  void send_document(const net::FetchResponse& like, const std::string& body) {
    std::string tag;
    if (like.headers.contains("etag")) {
      const auto digest = sha256(body);
      tag = "\"" + hex_encode({reinterpret_cast<const char*>(digest.data()), digest.size()}) + "\"";
    }
    const bool known = !tag.empty() && if_none_match_ == tag;
    send(known ? 304 : 200, like, known ? std::string_view() : std::string_view(body), tag);
  }

  void send(int status, const net::FetchResponse& like, std::string_view body,
            const std::string& tag) {
    http::HeaderList headers;
    for (const std::string_view name : {"content-type", "cache-control", "vary", "warning",
                                        "retry-after", "x-content-type-options"}) {
      if (const std::string_view value = like.headers.get(name); value.data() != nullptr) {
        headers.add(name, value);
      }
    }
    if (!tag.empty()) {
      headers.add("etag", tag);
    }
    if (status != 304) {
      headers.add("content-length", std::to_string(body.size()));
    }
    const bool empty = form_.head_only || body.empty();
    stream_.send_head(status, headers, empty);
    if (!empty) {
      stream_.send_data(body, true);
    }
  }

  http::ResponseStream& stream_;
  AnswerForm form_;
  std::string if_none_match_;
  std::vector<std::optional<net::FetchResponse>> answers_;
  std::size_t missing_ = 0;
  net::Timer timer_;
  std::vector<std::unique_ptr<net::Call>> calls_;
};

}  // namespace

std::unique_ptr<http::RequestHandler> answer_union(
    net::Loop& loop, http::RequestHead head, http::ResponseStream& stream,
    const std::vector<shards::ShardClient*>& clients) {
  return std::make_unique<Union>(loop, std::move(head), stream, clients);
}

}  // namespace kintsugi::proxy
