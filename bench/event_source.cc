/// The shard of the bench: HTTP/2 over TLS on 127.0.0.1.
///   GET …                   1 kB (--body) with a content-length
///   GET …watch=true…        held; gets its share of the events
///   what a proxy with topology source `kcp` asks at start: the smallest answers that make
///   `/clusters/bench` known (FP-151)
/// With --objects N it is a plain server of N ConfigMaps instead (collection.h): lists of them, and
/// watches that all get every event, from a resourceVersion or with the initial events.
/// Flags: --port 0 --cert --key --max-streams 100 --body 1024 --size 500 --seconds 900
///        --objects 0 --shard 1 --bookmark-seconds 60
/// stdin: `rate <events/s> <tick ms>`, `stats`. SIGUSR1 prints the same, SIGTERM prints and ends.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bench/collection.h"
#include "bench/link.h"

namespace kintsugi::bench {
namespace {

constexpr std::size_t kMaxBacklog = 256U << 20;
constexpr std::uint64_t kSecond = 1'000'000'000;

struct Connection;

struct Stream {
  Connection* connection = nullptr;
  std::int32_t id = 0;
  std::string target;
  std::string_view body;  // of an answer with a length
  std::string queue;      // of a watch or list
  std::size_t sent = 0;
  std::uint64_t next_item = 0, items = 0;  // of a list
  std::size_t place = 0;                   // in Source::watches_
  std::uint64_t sequence = 0;
  bool held = false, counted = false, deferred = false, bookmarks = false;
};

class Source;

struct Connection {
  explicit Connection(Source& s) : source(s) {}
  Source& source;
  std::unordered_map<std::int32_t, std::unique_ptr<Stream>> streams;
  std::size_t watches = 0;
  std::unique_ptr<Link> link;
};

/// One event is a JSON line of a fixed form, so that stamping it costs nothing.
class EventLine {
 public:
  explicit EventLine(std::size_t size) : text_(kStart) {
    text_ += R"(,"object":{"kind":"ConfigMap","metadata":{"name":"bench"},"data":{"pad":")";
    const std::string_view end = "\"}}}\n";
    text_.append(size > text_.size() + end.size() ? size - text_.size() - end.size() : 0, 'x');
    text_ += end;
  }
  std::string_view stamp(std::uint64_t time, std::uint64_t sequence) {
    put(time, kTime);
    put(sequence, kSequence);
    return text_;
  }

 private:
  static constexpr std::string_view kStart =
      R"({"type":"MODIFIED","sent":"00000000000000000000","seq":"00000000000000000000")";
  static constexpr std::size_t kDigits = 20;
  static constexpr std::size_t kTime = kStart.find("0000");
  static constexpr std::size_t kSequence = kStart.rfind("\"00000") + 1;

  void put(std::uint64_t value, std::size_t at) {
    for (std::size_t i = at + kDigits; i-- > at; value /= 10) {
      text_[i] = static_cast<char>('0' + value % 10);
    }
  }
  std::string text_;
};

class Source {
 public:
  Source(int argc, char** argv)
      : flags_(argc, argv),
        poller_([this](std::string_view line) { command(line); },
                [this](int number) { signal(number); }),
        event_(flags_.number("size", 500)),
        body_(flags_.number("body", 1024), 'x') {
    if (const std::uint64_t objects = flags_.number("objects", 0); objects > 0) {
      collection_.emplace(flags_.number("shard", 1), objects, flags_.number("size", 500));
    }
    nghttp2_session_callbacks_new(&callbacks_);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks_, on_begin);
    nghttp2_session_callbacks_set_on_header_callback(callbacks_, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks_, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks_, on_close);
  }

  void run() {
    tls_ = make_tls(true, flags_.text("cert", "cert.pem"), flags_.text("key", "key.pem"));
    port_ = static_cast<std::uint16_t>(flags_.number("port", 0));
    const int listener = listen_on(port_);
    Poller::Ready accept = [this, listener](std::uint32_t) { accept_all(listener); };
    poller_.add(listener, accept);
    std::printf("{\"port\":%u}\n", unsigned{port_});
    std::fflush(stdout);
    const std::uint64_t end = now_ns() + flags_.number("seconds", 900) * kSecond;
    const std::uint64_t between = flags_.number("bookmark-seconds", 60) * kSecond;
    std::uint64_t bookmark = now_ns() + between;
    for (std::uint64_t now = now_ns(); now < end; now = now_ns()) {
      if (collection_ && now >= bookmark) {
        bookmark += between;
        send_all(collection_->bookmark(false), true);
        flush_touched();
      }
      poller_.turn(rate_ == 0   ? std::min(end - now, kSecond)
                   : due_ > now ? std::min(due_ - now, kSecond)
                                : 0);
      send_due();
    }
    die("the time of --seconds is over");
  }

 private:
  static Connection& of(void* user) { return *static_cast<Connection*>(user); }

  void accept_all(int listener) {
    while (true) {
      const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) {
        return;
      }
      auto owned = std::make_unique<Connection>(*this);
      Connection* connection = owned.get();
      connections_[connection] = std::move(owned);
      ++accepted_;
      connection->link = std::make_unique<Link>(
          poller_, fd, tls_, true, callbacks_, connection,
          [this, connection](const std::string& /*cause*/) { drop(*connection); });
      connection->link->start(static_cast<std::uint32_t>(flags_.number("max-streams", 100)));
    }
  }

  void drop(Connection& connection) {
    for (auto& [id, stream] : connection.streams) {
      forget(*stream);
    }
    connections_.erase(&connection);
  }

  // Callbacks of nghttp2.
  static int on_begin(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
      auto stream = std::make_unique<Stream>();
      stream->connection = &of(user);
      stream->id = frame->hd.stream_id;
      nghttp2_session_set_stream_user_data(session, stream->id, stream.get());
      of(user).streams[frame->hd.stream_id] = std::move(stream);
    }
    return 0;
  }
  static int on_header(nghttp2_session* session, const nghttp2_frame* frame,
                       const std::uint8_t* name, std::size_t name_size, const std::uint8_t* value,
                       std::size_t value_size, std::uint8_t /*flags*/, void* /*user*/) {
    if (view(name, name_size) == ":path") {
      auto* stream =
          static_cast<Stream*>(nghttp2_session_get_stream_user_data(session, frame->hd.stream_id));
      if (stream != nullptr) {
        stream->target = view(value, value_size);
      }
    }
    return 0;
  }
  static int on_frame(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    const bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (ends && (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA)) {
      auto* stream =
          static_cast<Stream*>(nghttp2_session_get_stream_user_data(session, frame->hd.stream_id));
      if (stream != nullptr) {
        of(user).source.answer(session, *stream);
      }
    }
    return 0;
  }
  static int on_close(nghttp2_session* session, std::int32_t id, std::uint32_t /*code*/,
                      void* user) {
    const auto found = of(user).streams.find(id);
    if (found != of(user).streams.end()) {
      of(user).source.forget(*found->second);
      nghttp2_session_set_stream_user_data(session, id, nullptr);
      of(user).streams.erase(found);
    }
    return 0;
  }
  static ssize_t read_body(nghttp2_session* /*session*/, std::int32_t /*id*/, std::uint8_t* out,
                           std::size_t room, std::uint32_t* flags, nghttp2_data_source* source,
                           void* user) {
    Stream& stream = *static_cast<Stream*>(source->ptr);
    if (stream.items > 0) {
      of(user).source.refill(stream);
    }
    const std::string_view all =
        stream.held || stream.items > 0 ? std::string_view(stream.queue) : stream.body;
    const std::size_t count = std::min(room, all.size() - stream.sent);
    std::memcpy(out, all.data() + stream.sent, count);
    stream.sent += count;
    if (stream.held) {
      of(user).source.backlog_ -= count;
      if (count == 0) {
        stream.deferred = true;
        return NGHTTP2_ERR_DEFERRED;
      }
      if (stream.sent == all.size()) {
        stream.queue.clear();
        stream.sent = 0;
      }
    } else if (stream.sent == all.size() && stream.next_item == stream.items) {
      *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return static_cast<ssize_t>(count);
  }

  void answer(nghttp2_session* session, Stream& stream) {
    const std::string_view target = stream.target;
    if (collection_ && target.find("/configmaps") != std::string_view::npos) {
      answer_collection(session, stream);
      return;
    }
    const bool topology =
        target.starts_with("/clusters/root/") || target.starts_with("/clusters/%2A/");
    stream.held = target.find("watch=true") != std::string_view::npos;
    std::string length;
    if (stream.held) {
      if (topology) {
        push(stream, initial_events(target));
      } else {
        hold(stream);
      }
    } else {
      ++gets_;
      stream.body = topology ? kIdentity : target == "/livez" ? "ok" : std::string_view(body_);
      length = std::to_string(stream.body.size());
    }
    const std::array<nghttp2_nv, 3> fields = {field(":status", "200"),
                                              field("content-type", "application/json"),
                                              field("content-length", length)};
    nghttp2_data_provider provider{};
    provider.source.ptr = &stream;
    provider.read_callback = read_body;
    nghttp2_submit_response(session, stream.id, fields.data(), stream.held ? 2 : 3, &provider);
  }

  void hold(Stream& stream) {
    stream.counted = true;
    stream.place = watches_.size();
    watches_.push_back(&stream);
    ++stream.connection->watches;
  }

  void answer_collection(nghttp2_session* session, Stream& stream) {
    const std::string_view target = stream.target;
    std::string first;
    bool good = true;
    stream.held = parameter(target, "watch") == "true" || parameter(target, "watch") == "1";
    if (stream.held) {
      const std::string revision(parameter(target, "resourceVersion"));
      const bool initial = parameter(target, "sendInitialEvents") == "true";
      stream.bookmarks = parameter(target, "allowWatchBookmarks") == "true";
      if (initial || revision.empty() || revision == "0") {
        ++watch_lists_;
        collection_->add_initial(first);
        first += initial ? collection_->bookmark(true) : std::string();
      } else {
        good = collection_->replay(std::strtoull(revision.c_str(), nullptr, 10), first);
        ++(good ? resumed_ : expired_);
      }
    } else {
      const std::string limit(parameter(target, "limit"));
      const bool exact = parameter(target, "resourceVersionMatch") == "Exact";
      ++(limit == "1" ? probes_ : exact ? exact_lists_ : lists_);
      stream.items = limit == "1" ? 1 : collection_->objects();
      first = collection_->list_head();
    }
    const std::array<nghttp2_nv, 2> fields = {field(":status", good ? "200" : "410"),
                                              field("content-type", "application/json")};
    nghttp2_data_provider provider{};
    provider.source.ptr = &stream;
    provider.read_callback = read_body;
    if (!good) {
      stream.held = false;
      stream.body = kExpired;
    } else if (stream.held) {
      hold(stream);
      push(stream, first);
    } else {
      stream.queue = first;
    }
    nghttp2_submit_response(session, stream.id, fields.data(), fields.size(), &provider);
  }

  /// More items of a list, if those before are sent.
  void refill(Stream& stream) {
    constexpr std::uint64_t kAtOnce = 32;
    if (stream.sent < stream.queue.size() || stream.next_item == stream.items) {
      return;
    }
    const std::uint64_t count = std::min(kAtOnce, stream.items - stream.next_item);
    stream.queue.clear();
    stream.sent = 0;
    collection_->add_items(stream.queue, stream.next_item, count, stream.items);
    stream.next_item += count;
  }

  [[nodiscard]] std::string initial_events(std::string_view target) const {
    if (target.find("sendInitialEvents=true") == std::string_view::npos) {
      return {};
    }
    std::string events;
    if (target.find("/shards") != std::string_view::npos) {
      const std::string url = "https://127.0.0.1:" + std::to_string(port_);
      events = R"({"type":"ADDED","object":{"apiVersion":"core.kcp.io/v1alpha1","kind":"Shard",)"
               R"("metadata":{"name":"root","resourceVersion":"1","annotations":{"kcp.io/cluster":)"
               R"("root"}},"spec":{"baseURL":")" +
               url + R"(","externalURL":")" + url + R"(","virtualWorkspaceURL":")" + url +
               "\"}}}\n";
    } else if (target.find("/logicalclusters") != std::string_view::npos) {
      events = R"({"type":"ADDED","object":{"apiVersion":"core.kcp.io/v1alpha1",)"
               R"("kind":"LogicalCluster","metadata":{"name":"cluster","resourceVersion":"1",)"
               R"("annotations":{"kcp.io/cluster":"bench"}},"status":{"phase":"Ready"}}})"
               "\n";
    }
    return events +
           R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"2","annotations":)"
           R"({"k8s.io/initial-events-end":"true"}}}})"
           "\n";
  }

  void forget(Stream& stream) {
    backlog_ -= stream.held ? stream.queue.size() - stream.sent : 0;
    if (std::exchange(stream.counted, false)) {
      watches_.back()->place = stream.place;
      watches_[stream.place] = watches_.back();
      watches_.pop_back();
      --stream.connection->watches;
    }
  }

  void push(Stream& stream, std::string_view bytes) {
    stream.queue.append(bytes);
    backlog_ += bytes.size();
    if (backlog_ > kMaxBacklog) {
      die("the proxy does not take the events");
    }
  }

  void send_due() {
    std::uint64_t now = now_ns();
    const bool paced = tick_ == 0;
    // Late events go out one by one like those in time, but give way to the sockets now and then.
    for (unsigned i = 0; rate_ != 0 && due_ <= now && i < 32; ++i, now = now_ns()) {
      if (watches_.empty()) {
        due_ = now;
        return;
      }
      for (std::uint64_t n = paced ? 1 : rate_ * tick_ / 1'000; n > 0; --n) {
        send_one();
      }
      due_ += paced ? kSecond / rate_ : tick_ * 1'000'000;
      if (!collection_) {
        flush_touched();
      }
    }
    flush_touched();  // a server that is late sends what it has at once
  }

  void flush_touched() {
    for (Connection* connection : std::exchange(touched_, {})) {
      connection->link->flush();
    }
  }

  void send_all(std::string_view text, bool bookmark) {
    for (Stream* stream : watches_) {
      if (!bookmark || stream->bookmarks) {
        send(*stream, text);
      }
    }
  }

  void send_one() {
    if (collection_) {
      send_all(collection_->next_event(now_ns()), false);
      ++events_;
      return;
    }
    random_ ^= random_ << 13U;
    random_ ^= random_ >> 7U;
    random_ ^= random_ << 17U;
    Stream& stream = *watches_[random_ % watches_.size()];
    send(stream, event_.stamp(now_ns(), stream.sequence++));
    ++events_;
  }

  void send(Stream& stream, std::string_view text) {
    push(stream, text);
    if (std::exchange(stream.deferred, false)) {
      nghttp2_session_resume_data(stream.connection->link->session(), stream.id);
    }
    if (std::find(touched_.begin(), touched_.end(), stream.connection) == touched_.end()) {
      touched_.push_back(stream.connection);
    }
  }

  void command(std::string_view line) {
    unsigned long long rate = 0, tick = 0;
    const std::string text(line);
    if (std::sscanf(text.c_str(), "rate %llu %llu", &rate, &tick) >= 1) {
      rate_ = rate;
      tick_ = tick;
      due_ = now_ns();
    } else if (line == "stats") {
      print();
    } else {
      die("unknown command: " + text);
    }
  }

  void signal(int number) {
    print();
    if (number != SIGUSR1) {
      std::_Exit(0);
    }
  }

  void print() const {
    std::size_t carriers = 0;
    for (const auto& [key, connection] : connections_) {
      carriers += connection->watches != 0 ? 1U : 0U;
    }
    std::printf(
        "{\"accepted\":%llu,\"connections\":%zu,\"watch_connections\":%zu,\"watches\":%zu,"
        "\"gets\":%llu,\"lists\":%llu,\"watch_lists\":%llu,\"exact_lists\":%llu,"
        "\"probes\":%llu,\"resumed\":%llu,"
        "\"expired\":%llu,\"revision\":%llu,\"events\":%llu,\"backlog\":%zu,\"late_us\":%lld,"
        "\"cpu_us\":%llu}\n",
        static_cast<unsigned long long>(accepted_), connections_.size(), carriers, watches_.size(),
        static_cast<unsigned long long>(gets_), static_cast<unsigned long long>(lists_),
        static_cast<unsigned long long>(watch_lists_),
        static_cast<unsigned long long>(exact_lists_), static_cast<unsigned long long>(probes_),
        static_cast<unsigned long long>(resumed_), static_cast<unsigned long long>(expired_),
        static_cast<unsigned long long>(collection_ ? collection_->revision() : 0),
        static_cast<unsigned long long>(events_), backlog_,
        rate_ == 0 ? 0LL : (static_cast<long long>(now_ns()) - static_cast<long long>(due_)) / 1000,
        static_cast<unsigned long long>(cpu_us()));
    std::fflush(stdout);
  }

  static constexpr std::string_view kExpired =
      R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Expired",)"
      R"("message":"too old resource version","code":410})";
  static constexpr std::string_view kIdentity = R"({"status":{"identityHash":"bench"}})";

  Flags flags_;
  Poller poller_;
  EventLine event_;
  std::string body_;
  std::optional<Collection> collection_;
  nghttp2_session_callbacks* callbacks_ = nullptr;
  SSL_CTX* tls_ = nullptr;
  std::uint16_t port_ = 0;
  std::unordered_map<Connection*, std::unique_ptr<Connection>> connections_;
  std::vector<Stream*> watches_;
  std::vector<Connection*> touched_;
  std::uint64_t rate_ = 0, tick_ = 0, due_ = 0;
  std::uint64_t random_ = 88'172'645'463'325'252U;
  std::uint64_t accepted_ = 0, gets_ = 0, events_ = 0;
  std::uint64_t lists_ = 0, exact_lists_ = 0, watch_lists_ = 0, probes_ = 0, resumed_ = 0,
                expired_ = 0;
  std::size_t backlog_ = 0;
};

}  // namespace
}  // namespace kintsugi::bench

int main(int argc, char** argv) { kintsugi::bench::Source(argc, argv).run(); }
