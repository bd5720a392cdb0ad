#include "bench/link.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

namespace kintsugi::bench {
namespace {

constexpr std::size_t kRecord = 16 * 1024;
constexpr std::int32_t kConnectionWindow = 16 << 20;

std::uint64_t clock_ns(clockid_t clock) noexcept {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(time.tv_nsec);
}

std::string system_error(const char* what) { return std::string(what) + ": " + strerror(errno); }

std::string tls_error() {
  const char* reason = ERR_reason_error_string(ERR_peek_error());
  return std::string("TLS: ") + (reason != nullptr ? reason : "error");
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

extern "C" int select_h2(SSL* /*ssl*/, const unsigned char** out, unsigned char* out_size,
                         const unsigned char* in, unsigned int in_size, void* /*argument*/) {
  static constexpr unsigned char kH2[] = {2, 'h', '2'};
  unsigned char* selected = nullptr;
  if (SSL_select_next_proto(&selected, out_size, kH2, sizeof kH2, in, in_size) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *out = selected;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

void die(const std::string& what) {
  std::fprintf(stderr, "bench: %s\n", what.c_str());
  std::_Exit(1);
}

std::uint64_t now_ns() noexcept { return clock_ns(CLOCK_MONOTONIC); }
std::uint64_t cpu_us() noexcept { return clock_ns(CLOCK_PROCESS_CPUTIME_ID) / 1'000U; }

Flags::Flags(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (!name.starts_with("--")) {
      die("not a flag: " + name);
    }
    values_[name.substr(2)] = argv[i + 1];
  }
  if (argc % 2 == 0) {
    die("every flag has a value");
  }
}

std::string Flags::text(const std::string& name, const std::string& otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? otherwise : found->second;
}

std::uint64_t Flags::number(const std::string& name, std::uint64_t otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? otherwise : std::strtoull(found->second.c_str(), nullptr, 10);
}

// Takes the session over where a connection keeps its tickets.
extern "C" int keep_ticket(SSL* ssl, SSL_SESSION* session) {
  auto* ticket = static_cast<Ticket*>(SSL_get_app_data(ssl));
  if (ticket == nullptr) {
    return 0;
  }
  ticket->reset(session);
  return 1;
}

SSL_CTX* make_tls(bool server, const std::string& certificate, const std::string& key) {
  SSL_CTX* tls = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
  SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION);
  SSL_CTX_set_ciphersuites(tls, "TLS_AES_128_GCM_SHA256");
  SSL_CTX_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(tls, 1);
  SSL_CTX_set_verify(tls, SSL_VERIFY_NONE, nullptr);
  if (!certificate.empty() &&
      (SSL_CTX_use_certificate_chain_file(tls, certificate.c_str()) != 1 ||
       SSL_CTX_use_PrivateKey_file(tls, key.c_str(), SSL_FILETYPE_PEM) != 1)) {
    die("cannot use " + certificate + " and " + key);
  }
  if (server) {
    SSL_CTX_set_alpn_select_cb(tls, select_h2, nullptr);
  } else {
    static constexpr unsigned char kH2[] = {2, 'h', '2'};
    SSL_CTX_set_alpn_protos(tls, kH2, sizeof kH2);
    SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(tls, keep_ticket);
  }
  return tls;
}

int listen_on(std::uint16_t& port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int one = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in address = loopback(port);
  socklen_t size = sizeof address;
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(fd, 4096) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    die(system_error("listen"));
  }
  port = ntohs(address.sin_port);
  return fd;
}

int connect_to(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
      errno != EINPROGRESS) {
    die(system_error("connect"));
  }
  return fd;
}

Poller::Poller(std::function<void(std::string_view)> on_line, std::function<void(int)> on_signal)
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), on_line_(std::move(on_line)) {
  ::prctl(PR_SET_TIMERSLACK, 1000UL);
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGUSR1, SIGTERM, SIGINT}) {
    sigaddset(&set, number);
  }
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  const int signals = ::signalfd(-1, &set, SFD_CLOEXEC);
  signals_ = [signals, on_signal = std::move(on_signal)](std::uint32_t) {
    signalfd_siginfo info{};
    if (::read(signals, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      on_signal(static_cast<int>(info.ssi_signo));
    }
  };
  stdin_ = [this](std::uint32_t) { read_lines(); };
  add(signals, signals_);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &stdin_;
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, STDIN_FILENO, &event);  // refused for a file: no commands
}

void Poller::add(int fd, Ready& ready) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &ready;
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) {
    die(system_error("epoll_ctl"));
  }
}

void Poller::want_write(int fd, Ready& ready, bool on) const {
  epoll_event event{};
  event.events = on ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.ptr = &ready;
  ::epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event);
}

void Poller::read_lines() {
  std::array<char, 4096> buffer;
  const ssize_t count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
  if (count <= 0) {
    ::epoll_ctl(epoll_, EPOLL_CTL_DEL, STDIN_FILENO, nullptr);
    return;
  }
  line_.append(buffer.data(), static_cast<std::size_t>(count));
  for (std::size_t end = line_.find('\n'); end != std::string::npos; end = line_.find('\n')) {
    const std::string line = line_.substr(0, end);
    line_.erase(0, end + 1);
    on_line_(line);
  }
}

void Poller::turn(std::uint64_t timeout) {
  std::array<epoll_event, 256> events;
  const timespec wait{static_cast<time_t>(timeout / 1'000'000'000U),
                      static_cast<long>(timeout % 1'000'000'000U)};
  const int count = ::epoll_pwait2(epoll_, events.data(), events.size(), &wait, nullptr);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    (*static_cast<Ready*>(event.data.ptr))(event.events);
  }
  for (const auto& call : std::exchange(later_, {})) {
    call();
  }
}

Link::Link(Poller& poller, int fd, SSL_CTX* tls, bool server,
           const nghttp2_session_callbacks* callbacks, void* user,
           std::function<void(const std::string&)> on_dead, Ticket* ticket)
    : poller_(poller), fd_(fd), ssl_(SSL_new(tls)), server_(server), on_dead_(std::move(on_dead)) {
  const int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  SSL_set_fd(ssl_, fd);
  if (server) {
    SSL_set_accept_state(ssl_);
    nghttp2_session_server_new(&session_, callbacks, user);
  } else {
    SSL_set_connect_state(ssl_);
    SSL_set_app_data(ssl_, ticket);
    if (ticket != nullptr && *ticket != nullptr) {
      SSL_set_session(ssl_, ticket->get());
    }
    nghttp2_session_client_new(&session_, callbacks, user);
  }
  ready_ = [this](std::uint32_t events) { on_ready(events); };
  poller_.add(fd_, ready_);
}

Link::~Link() {
  nghttp2_session_del(session_);
  SSL_set_shutdown(ssl_, SSL_SENT_SHUTDOWN);  // else OpenSSL forgets the ticket
  SSL_free(ssl_);
  ::close(fd_);
}

void Link::start(std::uint32_t max_streams) {
  std::array<nghttp2_settings_entry, 2> settings = {
      {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, max_streams}, {NGHTTP2_SETTINGS_ENABLE_PUSH, 0}}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), server_ ? 1 : 2);
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
  flush();
}

void Link::dead(const std::string& cause) {
  if (!std::exchange(dead_, true)) {
    poller_.later([this, cause] { on_dead_(cause); });
  }
}

void Link::on_ready(std::uint32_t events) {
  if (dead_) {
    return;
  }
  if ((events & EPOLLOUT) != 0) {
    blocked_ = false;
    poller_.want_write(fd_, ready_, false);
  }
  reading_ = true;
  read();
  reading_ = false;
  flush();
}

void Link::read() {
  static std::array<std::uint8_t, 64 * 1024> buffer;
  while (!dead_) {
    ERR_clear_error();
    const int count = SSL_read(ssl_, buffer.data(), static_cast<int>(buffer.size()));
    if (count <= 0) {
      const int error = SSL_get_error(ssl_, count);
      if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
        dead(error == SSL_ERROR_ZERO_RETURN ? "closed"
             : error == SSL_ERROR_SYSCALL   ? system_error("socket")
                                            : tls_error());
      }
      return;
    }
    const auto used =
        nghttp2_session_mem_recv(session_, buffer.data(), static_cast<std::size_t>(count));
    if (used < 0) {
      dead(nghttp2_strerror(static_cast<int>(used)));
    }
  }
}

bool Link::write_some() {
  while (!unsent_.empty()) {
    ERR_clear_error();
    const int count = SSL_write(ssl_, unsent_.data(), static_cast<int>(unsent_.size()));
    if (count <= 0) {
      const int error = SSL_get_error(ssl_, count);
      if (error == SSL_ERROR_WANT_WRITE) {
        blocked_ = true;
        poller_.want_write(fd_, ready_, true);
      } else if (error != SSL_ERROR_WANT_READ) {
        dead("cannot write");
      }
      return false;
    }
    unsent_.erase(0, static_cast<std::size_t>(count));
  }
  return true;
}

void Link::flush() {
  if (dead_ || blocked_ || reading_) {
    return;
  }
  if (SSL_is_init_finished(ssl_) == 0) {
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_);
    if (result != 1) {
      const int error = SSL_get_error(ssl_, result);
      if (error == SSL_ERROR_WANT_WRITE) {  // not connected yet
        blocked_ = true;
        poller_.want_write(fd_, ready_, true);
      } else if (error != SSL_ERROR_WANT_READ) {
        dead("handshake failed");
      }
      return;
    }
  }
  while (write_some()) {
    while (unsent_.size() < kRecord) {
      const std::uint8_t* data = nullptr;
      const auto count = nghttp2_session_mem_send(session_, &data);
      if (count < 0) {
        dead(nghttp2_strerror(static_cast<int>(count)));
        return;
      }
      if (count == 0) {
        break;
      }
      unsent_.append(reinterpret_cast<const char*>(data), static_cast<std::size_t>(count));
    }
    if (unsent_.empty()) {
      break;
    }
  }
  if (nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0) {
    dead("ended");
  }
}

nghttp2_nv field(std::string_view name, std::string_view value) noexcept {
  return {reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(),
          value.size(), NGHTTP2_NV_FLAG_NONE};
}

std::string_view view(const std::uint8_t* bytes, std::size_t size) noexcept {
  return {reinterpret_cast<const char*>(bytes), size};
}

void submit(nghttp2_session* session, std::span<const nghttp2_nv> fields, Submission& request) {
  nghttp2_data_provider body = {};
  body.source.ptr = &request;
  body.read_callback = [](nghttp2_session* /*session*/, std::int32_t /*id*/, std::uint8_t* buffer,
                          std::size_t size, std::uint32_t* flags, nghttp2_data_source* source,
                          void* /*user*/) {
    Submission& one = *static_cast<Submission*>(source->ptr);
    const std::size_t count = std::min(size, one.body.size() - one.sent);
    std::memcpy(buffer, one.body.data() + one.sent, count);
    one.sent += count;
    if (one.sent == one.body.size()) {
      *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return static_cast<ssize_t>(count);
  };
  if (nghttp2_submit_request(session, nullptr, fields.data(), fields.size(),
                             request.body.empty() ? nullptr : &body, &request) < 0) {
    die("cannot submit a request");
  }
}

void Histogram::add(std::uint64_t value) noexcept {
  const auto width = static_cast<unsigned>(std::bit_width(value));
  const unsigned shift = width > kBits ? width - kBits : 0;
  ++buckets_[(std::size_t{shift} << kBits) + (value >> shift)];
  ++count_;
  max_ = std::max(max_, value);
}

void Histogram::clear() noexcept {
  std::fill(buckets_.begin(), buckets_.end(), 0);
  count_ = max_ = 0;
}

std::uint64_t Histogram::quantile(double q) const noexcept {
  const auto rank = static_cast<std::uint64_t>(q * static_cast<double>(count_));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen > rank) {
      const std::size_t shift = i >> kBits;
      return (i & ((std::size_t{1} << kBits) - 1U)) << shift;
    }
  }
  return max_;
}

}  // namespace kintsugi::bench
