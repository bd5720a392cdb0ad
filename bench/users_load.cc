/// Users who ask for this and that of one workspace, each with a certificate and connections of his
/// own, at an even rate or as fast as answers come.
/// Flags: --port --target <path of ConfigMaps> --user <path of .crt and .key, without the suffix>
///        --users 1 (numbers are put behind --user, from 0) --connections 1 (of each)
///        --mix get,write,list,watch (in turn) --seconds 300
///        --rate N: requests a second of each user, however long the answers take; or
///        --depth N: requests that each connection has open at all times
///        --follow N: watches of each user that stay, of what he writes
/// A get is of kube-root-ca.crt; a write an update of load-<user>, with --create a create of a new
/// name; a list the first ten; a watch is over with its first event, with --depth when the server
/// ends it after a second. With --rate a time is measured from when its request was due, also if
/// this tool sent it later. "event" is how long after a write was due its event came to a watch of
/// --follow; "behind" how much too late requests were sent; "all" are the requests of the mix.
/// stdin: "go" begins, "mark" answers with one JSON line of all since the last: for each kind
/// number, p50, p99, most [us]; "users_p99" of each user's own requests, whatever their kinds; and
/// how often each status (0: none) came.
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/link.h"

namespace kintsugi::bench {
namespace {

enum Kind : std::size_t { kGet, kWrite, kList, kWatch, kFollow, kBehind, kAll, kKinds };
constexpr std::array<std::string_view, kKinds> kNames = {"get",   "write",  "list", "watch",
                                                         "event", "behind", "all"};
constexpr std::string_view kKnown = "kube-root-ca.crt";

struct User {
  std::string object;                        ///< that it updates
  std::vector<std::unique_ptr<Link>> links;  ///< their streams
  std::size_t next_kind = 0, next_link = 0;
  std::uint64_t due = 0;  ///< [ns]
  Histogram times;        ///< of what it asked [us]
};

struct Request : Submission {
  Kind kind = kGet;
  User* user = nullptr;
  std::uint64_t due = 0;  ///< [ns]
  std::string line;
  int status = 0;
  bool over = false;  ///< it has been counted
};

class Load {
 public:
  Load(int argc, char** argv)
      : flags_(argc, argv),
        poller_([this](std::string_view line) { on_line(line); }, [](int) { std::_Exit(1); }),
        target_(flags_.text("target", "")),
        rate_(flags_.number("rate", 0)),
        depth_(flags_.number("depth", 0)),
        creates_(flags_.number("create", 0) != 0),
        value_(flags_.number("value", 1'000), 'x') {
    nghttp2_session_callbacks_new(&callbacks_);
    nghttp2_session_callbacks_set_on_header_callback(callbacks_, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks_, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks_, on_close);
    const std::string mix = flags_.text("mix", "get,write,list,watch");
    for (std::size_t at = 0; at < mix.size();) {
      const std::string name = mix.substr(at, mix.find(',', at) - at);
      const auto* const found = std::find(kNames.begin(), kNames.begin() + kFollow, name);
      if (found == kNames.begin() + kFollow) {
        die("--mix has get, write, list, watch");
      }
      mix_.push_back(static_cast<Kind>(found - kNames.begin()));
      at += name.size() + 1;
    }
  }

  void run() {
    const std::uint64_t end = now_ns() + flags_.number("seconds", 300) * 1'000'000'000;
    connect();
    while (now_ns() < end) {
      poller_.turn(send_due());
    }
    die("the time of --seconds is over");
  }

 private:
  void connect() {
    const std::string base = flags_.text("user", "");
    const auto port = static_cast<std::uint16_t>(flags_.number("port", 0));
    for (std::uint64_t number = 0; number < flags_.number("users", 1); ++number) {
      User& user = *users_.emplace_back(std::make_unique<User>());
      user.object = "load-" + std::to_string(number);
      const std::string pair = base + std::to_string(number);
      SSL_CTX* tls = make_tls(false, pair + ".crt", pair + ".key");
      for (std::uint64_t i = 0; i < flags_.number("connections", 1); ++i) {
        user.links.push_back(std::make_unique<Link>(
            poller_, connect_to(port), tls, false, callbacks_, this,
            [](const std::string& cause) { die("a connection ended: " + cause); }));
        user.links.back()->start(250);
        // Before SETTINGS have come nghttp2 lets a hundred streams wait.
      }
      for (std::uint64_t i = 0; i < flags_.number("follow", 0); ++i) {
        send(user, *user.links.front(), kFollow, now_ns());
      }
      user.links.front()->flush();
    }
  }

  void on_line(std::string_view line) {
    if (line == "mark") {
      report();
      return;
    }
    if (line != "go") {
      die("stdin has go and mark");
    }
    const std::uint64_t now = now_ns();
    going_ = true;
    for (std::size_t i = 0; i < users_.size(); ++i) {
      User& user = *users_[i];
      user.next_kind = i;  // not all the same at the same time
      user.due = rate_ == 0 ? 0 : now + i * 1'000'000'000 / rate_ / users_.size();
      for (const auto& link : user.links) {
        for (std::uint64_t n = 0; n < depth_; ++n) {
          send_next(user, *link, now);
        }
        link->flush();
      }
    }
  }

  /// What is due; the time until the next [ns].
  std::uint64_t send_due() {
    constexpr std::uint64_t kIdle = 100'000'000;
    if (rate_ == 0 || !going_) {
      return kIdle;
    }
    std::uint64_t wait = kIdle;
    for (const auto& user : users_) {
      std::uint64_t now = now_ns();
      for (; user->due <= now; user->due += 1'000'000'000 / rate_) {
        Link& link = *user->links[user->next_link++ % user->links.size()];
        times_[kBehind].add((now - user->due) / 1'000);
        send_next(*user, link, user->due);
        link.flush();
        now = now_ns();
      }
      wait = std::min(wait, user->due - now);
    }
    return wait;
  }

  void send_next(User& user, Link& link, std::uint64_t due) {
    send(user, link, mix_[user.next_kind++ % mix_.size()], due);
  }

  void send(User& user, Link& link, Kind kind, std::uint64_t due) {
    auto* request = new Request;
    request->kind = kind;
    request->user = &user;
    request->due = due;
    fill(*request, user);
    const std::string_view method = kind != kWrite ? "GET" : creates_ ? "POST" : "PUT";
    const std::array<nghttp2_nv, 6> fields = {field(":method", method),
                                              field(":scheme", "https"),
                                              field(":authority", "localhost"),
                                              field(":path", request->path),
                                              field("accept", "application/json"),
                                              field("content-type", "application/json")};
    submit(link.session(), fields, *request);
  }

  void fill(Request& request, const User& user) const {
    const std::string watch = "?watch=true&fieldSelector=metadata.name%3D";
    switch (request.kind) {
      case kGet:
        request.path = target_ + "/" + std::string(kKnown);
        break;
      case kList:
        request.path = target_ + "?limit=10";
        break;
      case kWatch:
        request.path = target_ + watch + std::string(kKnown) +
                       (depth_ > 0 ? "&timeoutSeconds=1" : "&timeoutSeconds=60");
        break;
      case kFollow:
        request.path = target_ + watch + user.object + "&timeoutSeconds=3600";
        break;
      default: {
        std::string sent = std::to_string(request.due);
        sent.insert(0, 20 - std::min<std::size_t>(sent.size(), 20), '0');
        request.path = creates_ ? target_ : target_ + "/" + user.object;
        request.body =
            R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{")" +
            (creates_ ? std::string("generateName\":\"flood-") : "name\":\"" + user.object) +
            R"("},"data":{"sent":")" + sent + R"(","value":")" + value_ + "\"}}";
      }
    }
  }

  void report() {
    std::printf("{");
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      std::printf("\"%s\":{\"n\":%llu,\"p50\":%llu,\"p99\":%llu,\"most\":%llu},",
                  std::string(kNames[kind]).c_str(),
                  static_cast<unsigned long long>(times_[kind].count()),
                  static_cast<unsigned long long>(times_[kind].quantile(0.5)),
                  static_cast<unsigned long long>(times_[kind].quantile(0.99)),
                  static_cast<unsigned long long>(times_[kind].max()));
      times_[kind].clear();
    }
    std::printf("\"users_p99\":[");
    for (const auto& user : users_) {
      std::printf("%s%llu", user == users_.front() ? "" : ",",
                  static_cast<unsigned long long>(user->times.quantile(0.99)));
      user->times.clear();
    }
    std::printf("],\"status\":{");
    const char* between = "";
    for (const auto& [status, number] : statuses_) {
      std::printf("%s\"%d\":%llu", between, status, static_cast<unsigned long long>(number));
      between = ",";
    }
    statuses_.clear();
    std::printf("}}\n");
    std::fflush(stdout);
  }

  void count(Request& request) {
    if (std::exchange(request.over, true)) {
      return;
    }
    ++statuses_[request.status];
    if (request.status / 100 == 2) {
      const std::uint64_t took = (now_ns() - request.due) / 1'000;
      times_[request.kind].add(took);
      times_[kAll].add(took);
      request.user->times.add(took);
    }
  }

  static int on_header(nghttp2_session* session, const nghttp2_frame* frame,
                       const std::uint8_t* name, std::size_t name_size, const std::uint8_t* value,
                       std::size_t value_size, std::uint8_t /*flags*/, void* /*user*/) {
    if (view(name, name_size) == ":status") {
      request_of<Request>(session, frame->hd.stream_id).status =
          std::atoi(std::string(view(value, value_size)).c_str());
    }
    return 0;
  }
  static int on_data(nghttp2_session* session, std::uint8_t /*flags*/, std::int32_t id,
                     const std::uint8_t* bytes, std::size_t size, void* user) {
    Load& load = *static_cast<Load*>(user);
    Request& request = request_of<Request>(session, id);
    if (request.kind == kWatch && request.status == 200) {
      load.count(request);
      if (load.rate_ != 0) {
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
      }
    } else if (request.kind == kFollow) {
      request.line += view(bytes, size);
      for (std::size_t end = 0; (end = request.line.find('\n')) != std::string::npos;) {
        load.on_event(std::string_view(request.line).substr(0, end));
        request.line.erase(0, end + 1);
      }
    }
    return 0;
  }
  void on_event(std::string_view line) {
    constexpr std::string_view kSent = R"("sent":")";
    const std::size_t at = line.find(kSent);
    if (line.find("MODIFIED") < 20 && at != std::string_view::npos) {
      const std::string sent(line.substr(at + kSent.size(), 20));
      times_[kFollow].add((now_ns() - std::strtoull(sent.c_str(), nullptr, 10)) / 1'000);
    }
  }
  static int on_close(nghttp2_session* session, std::int32_t id, std::uint32_t /*code*/,
                      void* user) {
    Load& load = *static_cast<Load*>(user);
    const std::unique_ptr<Request> request(&request_of<Request>(session, id));
    if (request->kind == kFollow) {
      die("a watch of --follow ended: " + std::to_string(request->status) + " " + request->line);
    }
    load.count(*request);
    if (load.depth_ > 0) {
      load.send_again(session);
    }
    return 0;
  }
  void send_again(nghttp2_session* session) {
    for (const auto& user : users_) {
      for (const auto& link : user->links) {
        if (link->session() == session) {
          send_next(*user, *link, now_ns());
          return;
        }
      }
    }
  }

  Flags flags_;
  Poller poller_;
  std::string target_;
  std::uint64_t rate_, depth_;
  bool creates_, going_ = false;
  std::string value_;
  std::vector<Kind> mix_;
  nghttp2_session_callbacks* callbacks_ = nullptr;
  std::vector<std::unique_ptr<User>> users_;
  std::array<Histogram, kKinds> times_;
  std::map<int, std::uint64_t> statuses_;
};

}  // namespace
}  // namespace kintsugi::bench

int main(int argc, char** argv) { kintsugi::bench::Load(argc, argv).run(); }
