#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shards/informer.h"
#include "shards/testing/reflector_script.h"
#include "shards/testing/support.h"

// RT-23: a reflector lists again when its stream was reset, but not when its connection was.
namespace kintsugi::shards {
namespace {

using testing::bookmark;
using testing::event;
using testing::list;
using testing::object;
using testing::run_until;

/// One collection with the object "a"; its watches can be reset.
class Server final : public http::Handler {
 public:
  explicit Server(net::Loop& loop) {
    auto opened = net::Listener::open(loop, {}, *this);
    if (!opened) {
      std::abort();
    }
    listener_ = std::move(*opened);
  }
  [[nodiscard]] std::uint16_t port() const { return listener_->port(); }
  void reset_watch() { std::exchange(watch_, nullptr)->reset(Errc::kReset); }
  [[nodiscard]] bool watched() const { return watch_ != nullptr; }
  std::vector<std::string> asked;

 private:
  struct Exchange final : http::RequestHandler {
    Exchange(Server& the_server, http::ResponseStream& the_stream)
        : server(the_server), stream(the_stream) {}
    void on_data(std::string_view bytes, bool) noexcept override { stream.consume(bytes.size()); }
    void on_close(Errc) noexcept override {
      if (server.watch_ == &stream) {
        server.watch_ = nullptr;
      }
    }
    Server& server;
    http::ResponseStream& stream;
  };
  std::unique_ptr<http::RequestHandler> on_request(http::RequestHead head,
                                                   http::ResponseStream& stream) noexcept override {
    asked.push_back(head.target.substr(0, head.target.find("&timeoutSeconds")));
    const bool watch = head.target.find("watch=true") != std::string::npos;
    stream.send_head(200, {}, false);
    if (!watch) {
      stream.send_data(list("20", {object("a", 3)}), true);
    } else {
      if (head.target.find("sendInitialEvents") != std::string::npos) {
        stream.send_data(event("ADDED", object("a", 3)) + bookmark(10, true), false);
      }
      watch_ = &stream;
    }
    return std::make_unique<Exchange>(*this, stream);
  }
  std::unique_ptr<net::Listener> listener_;
  http::ResponseStream* watch_ = nullptr;
};

/// Passes bytes on between one client at a time and a port of 127.0.0.1, and can cut it off with
/// TCP RST.
class Relay {
 public:
  explicit Relay(std::uint16_t to) : to_(to), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = at(0);
    socklen_t size = sizeof(address);
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(listener_, 8) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      std::abort();
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~Relay() {
    stop_ = true;
    thread_.join();
    ::close(listener_);
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  [[nodiscard]] std::uint16_t port() const { return port_; }
  void cut() { cut_ = true; }

 private:
  static sockaddr_in at(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  [[nodiscard]] static bool ready(int fd) {
    pollfd item{fd, POLLIN, 0};
    return ::poll(&item, 1, 1) > 0;
  }
  static bool pass(int from, int to) {
    char bytes[16'384];
    const ssize_t count = ::recv(from, bytes, sizeof(bytes), 0);
    return count > 0 && ::send(to, bytes, static_cast<std::size_t>(count), MSG_NOSIGNAL) == count;
  }
  void run() {
    while (!stop_) {
      if (!ready(listener_)) {
        continue;
      }
      const int client = ::accept(listener_, nullptr, nullptr);
      const int server = ::socket(AF_INET, SOCK_STREAM, 0);
      const sockaddr_in address = at(to_);
      bool open =
          ::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
      while (open && !stop_ && !cut_) {
        open = (!ready(client) || pass(client, server)) && (!ready(server) || pass(server, client));
      }
      if (cut_.exchange(false)) {
        const linger now{1, 0};
        ::setsockopt(client, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
      }
      ::close(client);
      ::close(server);
    }
  }
  std::uint16_t to_;
  int listener_;
  std::uint16_t port_ = 0;
  std::atomic<bool> stop_{false}, cut_{false};
  std::thread thread_;
};

struct Sink final : InformerSink {
  void on_upsert(const ObjectKey&, const krm::Json&) override { ++upserts; }
  void on_delete(const ObjectKey&) override { ++deletes; }
  void on_synced() override { ++synced; }
  int upserts = 0, deletes = 0, synced = 0;
};

class InformerReset : public ::testing::Test {
 protected:
  void start(std::uint16_t port) {
    upstream = net::Upstream::make(
        loop, testing::FakeServer::upstream("http://127.0.0.1:" + std::to_string(port)));
    InformerParams params = reflector_params("/things", "Thing");
    params.rest_min = milliseconds(1);
    informer = std::make_unique<Informer>(loop, params, http::HeaderList(), sink);
    informer->start(*upstream);
    ASSERT_TRUE(run_until(loop, [&] { return sink.synced == 1 && server.watched(); }));
  }
  net::Loop loop{"test"};
  Server server{loop};
  Sink sink;
  std::unique_ptr<net::Upstream> upstream;
  std::unique_ptr<Informer> informer;
};

TEST_F(InformerReset, RT23_WhenTheStreamIsReset_ListsAtTheCursor) {
  start(server.port());
  server.reset_watch();
  ASSERT_TRUE(run_until(loop, [&] { return sink.synced == 2 && server.watched(); }));
  ASSERT_EQ(server.asked.size(), 3U);
  EXPECT_EQ(server.asked[1], "/things?resourceVersion=10");
  EXPECT_EQ(server.asked[2], "/things?watch=true&allowWatchBookmarks=true&resourceVersion=20");
  const auto reason = static_cast<std::size_t>(RelistReason::kReset);
  EXPECT_EQ(informer->machine().counters().relists[reason], 1U);
  EXPECT_EQ(sink.upserts, 1);
  EXPECT_EQ(sink.deletes, 0);
}

TEST_F(InformerReset, RT23_WhenTheConnectionIsReset_WatchesAtTheCursor) {
  Relay relay(server.port());
  start(relay.port());
  for (int i = 1; i <= 3; ++i) {
    relay.cut();
    const auto next = static_cast<std::size_t>(1 + i);
    ASSERT_TRUE(run_until(loop, [&] { return server.asked.size() >= next && server.watched(); }));
    EXPECT_EQ(server.asked[next - 1],
              "/things?watch=true&allowWatchBookmarks=true&resourceVersion=10");
  }
  EXPECT_EQ(informer->machine().counters().last_cause, Errc::kClosed);
  EXPECT_EQ(informer->machine().counters().lists, 1U);
  EXPECT_EQ(sink.synced, 1);
  informer.reset();
  upstream.reset();
}

}  // namespace
}  // namespace kintsugi::shards
