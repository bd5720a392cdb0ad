/// GETs with a client certificate, which h2load cannot present: a closed loop of --inflight
/// requests on each of --connections connections. Every answer must be 200 with --body bytes.
/// Flags: --port --target --connections 10 --inflight 32 --requests 100000 --body 1024 --cert --key
/// stdout: one JSON line at the end.
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench/link.h"

namespace kintsugi::bench {
namespace {

struct Request {
  std::uint64_t start = 0;
  std::size_t bytes = 0;
  bool ok = false;
};

class Load {
 public:
  Load(int argc, char** argv)
      : flags_(argc, argv),
        poller_([](std::string_view) {}, [](int) { std::_Exit(1); }),
        target_(flags_.text("target", "/clusters/bench/1k")),
        requests_(flags_.number("requests", 100'000)),
        body_(flags_.number("body", 1024)) {
    nghttp2_session_callbacks_new(&callbacks_);
    nghttp2_session_callbacks_set_on_header_callback(callbacks_, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks_, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks_, on_close);
  }

  void run() {
    const std::string certificate = flags_.text("cert", "");
    SSL_CTX* tls = make_tls(false, certificate, flags_.text("key", certificate));
    const std::uint64_t begin = now_ns();
    for (std::uint64_t i = flags_.number("connections", 10); i > 0; --i) {
      links_.push_back(std::make_unique<Link>(
          poller_, connect_to(static_cast<std::uint16_t>(flags_.number("port", 0))), tls, false,
          callbacks_, this, [](const std::string& cause) { die("a connection ended: " + cause); }));
      links_.back()->start(100);
      for (std::uint64_t n = flags_.number("inflight", 32); n > 0; --n) {
        send(links_.back()->session());
      }
      links_.back()->flush();
    }
    const std::uint64_t end = begin + flags_.number("seconds", 120) * 1'000'000'000;
    while (done_ < requests_) {
      if (now_ns() > end) {
        die("the time of --seconds is over");
      }
      poller_.turn(100'000'000);
    }
    std::printf("{\"requests\":%llu,\"seconds\":%.3f,\"p50_us\":%llu,\"p99_us\":%llu}\n",
                static_cast<unsigned long long>(done_), static_cast<double>(now_ns() - begin) / 1e9,
                static_cast<unsigned long long>(latency_.quantile(0.5)),
                static_cast<unsigned long long>(latency_.quantile(0.99)));
    std::fflush(stdout);
    std::_Exit(0);
  }

 private:
  void send(nghttp2_session* session) {
    if (sent_ == requests_) {
      return;
    }
    ++sent_;
    auto* request = new Request;
    request->start = now_ns();
    const std::array<nghttp2_nv, 5> fields = {
        field(":method", "GET"), field(":scheme", "https"), field(":authority", "localhost"),
        field(":path", target_), field("accept", "application/json")};
    nghttp2_submit_request(session, nullptr, fields.data(), fields.size(), nullptr, request);
  }

  static Request& of(nghttp2_session* session, std::int32_t id) {
    return *static_cast<Request*>(nghttp2_session_get_stream_user_data(session, id));
  }
  static int on_header(nghttp2_session* session, const nghttp2_frame* frame,
                       const std::uint8_t* name, std::size_t name_size, const std::uint8_t* value,
                       std::size_t value_size, std::uint8_t /*flags*/, void* /*user*/) {
    if (view(name, name_size) == ":status") {
      of(session, frame->hd.stream_id).ok = view(value, value_size) == "200";
    }
    return 0;
  }
  static int on_data(nghttp2_session* session, std::uint8_t /*flags*/, std::int32_t id,
                     const std::uint8_t* /*bytes*/, std::size_t size, void* /*user*/) {
    of(session, id).bytes += size;
    return 0;
  }
  static int on_close(nghttp2_session* session, std::int32_t id, std::uint32_t code, void* user) {
    Load& load = *static_cast<Load*>(user);
    const std::unique_ptr<Request> request(&of(session, id));
    if (code != NGHTTP2_NO_ERROR || !request->ok || request->bytes != load.body_) {
      die("a request failed");
    }
    ++load.done_;
    load.latency_.add((now_ns() - request->start) / 1'000);
    load.send(session);
    return 0;
  }

  Flags flags_;
  Poller poller_;
  std::string target_;
  std::uint64_t requests_, body_, sent_ = 0, done_ = 0;
  nghttp2_session_callbacks* callbacks_ = nullptr;
  std::vector<std::unique_ptr<Link>> links_;
  Histogram latency_;
};

}  // namespace
}  // namespace kintsugi::bench

int main(int argc, char** argv) { kintsugi::bench::Load(argc, argv).run(); }
