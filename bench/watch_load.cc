/// Opens watches through a proxy, at a shard or at etcd, and checks every event of every stream: a
/// gap or a repeat ends the tool with 1. So does the end of a stream, but with --ends count.
/// Flags: --port --target …watch=true…[,…] --connections 20 --streams 100
///        --pace <new connections/s, 0 = all at once> --cert --key (client certificate) --seconds
///        900
///        --form numbered|shards|rising|etcd (event_check.h) --ends die|count
///        --distinct 0|1 (each subscriber asks a question of its own)
/// A subscriber opens a watch of each target; --streams are the subscribers of a connection.
/// With --form etcd a target is the prefix of the watched keys.
/// stdout: a JSON line when all watches are open, and one per command of stdin:
///   `add <connections>`, `mark` (forget latencies), `report`, `quit`, `drop` (close all),
///   `reconnect` (close all, then open each watch at the cursor of its last bookmark, all at once
///   whatever the pace; TLS is resumed).
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/event_check.h"
#include "bench/link.h"

namespace kintsugi::bench {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr int kOpensPerTurn = 64;  // handshakes go on meanwhile

struct Watch : Watched {
  std::string body;  // of a gRPC call
  bool body_sent = false;
};

struct Connection {
  std::vector<std::unique_ptr<Watch>> watches;
  Ticket ticket;
  std::unique_ptr<Link> link;
};

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> out(1);
  for (const char c : list) {
    if (c == ',') {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

/// etcd's WatchRequest{create_request{key, range_end}} for all keys that begin with `prefix`.
std::string watch_request(const std::string& prefix) {
  std::string end = prefix;
  ++end.back();
  std::string create;
  for (const auto& [number, text] : {std::pair(1, &prefix), std::pair(2, &std::as_const(end))}) {
    create += static_cast<char>(number << 3 | 2);
    create += static_cast<char>(text->size());
    create += *text;
  }
  const std::string message = std::string{0x0a, static_cast<char>(create.size())} + create;
  return std::string{0, 0, 0, 0, static_cast<char>(message.size())} + message;
}

class Load {
 public:
  Load(int argc, char** argv)
      : flags_(argc, argv),
        poller_([this](std::string_view line) { command(line); }, [](int) { std::_Exit(0); }),
        targets_(parts_of(flags_.text("target",
                                      "/clusters/bench/api/v1/namespaces/default/configmaps"
                                      "?watch=true&allowWatchBookmarks=true"))),
        wanted_(flags_.number("connections", 20)),
        per_connection_(flags_.number("streams", 100)),
        pace_(flags_.number("pace", 0)),
        etcd_(flags_.text("form", "numbered") == "etcd"),
        distinct_(flags_.number("distinct", 0) != 0),
        counts_ends_(flags_.text("ends", "die") == "count"),
        check_(event_form(flags_.text("form", "numbered"))) {
    nghttp2_session_callbacks_new(&callbacks_);
    nghttp2_session_callbacks_set_on_header_callback(callbacks_, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks_, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks_, on_close);
  }

  void run() {
    const std::string certificate = flags_.text("cert", "");
    tls_ = make_tls(false, certificate, flags_.text("key", certificate));
    const std::uint64_t end = now_ns() + flags_.number("seconds", 900) * kSecond;
    begun_ = next_open_ = now_ns();
    for (std::uint64_t now = now_ns(); now < end; now = now_ns()) {
      for (int i = 0; i < kOpensPerTurn && open_ < wanted_ && next_open_ <= now; ++i) {
        const bool again = open_ < connections_.size();
        open_one();
        next_open_ += again || pace_ == 0 ? 0 : kSecond / pace_;
      }
      poller_.turn(open_ < wanted_ ? std::max(next_open_, now) - now : kSecond / 4);
      if (!told_ && answered_ == wanted_ * per_connection_ * targets_.size()) {
        told_ = true;
        report("open");
      }
    }
    die("the time of --seconds is over");
  }

 private:
  /// Opens the next connection: a new one, or one that was dropped.
  void open_one() {
    const bool again = open_ < connections_.size();
    if (!again) {
      connections_.push_back(std::make_unique<Connection>());
    }
    Connection& connection = *connections_[open_];
    connection.link = std::make_unique<Link>(
        poller_, connect_to(static_cast<std::uint16_t>(flags_.number("port", 0))), tls_, false,
        callbacks_, this, [](const std::string& cause) { die("a connection ended: " + cause); },
        &connection.ticket);
    connection.link->start(100);
    for (std::size_t i = 0; i < per_connection_ * targets_.size(); ++i) {
      if (!again) {
        connection.watches.push_back(std::make_unique<Watch>());
      }
      ask(connection.link->session(), *connection.watches[i], targets_[i % targets_.size()],
          open_ * per_connection_ + i / targets_.size());
    }
    ++open_;
    connection.link->flush();
  }

  void ask(nghttp2_session* session, Watch& watch, std::string target, std::size_t subscriber) {
    watch.opened_at = now_ns();
    if (etcd_) {
      watch.body = watch_request(target);
      const std::array<nghttp2_nv, 6> fields = {field(":method", "POST"),
                                                field(":scheme", "https"),
                                                field(":authority", "localhost"),
                                                field(":path", "/etcdserverpb.Watch/Watch"),
                                                field("content-type", "application/grpc"),
                                                field("te", "trailers")};
      nghttp2_data_provider body{};
      body.source.ptr = &watch;
      body.read_callback = read_body;
      nghttp2_submit_request(session, nullptr, fields.data(), fields.size(), &body, &watch);
      return;
    }
    if (!watch.cursor.empty()) {
      target = target.substr(0, target.find('?')) +
               "?watch=true&allowWatchBookmarks=true&resourceVersion=" + watch.cursor;
    }
    if (distinct_) {
      target += "&labelSelector=bench%3D" + std::to_string(subscriber);
    }
    const std::array<nghttp2_nv, 5> fields = {
        field(":method", "GET"), field(":scheme", "https"), field(":authority", "localhost"),
        field(":path", target), field("accept", "application/json")};
    nghttp2_submit_request(session, nullptr, fields.data(), fields.size(), nullptr, &watch);
  }

  /// The stream of a gRPC call stays open on our side.
  static ssize_t read_body(nghttp2_session* /*session*/, std::int32_t /*id*/, std::uint8_t* out,
                           std::size_t room, std::uint32_t* /*flags*/, nghttp2_data_source* source,
                           void* /*user*/) {
    Watch& watch = *static_cast<Watch*>(source->ptr);
    if (std::exchange(watch.body_sent, true) || room < watch.body.size()) {
      return NGHTTP2_ERR_DEFERRED;
    }
    std::memcpy(out, watch.body.data(), watch.body.size());
    return static_cast<ssize_t>(watch.body.size());
  }

  static int on_header(nghttp2_session* session, const nghttp2_frame* frame,
                       const std::uint8_t* name, std::size_t name_size, const std::uint8_t* value,
                       std::size_t value_size, std::uint8_t /*flags*/, void* user) {
    Load& load = *static_cast<Load*>(user);
    if (view(name, name_size) == ":status") {
      const std::string_view status = view(value, value_size);
      if (status == "200") {
        ++load.answered_;
        return 0;
      }
      if (!load.counts_ends_) {
        die("a watch was answered by " + std::string(status));
      }
      ++load.refused_;
      nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, nullptr);
    }
    return 0;
  }

  static int on_data(nghttp2_session* session, std::uint8_t /*flags*/, std::int32_t id,
                     const std::uint8_t* bytes, std::size_t size, void* user) {
    auto* watch = static_cast<Watch*>(nghttp2_session_get_stream_user_data(session, id));
    if (watch != nullptr) {
      static_cast<Load*>(user)->check_.take(*watch, view(bytes, size));
    }
    return 0;
  }

  static int on_close(nghttp2_session* /*session*/, std::int32_t /*id*/, std::uint32_t code,
                      void* user) {
    Load& load = *static_cast<Load*>(user);
    if (!load.counts_ends_) {
      die("a watch ended with code " + std::to_string(code));
    }
    ++load.ended_;
    return 0;
  }

  void drop() {
    for (const auto& connection : connections_) {
      connection->link.reset();
      for (const auto& watch : connection->watches) {
        check_.resume(*watch);
      }
    }
    open_ = answered_ = wanted_ = 0;
  }

  void command(std::string_view line) {
    unsigned long long count = 0;
    const std::string text(line);
    if (std::sscanf(text.c_str(), "add %llu", &count) == 1) {
      wanted_ += count;
      told_ = false;
      next_open_ = now_ns();
    } else if (line == "mark") {
      check_.latency().clear();
      report("mark");
    } else if (line == "report") {
      report("report");
    } else if (line == "drop") {
      poller_.later([this] {
        drop();
        report("drop");
      });
    } else if (line == "reconnect") {
      poller_.later([this] {
        drop();
        check_.latency().clear();
        wanted_ = connections_.size();
        told_ = false;
        begun_ = next_open_ = now_ns();
      });
    } else if (line == "quit") {
      std::_Exit(0);
    } else {
      die("unknown command: " + text);
    }
  }

  /// `least` and `most`: events that a stream has had since the tool began; `resumed`: connections
  /// whose TLS session was.
  void report(const char* what) const {
    std::uint64_t least = UINT64_MAX, most = 0, marked = 0, resumed = 0;
    for (const auto& connection : connections_) {
      resumed += connection->link != nullptr && connection->link->resumed() ? 1U : 0U;
      for (const auto& watch : connection->watches) {
        least = std::min(least, watch->seen);
        most = std::max(most, watch->seen);
        marked += watch->cursor.empty() ? 0U : 1U;
      }
    }
    const Histogram& latency = check_.latency();
    const auto print = [](const char* name, std::uint64_t value) {
      std::printf(",\"%s\":%llu", name, static_cast<unsigned long long>(value));
    };
    std::printf("{\"is\":\"%s\"", what);
    print("watches", answered_);
    print("events", latency.count());
    print("all_events", check_.events());
    print("least", connections_.empty() ? 0 : least);
    print("most", most);
    print("with_cursor", marked);
    print("resumed", resumed);
    print("bookmarks", check_.bookmarks());
    print("errors", check_.errors());
    print("ended", ended_);
    print("refused", refused_);
    print("p50_us", latency.quantile(0.5));
    print("p99_us", latency.quantile(0.99));
    print("max_us", latency.max());
    print("since_us", (now_ns() - begun_) / 1'000);
    print("cpu_us", cpu_us());
    std::printf("}\n");
    std::fflush(stdout);
  }

  Flags flags_;
  Poller poller_;
  std::vector<std::string> targets_;
  std::uint64_t wanted_, per_connection_, pace_;
  bool etcd_, distinct_, counts_ends_;
  EventCheck check_;
  nghttp2_session_callbacks* callbacks_ = nullptr;
  SSL_CTX* tls_ = nullptr;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::size_t open_ = 0;  // of connections_
  std::uint64_t begun_ = 0, next_open_ = 0, answered_ = 0, ended_ = 0, refused_ = 0;
  bool told_ = false;
};

}  // namespace
}  // namespace kintsugi::bench

int main(int argc, char** argv) { kintsugi::bench::Load(argc, argv).run(); }
