/// Opens watches through a proxy and checks every event of every stream: a gap, a repeat or an end
/// of a stream ends the tool with 1.
/// Flags: --port --target …watch=true… --connections 20 --streams 100
///        --pace <connections/s, 0 = all at once> --cert --key (client certificate) --seconds 900
/// stdout: a JSON line when all watches are open, and one per command of stdin:
///   `add <connections>`, `mark` (forget latencies), `report`, `quit`.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/link.h"

namespace kintsugi::bench {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
// {"type":"MODIFIED","sent":"<20 digits>","seq":"<20 digits>" (event_source.cc)
constexpr std::size_t kSentAt = 27, kSequenceAt = 56, kDigits = 20;
constexpr std::size_t kHead = kSequenceAt + kDigits;

struct Watch {
  std::array<char, kHead> head;  // of the line that is being received
  std::size_t have = 0;
  std::uint64_t next = 0;
};

struct Connection {
  std::vector<std::unique_ptr<Watch>> watches;
  std::unique_ptr<Link> link;
};

std::uint64_t digits(const char* text) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kDigits; ++i) {
    value = value * 10 + static_cast<std::uint64_t>(text[i] - '0');
  }
  return value;
}

class Load {
 public:
  Load(int argc, char** argv)
      : flags_(argc, argv),
        poller_([this](std::string_view line) { command(line); }, [](int) { std::_Exit(0); }),
        target_(flags_.text("target",
                            "/clusters/bench/api/v1/namespaces/default/configmaps"
                            "?watch=true&allowWatchBookmarks=true")),
        wanted_(flags_.number("connections", 20)),
        per_connection_(flags_.number("streams", 100)),
        pace_(flags_.number("pace", 0)) {
    nghttp2_session_callbacks_new(&callbacks_);
    nghttp2_session_callbacks_set_on_header_callback(callbacks_, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks_, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks_, on_close);
  }

  void run() {
    const std::string certificate = flags_.text("cert", "");
    tls_ = make_tls(false, certificate, flags_.text("key", certificate));
    const std::uint64_t end = now_ns() + flags_.number("seconds", 900) * kSecond;
    next_open_ = now_ns();
    for (std::uint64_t now = now_ns(); now < end; now = now_ns()) {
      while (connections_.size() < wanted_ && next_open_ <= now) {
        open_one();
        next_open_ += pace_ == 0 ? 0 : kSecond / pace_;
      }
      poller_.turn(connections_.size() < wanted_ ? std::max(next_open_, now) - now : kSecond / 4);
      if (!told_ && answered_ == wanted_ * per_connection_) {
        told_ = true;
        report("open");
      }
    }
    die("the time of --seconds is over");
  }

 private:
  void open_one() {
    auto connection = std::make_unique<Connection>();
    connection->link = std::make_unique<Link>(
        poller_, connect_to(static_cast<std::uint16_t>(flags_.number("port", 0))), tls_, false,
        callbacks_, this, [](const std::string& cause) { die("a connection ended: " + cause); });
    nghttp2_session* session = connection->link->session();
    connection->link->start(100);
    const std::array<nghttp2_nv, 5> fields = {
        field(":method", "GET"), field(":scheme", "https"), field(":authority", "localhost"),
        field(":path", target_), field("accept", "application/json")};
    for (std::size_t i = 0; i < per_connection_; ++i) {
      connection->watches.push_back(std::make_unique<Watch>());
      nghttp2_submit_request(session, nullptr, fields.data(), fields.size(), nullptr,
                             connection->watches.back().get());
    }
    connections_.push_back(std::move(connection));
    connections_.back()->link->flush();
  }

  static int on_header(nghttp2_session* /*session*/, const nghttp2_frame* /*frame*/,
                       const std::uint8_t* name, std::size_t name_size, const std::uint8_t* value,
                       std::size_t value_size, std::uint8_t /*flags*/, void* user) {
    if (view(name, name_size) == ":status") {
      if (view(value, value_size) != "200") {
        die("a watch was answered by " + std::string(view(value, value_size)));
      }
      ++static_cast<Load*>(user)->answered_;
    }
    return 0;
  }

  static int on_data(nghttp2_session* session, std::uint8_t /*flags*/, std::int32_t id,
                     const std::uint8_t* bytes, std::size_t size, void* user) {
    auto* watch = static_cast<Watch*>(nghttp2_session_get_stream_user_data(session, id));
    static_cast<Load*>(user)->take(*watch, view(bytes, size));
    return 0;
  }

  static int on_close(nghttp2_session* /*session*/, std::int32_t /*id*/, std::uint32_t code,
                      void* /*user*/) {
    die("a watch ended with code " + std::to_string(code));
  }

  void take(Watch& watch, std::string_view bytes) {
    while (!bytes.empty()) {
      const std::size_t end = bytes.find('\n');
      const std::string_view part = bytes.substr(0, end);
      const std::size_t count = std::min(part.size(), kHead - watch.have);
      std::memcpy(watch.head.data() + watch.have, part.data(), count);
      watch.have += count;
      if (end == std::string_view::npos) {
        return;
      }
      bytes.remove_prefix(end + 1);
      if (watch.have != kHead) {
        die("a line is too short");
      }
      watch.have = 0;
      const std::uint64_t sequence = digits(watch.head.data() + kSequenceAt);
      if (sequence != watch.next) {
        die("event " + std::to_string(sequence) + " came instead of " + std::to_string(watch.next));
      }
      ++watch.next;
      const std::uint64_t sent = digits(watch.head.data() + kSentAt), now = now_ns();
      latency_.add(now > sent ? (now - sent) / 1'000 : 0);
    }
  }

  void command(std::string_view line) {
    unsigned long long count = 0;
    const std::string text(line);
    if (std::sscanf(text.c_str(), "add %llu", &count) == 1) {
      wanted_ += count;
      told_ = false;
      next_open_ = now_ns();
    } else if (line == "mark") {
      latency_.clear();
      report("mark");
    } else if (line == "report") {
      report("report");
    } else if (line == "quit") {
      std::_Exit(0);
    } else {
      die("unknown command: " + text);
    }
  }

  void report(const char* what) const {
    std::printf(
        "{\"is\":\"%s\",\"watches\":%llu,\"events\":%llu,\"p50_us\":%llu,\"p99_us\":%llu,"
        "\"max_us\":%llu,\"cpu_us\":%llu}\n",
        what, static_cast<unsigned long long>(answered_),
        static_cast<unsigned long long>(latency_.count()),
        static_cast<unsigned long long>(latency_.quantile(0.5)),
        static_cast<unsigned long long>(latency_.quantile(0.99)),
        static_cast<unsigned long long>(latency_.max()), static_cast<unsigned long long>(cpu_us()));
    std::fflush(stdout);
  }

  Flags flags_;
  Poller poller_;
  std::string target_;
  std::uint64_t wanted_, per_connection_, pace_;
  nghttp2_session_callbacks* callbacks_ = nullptr;
  SSL_CTX* tls_ = nullptr;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::uint64_t next_open_ = 0, answered_ = 0;
  bool told_ = false;
  Histogram latency_;
};

}  // namespace
}  // namespace kintsugi::bench

int main(int argc, char** argv) { kintsugi::bench::Load(argc, argv).run(); }
