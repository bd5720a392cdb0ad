#pragma once

// Only for tests: a shard as far as list and watch go, in plain HTTP/2 on 127.0.0.1, on the test's
// loop.

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/handler.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/upstream.h"

namespace kintsugi::shards::testing {

class FakeServer final : public http::Handler {
 public:
  struct Request {
    std::string target;  ///< as sent
    http::HeaderList headers;
  };
  explicit FakeServer(net::Loop& loop) : loop_(loop) {}
  ~FakeServer() override { close(); }

  /// Port 0: any.
  void open(std::uint16_t port = 0) {
    net::ListenerParams params;
    params.port = port;
    auto opened = net::Listener::open(loop_, params, *this);
    if (!opened) {
      std::abort();
    }
    listener_ = std::move(*opened);
    port_ = listener_->port();
  }
  void close() {
    if (listener_ != nullptr) {
      listener_->close();
      listener_.reset();
    }
  }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] static net::UpstreamParams upstream(const std::string& url) {
    net::UpstreamParams params;
    params.url = *net::Url::parse(url);
    params.prior_knowledge = true;
    return params;
  }

  /// Answers GET of exactly this path. Status 0: takes the answer away.
  void serve(const std::string& path, int status, const std::string& body) {
    answers_[path] = {status, body};
  }
  /// Answers list and watch of this path from now on, or 404 again and ends the watches.
  void add_collection(const std::string& path) { collections_[path]; }
  void remove_collection(const std::string& path) {
    end_watches(path);
    collections_.erase(path);
  }
  /// Adds or changes an object and tells the watches. `rest` follows the metadata (",\"spec\":…").
  void put(const std::string& path, const std::string& cluster, const std::string& name,
           const std::string& rest = {}, const std::string& metadata = {},
           const std::string& annotations = {}) {
    const std::string json = R"({"metadata":{"name":")" + name + R"(","resourceVersion":")" +
                             std::to_string(++revision_) +
                             R"(","annotations":{"kcp.io/cluster":")" + cluster + "\"" +
                             annotations + "}" + metadata + "}" + rest + "}";
    Collection& collection = collections_[path];
    collection.objects[cluster + "/" + name] = json;
    tell(collection, "MODIFIED", json);
  }
  void remove(const std::string& path, const std::string& cluster, const std::string& name) {
    Collection& collection = collections_[path];
    ++revision_;
    tell(collection, "DELETED", collection.objects[cluster + "/" + name]);
    collection.objects.erase(cluster + "/" + name);
  }
  /// Takes an object away without telling anybody.
  void forget(const std::string& path, const std::string& cluster, const std::string& name) {
    collections_[path].objects.erase(cluster + "/" + name);
  }
  void send_event(const std::string& path, const std::string& type, const std::string& object) {
    tell(collections_[path], type, object);
  }
  void end_watches(const std::string& path) {
    for (http::ResponseStream* stream : std::exchange(collections_[path].watches, {})) {
      stream->send_data(std::string_view(), true);
    }
  }
  [[nodiscard]] std::size_t watches(const std::string& path) const {
    const auto at = collections_.find(path);
    return at == collections_.end() ? 0 : at->second.watches.size();
  }
  /// Requests whose target begins with `prefix`.
  [[nodiscard]] std::size_t count(std::string_view prefix) const {
    return static_cast<std::size_t>(std::count_if(log.begin(), log.end(), [&](const Request& r) {
      return std::string_view(r.target).substr(0, prefix.size()) == prefix;
    }));
  }

  std::vector<Request> log;

 private:
  struct Collection {
    std::map<std::string, std::string> objects;  // cluster/name -> JSON
    std::vector<http::ResponseStream*> watches;
  };
  class Exchange final : public http::RequestHandler {
   public:
    Exchange(FakeServer& server, http::ResponseStream& stream) : server_(server), stream_(stream) {}
    void on_data(std::string_view bytes, bool) noexcept override { stream_.consume(bytes.size()); }
    void on_close(Errc) noexcept override {
      for (auto& [path, collection] : server_.collections_) {
        auto& all = collection.watches;
        all.erase(std::remove(all.begin(), all.end(), &stream_), all.end());
      }
    }

   private:
    FakeServer& server_;
    http::ResponseStream& stream_;
  };

  std::unique_ptr<http::RequestHandler> on_request(http::RequestHead head,
                                                   http::ResponseStream& stream) noexcept override {
    log.push_back({head.target, head.headers});
    const std::string path = head.target.substr(0, head.target.find('?'));
    const auto has = [&](const char* text) { return head.target.find(text) != std::string::npos; };
    const auto answer = answers_.find(path);
    const auto at = collections_.find(path);
    http::HeaderList headers;
    headers.add("content-type", "application/json");
    if (answer != answers_.end() && answer->second.first != 0) {
      stream.send_head(answer->second.first, headers, false);
      stream.send_data(answer->second.second, true);
    } else if (at == collections_.end()) {
      stream.send_head(404, headers, false);
      stream.send_data(R"({"kind":"Status","code":404})", true);
    } else if (has("watch=true")) {
      stream.send_head(200, headers, false);
      if (has("sendInitialEvents=true")) {
        for (const auto& [key, object] : at->second.objects) {
          stream.send_data(R"({"type":"ADDED","object":)" + object + "}\n", false);
        }
        stream.send_data(R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":")" +
                             std::to_string(revision_) +
                             R"(","annotations":{"k8s.io/initial-events-end":"true"}}}})" + "\n",
                         false);
      }
      at->second.watches.push_back(&stream);
    } else {
      stream.send_head(405, headers, true);
    }
    return std::make_unique<Exchange>(*this, stream);
  }
  static void tell(Collection& collection, const std::string& type, const std::string& object) {
    for (http::ResponseStream* stream : collection.watches) {
      stream->send_data(R"({"type":")" + type + R"(","object":)" + object + "}\n", false);
    }
  }

  net::Loop& loop_;
  std::unique_ptr<net::Listener> listener_;
  std::uint16_t port_ = 0;
  std::map<std::string, Collection> collections_;
  std::map<std::string, std::pair<int, std::string>> answers_;
  int revision_ = 1;
};

/// Runs the loop until `done` holds; false after twenty seconds.
[[nodiscard]] inline bool run_until(net::Loop& loop, const std::function<bool()>& done) {
  const TimePoint limit = Clock::now() + seconds(20);
  bool result = done();
  std::function<void()> check = [&] {
    result = done();
    if (result || Clock::now() > limit) {
      loop.stop();
    } else {
      loop.after(milliseconds(1), check);
    }
  };
  if (!result) {
    loop.after(milliseconds(1), check);
    loop.run();
  }
  return result;
}

}  // namespace kintsugi::shards::testing
