/// A closed loop of requests: --inflight on each of --connections connections, with a client
/// certificate. Every answer must be a success.
/// Flags: --port --op fetch|create|update|get|put|patch|post --target <path> --connections 100
/// --inflight 1
///        --requests 20000 --first 0 --value 1024 --body <bytes> --cert --key --seconds 300
/// fetch: GETs of --target, each answered by --body bytes. create, update and get: ConfigMaps
/// <target>/load-<number> with --value bytes; put: keys <target>/load-<number> by etcd's gRPC
/// (KV.Put); patch, post: the merge patch or object in the file --patch, to --target, for --user of
/// the group --group, whom the certificate may name; "#" in them stands for the number, "@" for
/// when it was sent. --query is added to the paths of gets. Numbers run from --first, and --names N
/// makes them begin again after N. With
/// --pace N there are N requests a second on one connection instead, however long the answers take.
/// Values say when they were sent: "sent":"<20 digits>" (watch_load.cc). stdout: with --warm N a
/// line after N requests more than
/// --requests, upon which the tool waits for a line on stdin; one JSON line at the end.
#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/link.h"

namespace kintsugi::bench {
namespace {

enum class Op { kFetch, kCreate, kUpdate, kGet, kPut, kPatch, kPost };

Op op_of(const std::string& name) {
  constexpr std::array<std::string_view, 7> kNames = {"fetch", "create", "update", "get",
                                                      "put",   "patch",  "post"};
  const auto* at = std::find(kNames.begin(), kNames.end(), name);
  if (at == kNames.end()) {
    die("--op is fetch, create, update, get, put, patch or post");
  }
  return static_cast<Op>(at - kNames.begin());
}

std::string content_of(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string filled(std::string_view text, std::string_view number, std::string_view sent) {
  std::string out;
  for (const char c : text) {
    if (c == '#' || c == '@') {
      out += c == '#' ? number : sent;
    } else {
      out += c;
    }
  }
  return out;
}

/// A protobuf field of bytes.
void add_bytes(std::string& out, int number, std::string_view bytes) {
  out.push_back(static_cast<char>(number << 3 | 2));
  std::size_t size = bytes.size();
  for (; size >= 0x80; size >>= 7) {
    out.push_back(static_cast<char>((size & 0x7f) | 0x80));
  }
  out.push_back(static_cast<char>(size));
  out += bytes;
}

struct Request : Submission {
  std::uint64_t start = 0;
  std::size_t received = 0;
  bool status = false;
  bool grpc = false;    ///< the trailer grpc-status: 0 was seen
  std::string message;  ///< of gRPC
};

class Load {
 public:
  Load(int argc, char** argv)
      : flags_(argc, argv),
        poller_([this](std::string_view) { go(); }, [](int) { std::_Exit(1); }),
        op_(op_of(flags_.text("op", "create"))),
        target_(flags_.text("target", "")),
        requests_(flags_.number("requests", 20'000)),
        warm_(flags_.number("warm", 0)),
        total_(requests_ + warm_),
        first_(flags_.number("first", 0)),
        names_(flags_.number("names", 0)),
        pace_(flags_.number("pace", 0)),
        body_(flags_.number("body", 1024)),
        user_(flags_.text("user", "")),
        group_(flags_.text("group", "")),
        query_(flags_.text("query", "")),
        patch_(content_of(flags_.text("patch", ""))),
        value_(flags_.number("value", 1024), 'x') {
    nghttp2_session_callbacks_new(&callbacks_);
    nghttp2_session_callbacks_set_on_header_callback(callbacks_, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks_, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks_, on_close);
  }

  void run() {
    const std::string certificate = flags_.text("cert", "");
    SSL_CTX* tls = make_tls(false, certificate, flags_.text("key", certificate));
    const std::uint64_t end = now_ns() + flags_.number("seconds", 300) * 1'000'000'000;
    limit_ = warm_ > 0 ? warm_ : requests_;
    for (std::uint64_t i = flags_.number("connections", 100); i > 0; --i) {
      links_.push_back(std::make_unique<Link>(
          poller_, connect_to(static_cast<std::uint16_t>(flags_.number("port", 0))), tls, false,
          callbacks_, this, [](const std::string& cause) { die("a connection ended: " + cause); }));
      links_.back()->start(100);
    }
    begin_ = due_ = now_ns();
    fill_all();
    while (true) {
      if (now_ns() > end) {
        die("the time of --seconds is over");
      }
      poller_.turn(pace_ > 0 && sent_ < limit_ ? send_due() : 100'000'000);
      if (warm_ > 0 && done_ == warm_) {
        report("warm");
        warm_ = 0;  // stdin goes on with go()
      } else if (warm_ == 0 && done_ == limit_ && limit_ == total_) {
        report("done");
        std::_Exit(0);
      }
    }
  }

 private:
  void go() {
    limit_ = total_;
    latency_.clear();
    begin_ = due_ = now_ns();
    fill_all();
  }

  /// What --pace asks for by now; the time until the next [ns].
  std::uint64_t send_due() {
    const std::uint64_t now = now_ns();
    for (; due_ <= now && sent_ < limit_; due_ += 1'000'000'000 / pace_) {
      send(links_.front()->session());
    }
    links_.front()->flush();
    return due_ > now ? due_ - now : 0;
  }

  void fill_all() {
    const std::uint64_t inflight = pace_ > 0 ? 0 : flags_.number("inflight", 1);
    for (const auto& link : links_) {
      for (std::uint64_t n = 0; n < inflight; ++n) {
        send(link->session());
      }
      link->flush();
    }
  }

  void report(const char* what) const {
    std::printf(
        "{\"is\":\"%s\",\"requests\":%llu,\"seconds\":%.3f,\"p50_us\":%llu,\"p99_us\":%llu}\n",
        what, static_cast<unsigned long long>(latency_.count()),
        static_cast<double>(now_ns() - begin_) / 1e9,
        static_cast<unsigned long long>(latency_.quantile(0.5)),
        static_cast<unsigned long long>(latency_.quantile(0.99)));
    std::fflush(stdout);
  }

  void send(nghttp2_session* session) {
    if (sent_ == limit_) {
      return;
    }
    auto* request = new Request;
    request->start = now_ns();
    fill(*request, first_ + (names_ > 0 ? sent_ % names_ : sent_));
    ++sent_;
    std::vector<nghttp2_nv> fields = {field(":method", kMethods[static_cast<std::size_t>(op_)]),
                                      field(":scheme", "https"), field(":authority", "localhost"),
                                      field(":path", request->path)};
    if (op_ == Op::kPut) {
      fields.push_back(field("content-type", "application/grpc"));
      fields.push_back(field("te", "trailers"));
    } else {
      fields.push_back(field(
          "content-type", op_ == Op::kPatch ? "application/merge-patch+json" : "application/json"));
      fields.push_back(field("accept", "application/json"));
    }
    if (!user_.empty()) {
      fields.push_back(field("x-remote-user", user_));
      fields.push_back(field("x-remote-group", group_));
    }
    submit(session, fields, *request);
  }

  void fill(Request& request, std::uint64_t number) const {
    if (op_ == Op::kFetch) {
      request.path = target_;
      return;
    }
    const std::string name = "load-" + std::to_string(number);
    std::string sent = std::to_string(request.start);
    sent.insert(0, 20 - std::min<std::size_t>(sent.size(), 20), '0');
    if (op_ == Op::kPut) {
      std::string message;
      add_bytes(message, 1, target_ + "/" + name);
      add_bytes(message, 2, R"({"sent":")" + sent + R"(","value":")" + value_ + "\"}");
      const auto size = static_cast<std::uint32_t>(message.size());
      request.path = "/etcdserverpb.KV/Put";
      request.body = {0, static_cast<char>(size >> 24), static_cast<char>(size >> 16),
                      static_cast<char>(size >> 8), static_cast<char>(size)};
      request.body += message;
      return;
    }
    if (op_ == Op::kPatch || op_ == Op::kPost) {
      request.path = filled(target_, std::to_string(number), sent);
      request.body = filled(patch_, std::to_string(number), sent);
      return;
    }
    request.path = op_ == Op::kCreate ? target_ : target_ + "/" + name + query_;
    if (op_ != Op::kGet) {
      // An update must change something, or it is none.
      request.body = R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":")" + name +
                     R"("},"data":{"sent":")" + sent + R"(","value":")" + value_ + "\"}}";
    }
  }

  static int on_header(nghttp2_session* session, const nghttp2_frame* frame,
                       const std::uint8_t* name, std::size_t name_size, const std::uint8_t* value,
                       std::size_t value_size, std::uint8_t /*flags*/, void* /*user*/) {
    Request& request = request_of<Request>(session, frame->hd.stream_id);
    if (view(name, name_size) == ":status") {
      request.status = view(value, value_size).substr(0, 2) == "20";
    } else if (view(name, name_size) == "grpc-status") {
      request.grpc = view(value, value_size) == "0";
    } else if (view(name, name_size) == "grpc-message") {
      request.message = ": " + std::string(view(value, value_size));
    }
    return 0;
  }
  static int on_data(nghttp2_session* session, std::uint8_t /*flags*/, std::int32_t id,
                     const std::uint8_t* /*bytes*/, std::size_t size, void* /*user*/) {
    request_of<Request>(session, id).received += size;
    return 0;
  }
  static int on_close(nghttp2_session* session, std::int32_t id, std::uint32_t code, void* user) {
    Load& load = *static_cast<Load*>(user);
    const std::unique_ptr<Request> request(&request_of<Request>(session, id));
    if (code != NGHTTP2_NO_ERROR || !request->status || (load.op_ == Op::kPut && !request->grpc)) {
      die("a request failed: " + request->path + ", code " + std::to_string(code) +
          request->message);
    }
    ++load.done_;
    load.latency_.add((now_ns() - request->start) / 1'000);
    if (load.pace_ == 0) {
      load.send(session);
    }
    return 0;
  }

  static constexpr std::array<std::string_view, 7> kMethods = {"GET",  "POST",  "PUT", "GET",
                                                               "POST", "PATCH", "POST"};

  Flags flags_;
  Poller poller_;
  Op op_;
  std::string target_;
  std::uint64_t requests_, warm_, total_, first_, names_, pace_, body_,
      sent_ = 0, done_ = 0, limit_ = 0, begin_ = 0, due_ = 0;
  std::string user_, group_, query_, patch_, value_;
  nghttp2_session_callbacks* callbacks_ = nullptr;
  std::vector<std::unique_ptr<Link>> links_;
  Histogram latency_;
};

}  // namespace
}  // namespace kintsugi::bench

int main(int argc, char** argv) { kintsugi::bench::Load(argc, argv).run(); }
