#include "proxy/overlay/openapi_links.h"

#include <utility>

#include "aggregation/documents/openapi_merge.h"
#include "krm/json.h"
#include "net/upstream.h"
#include "serving/answer.h"

namespace kintsugi::proxy {
namespace {

constexpr Duration kTimeout = seconds(5);
constexpr std::string_view kIndex = "/openapi/v3";

class RootedIndex final : public http::RequestHandler {
 public:
  RootedIndex(net::Loop& loop, const http::RequestHead& head, http::ResponseStream& stream,
              shards::ShardClient& client, std::string root)
      : stream_(stream), form_(serving::AnswerForm::of(head)), root_(std::move(root)) {
    net::FetchRequest request;
    request.method = "GET";
    request.target = head.target;
    request.headers = head.headers;
    request.headers.remove("content-length");
    request.headers.remove("accept-encoding");
    request.timeout = kTimeout;
    call_ = net::fetch(loop, *client.upstream(), std::move(request),
                       [this](Expected<net::FetchResponse> response) { finish(response); });
  }
  void on_data(std::string_view bytes, bool /*end*/) noexcept override {
    stream_.consume(bytes.size());
  }
  void on_close(Errc /*cause*/) noexcept override { call_.reset(); }

 private:
  void finish(const Expected<net::FetchResponse>& response) {
    if (!response) {
      serving::send_error(stream_, form_, serving::shard_unreachable(false));
      return;
    }
    http::HeaderList headers;
    for (const std::string_view name : {"content-type", "cache-control", "vary", "etag", "warning",
                                        "retry-after", "x-content-type-options", "audit-id"}) {
      if (const std::string_view value = response->headers.get(name); value.data() != nullptr) {
        headers.add(name, value);
      }
    }
    Expected<krm::Json> index = response->status == 200 ? krm::Json::parse(response->body)
                                                        : Expected<krm::Json>(krm::Json());
    const bool is_index = index && index->find("paths") != nullptr;
    if (is_index) {
      aggregation::root_openapi_index(*index, root_);
    }
    const std::string body = is_index ? index->dump() : response->body;
    const bool empty = form_.head_only || body.empty();
    if (response->status != 304) {
      headers.add("content-length", std::to_string(body.size()));
    }
    stream_.send_head(response->status, headers, empty);
    if (!empty) {
      stream_.send_data(body, true);
    }
  }

  http::ResponseStream& stream_;
  serving::AnswerForm form_;
  std::string root_;
  std::unique_ptr<net::Call> call_;
};

}  // namespace

std::string_view openapi_index_root(std::string_view method, std::string_view path) {
  while (path.ends_with('/')) {
    path.remove_suffix(1);
  }
  return (method == "GET" || method == "HEAD") && path.ends_with(kIndex)
             ? path.substr(0, path.size() - kIndex.size())
             : std::string_view();
}

std::unique_ptr<http::RequestHandler> answer_openapi_index(net::Loop& loop, http::RequestHead head,
                                                           http::ResponseStream& stream,
                                                           shards::ShardClient& client,
                                                           std::string root) {
  return std::make_unique<RootedIndex>(loop, head, stream, client, std::move(root));
}

}  // namespace kintsugi::proxy
