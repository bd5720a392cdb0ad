#pragma once

#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>
#include <sys/epoll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// What the bench tools share: HTTP/2 over TLS on one epoll, one thread. A fault ends the tool.
namespace kintsugi::bench {

/// Prints one line to stderr and ends with 1.
[[noreturn]] void die(const std::string& what);

/// CLOCK_MONOTONIC [ns]; the same clock in every process of the machine.
[[nodiscard]] std::uint64_t now_ns() noexcept;
/// CPU that this process has used [µs].
[[nodiscard]] std::uint64_t cpu_us() noexcept;

/// `--name value` pairs.
class Flags {
 public:
  Flags(int argc, char** argv);
  [[nodiscard]] std::string text(const std::string& name, const std::string& otherwise) const;
  [[nodiscard]] std::uint64_t number(const std::string& name, std::uint64_t otherwise) const;

 private:
  std::map<std::string, std::string> values_;
};

struct SessionDeleter {
  void operator()(SSL_SESSION* session) const noexcept { SSL_SESSION_free(session); }
};
/// The newest session ticket of a client connection, for the next one.
using Ticket = std::unique_ptr<SSL_SESSION, SessionDeleter>;

/// TLS 1.3 with TLS_AES_128_GCM_SHA256 and nothing else. Empty `certificate`: none (clients).
[[nodiscard]] SSL_CTX* make_tls(bool server, const std::string& certificate,
                                const std::string& key);
/// Listens on 127.0.0.1; `port` 0 becomes the port that was chosen.
[[nodiscard]] int listen_on(std::uint16_t& port);
/// Connects to 127.0.0.1; the descriptor is non-blocking.
[[nodiscard]] int connect_to(std::uint16_t port);

/// epoll, the lines of stdin and the signals of one tool.
class Poller {
 public:
  using Ready = std::function<void(std::uint32_t events)>;

  /// `on_line` gets each line of stdin; `on_signal` gets SIGUSR1, SIGTERM and SIGINT.
  Poller(std::function<void(std::string_view)> on_line, std::function<void(int)> on_signal);
  /// `ready` must live until remove() or the descriptor is closed.
  void add(int fd, Ready& ready) const;
  void want_write(int fd, Ready& ready, bool on) const;
  /// Waits at most `timeout` [ns], runs what is ready, then `pending` calls of later().
  void turn(std::uint64_t timeout);
  /// Runs after the events of this turn; for destroying what is being called.
  void later(std::function<void()> call) { later_.push_back(std::move(call)); }

 private:
  void read_lines();

  int epoll_;
  std::function<void(std::string_view)> on_line_;
  std::string line_;
  Ready stdin_, signals_;
  std::vector<std::function<void()>> later_;
};

/// One connection: socket, TLS, nghttp2 session. `user` is the user data of the callbacks. A client
/// resumes `ticket`, if there is one, and keeps new ones there; it must outlive the connection.
class Link {
 public:
  Link(Poller& poller, int fd, SSL_CTX* tls, bool server,
       const nghttp2_session_callbacks* callbacks, void* user,
       std::function<void(const std::string& cause)> on_dead, Ticket* ticket = nullptr);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  [[nodiscard]] nghttp2_session* session() const noexcept { return session_; }
  /// Whether TLS was resumed.
  [[nodiscard]] bool resumed() const noexcept { return SSL_session_reused(ssl_) == 1; }
  /// Sends SETTINGS and a large connection window. To be called once.
  void start(std::uint32_t max_streams);
  /// Writes what the session has, as far as the socket takes it.
  void flush();

 private:
  void on_ready(std::uint32_t events);
  void read();
  [[nodiscard]] bool write_some();
  void dead(const std::string& cause);

  Poller& poller_;
  int fd_;
  SSL* ssl_;
  bool server_;
  bool reading_ = false;
  bool blocked_ = false;
  bool dead_ = false;
  nghttp2_session* session_ = nullptr;
  std::string unsent_;
  std::function<void(const std::string&)> on_dead_;
  Poller::Ready ready_;
};

/// A field for nghttp2_submit_*; the views must live until the call returns.
[[nodiscard]] nghttp2_nv field(std::string_view name, std::string_view value) noexcept;
[[nodiscard]] std::string_view view(const std::uint8_t* bytes, std::size_t size) noexcept;

/// A request of a client: the user data of its stream, for tools that add what they count.
struct Submission {
  std::string path, body;
  std::size_t sent = 0;  ///< of the body
};
/// Opens the stream. `request` must live until that is closed.
void submit(nghttp2_session* session, std::span<const nghttp2_nv> fields, Submission& request);
/// What was submitted as a stream. @tparam Request a Submission
template <class Request>
[[nodiscard]] Request& request_of(nghttp2_session* session, std::int32_t id) noexcept {
  return static_cast<Request&>(
      *static_cast<Submission*>(nghttp2_session_get_stream_user_data(session, id)));
}

/// Values in log-linear buckets, at most 1.6 % wide.
class Histogram {
 public:
  void add(std::uint64_t value) noexcept;
  void clear() noexcept;
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] std::uint64_t quantile(double q) const noexcept;
  [[nodiscard]] std::uint64_t max() const noexcept { return max_; }

 private:
  static constexpr unsigned kBits = 6;
  std::vector<std::uint64_t> buckets_ = std::vector<std::uint64_t>((64 - kBits + 1) << kBits);
  std::uint64_t count_ = 0, max_ = 0;
};

}  // namespace kintsugi::bench
