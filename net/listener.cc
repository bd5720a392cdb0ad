#include "net/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "net/congestion.h"
#include "net/internal/read_turns.h"
#include "net/internal/server_connection.h"
#include "net/port_claim.h"

namespace kintsugi::net {
namespace {

constexpr int kBacklog = 65'535;  // the kernel's somaxconn bounds it, 4096 by default
constexpr int kAcceptsPerTurn = 64;
/// Of a flush pass, of which a turn has two. At 0.2 ms each, who is connected already waits for
/// them no longer than 2 ms.
constexpr int kHandshakesPerPass = 4;
constexpr auto kPauseWithoutDescriptors = milliseconds(100);
constexpr auto kNewcomersDrain = seconds(1);

union Address {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
  sockaddr_un local;
  sockaddr_storage storage;
};

std::string cause_of(int error) {
  std::string text = std::strerror(error);
  if (!text.empty() && text[0] >= 'A' && text[0] <= 'Z') {
    text[0] = static_cast<char>(text[0] - 'A' + 'a');
  }
  return text;
}

bool is_readable(int fd) noexcept {
  pollfd asked{fd, POLLIN, 0};
  return ::poll(&asked, 1, 0) == 1;
}

void describe(const Address& address, http::PeerInfo& peer) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.any.sa_family == AF_INET) {
    ::inet_ntop(AF_INET, &address.v4.sin_addr, text, sizeof text);
    peer.address = text;
    peer.port = ntohs(address.v4.sin_port);
  } else if (address.any.sa_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &address.v6.sin6_addr, text, sizeof text);
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&address.v6.sin6_addr);
    peer.address = mapped ? std::strrchr(text, ':') + 1 : text;
    peer.port = ntohs(address.v6.sin6_port);
  } else {
    peer.address = "unix";
  }
}

/// The peer of a Unix socket is this user, or root (SE-164).
bool is_ours(int fd) noexcept {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == ::geteuid() || peer.uid == 0);
}

class ListenerImpl final : public Listener,
                           public FdHandler,
                           public ServerConnectionOwner,
                           private Loop::Flushable {
 public:
  ListenerImpl(Loop& loop, ListenerParams params, http::Handler& handler)
      : loop_(loop), params_(std::move(params)), handler_(handler), pause_(loop), crowd_(loop) {}
  ~ListenerImpl() {
    close();
    loop_.unmark_dirty(*this);
  }

  Expected<void> listen();

  std::uint16_t port() const noexcept override { return port_; }
  void set_tls(std::shared_ptr<TlsContext> tls) noexcept override { params_.tls = std::move(tls); }
  void review() noexcept override;
  std::size_t shed_idle(std::size_t most) override;
  void drain(std::function<void()> done) override;
  void close() noexcept override;
  ListenerStats stats() const noexcept override;

  void on_ready(bool readable, bool writable) noexcept override;

  const ListenerParams& params() const noexcept override { return params_; }
  ListenerStats& counters() noexcept override { return totals_; }
  http::Handler& handler() noexcept override { return handler_; }
  ReadTurns& read_turns() noexcept override { return turns_; }
  void on_waiting() noexcept override { loop_.mark_dirty(*this); }
  void on_handshake_bytes(ServerConnection& connection) noexcept override;
  void on_handshake_end(ServerConnection& connection, bool success) noexcept override;
  void on_protocol_error() noexcept override { ++totals_.protocol_errors; }
  void on_connection_end(ServerConnection& connection) noexcept override;

 private:
  void flush() noexcept override;  // a few handshakes, and who waits to be read
  Expected<void> inherit();
  Expected<void> bind_unix();
  Expected<void> bind_tcp();
  Expected<void> learn_port();
  void adopt(int fd, const Address& address);
  void adopt_foreign(int fd);
  bool make_room() noexcept;
  bool answer_without_descriptors() noexcept;
  void stop_accepting() noexcept;
  void report_drained();

  Loop& loop_;
  ListenerParams params_;
  http::Handler& handler_;
  int fd_ = -1;
  int spare_ = -1;  // for one more connection when no descriptor is left
  std::uint16_t port_ = 0;
  bool is_unix_ = false;
  bool waiting_ = false;  // connections may be in the backlog that nobody announces again
  ReadTurns turns_;
  std::vector<std::unique_ptr<ServerConnection>> connections_;
  std::deque<ServerConnection*> ready_;        // their handshakes, in turn
  std::vector<ServerConnection*> handshakes_;  // all that run, the oldest first
  std::function<void()> drained_;
  bool draining_ = false;
  std::shared_ptr<ListenerGroup::Member> member_;  // null: no group
  PortClaim claim_;
  Timer pause_, crowd_;
  ListenerStats totals_;  // of what has ended, and the counters
};

Expected<void> ListenerImpl::listen() {
  const bool inherits = params_.inherited >= 0;
  is_unix_ = !inherits && !params_.address.empty() && params_.address.front() == '/';
  Expected<void> bound = inherits ? inherit() : is_unix_ ? bind_unix() : bind_tcp();
  if (!bound) {
    return bound;
  }
  if (::listen(fd_, kBacklog) != 0) {
    return fail(Errc::kIo, params_.address + ": " + cause_of(errno));
  }
  const int on = 1;
  if (!is_unix_ && !inherits && params_.reuse_port &&
      ::setsockopt(fd_, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0) {
    return fail(Errc::kIo, params_.address + ": " + cause_of(errno));
  }
  loop_.watch(fd_, *this);
  spare_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (params_.group != nullptr) {
    member_ = params_.group->join(loop_);
    member_->adopt = [this](int fd) { adopt_foreign(fd); };
  }
  return {};
}

Expected<void> ListenerImpl::inherit() {
  fd_ = ::fcntl(params_.inherited, F_DUPFD_CLOEXEC, 0);
  return fd_ < 0 ? fail(Errc::kIo, "inherited socket: " + cause_of(errno)) : learn_port();
}

Expected<void> ListenerImpl::learn_port() {
  Address address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd_, &address.any, &size) != 0) {
    return fail(Errc::kIo, params_.address + ": " + cause_of(errno));
  }
  port_ = ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
  return {};
}

Expected<void> ListenerImpl::bind_unix() {
  Address address{};
  address.local.sun_family = AF_UNIX;
  const std::string& path = params_.address;
  if (path.size() >= sizeof address.local.sun_path) {
    return fail(Errc::kConfig, path + ": path is too long for a Unix socket");
  }
  std::memcpy(address.local.sun_path, path.data(), path.size());
  fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd_ < 0) {
    return fail(Errc::kIo, path + ": " + cause_of(errno));
  }
  struct stat file {};
  if (::lstat(path.c_str(), &file) == 0 && S_ISSOCK(file.st_mode)) {
    // Left behind by a process that died? Only then nobody answers.
    const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const bool dead = probe >= 0 && ::connect(probe, &address.any, sizeof address.local) != 0 &&
                      errno == ECONNREFUSED;
    if (probe >= 0) {
      ::close(probe);
    }
    if (dead) {
      ::unlink(path.c_str());
    }
  }
  if (::bind(fd_, &address.any, sizeof address.local) != 0) {
    return fail(Errc::kIo, path + ": " + cause_of(errno));
  }
  if (::chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0) {
    return fail(Errc::kIo, path + ": " + cause_of(errno));
  }
  return {};
}

Expected<void> ListenerImpl::bind_tcp() {
  const std::string where = params_.address + ":" + std::to_string(params_.port);
  Address address{};
  socklen_t size = sizeof address.v4;
  if (::inet_pton(AF_INET, params_.address.c_str(), &address.v4.sin_addr) == 1) {
    address.v4.sin_family = AF_INET;
    address.v4.sin_port = htons(params_.port);
  } else if (::inet_pton(AF_INET6, params_.address.c_str(), &address.v6.sin6_addr) == 1) {
    address.v6.sin6_family = AF_INET6;
    address.v6.sin6_port = htons(params_.port);
    size = sizeof address.v6;
  } else {
    return fail(Errc::kConfig, where + ": not an IP address");
  }
  fd_ = ::socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd_ < 0) {
    return fail(Errc::kIo, where + ": " + cause_of(errno));
  }
  const int on = 1;
  (void)::setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool joins = params_.reuse_port && PortClaim::joins(params_.address, params_.port);
  if (joins && ::setsockopt(fd_, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0) {
    return fail(Errc::kIo, where + ": " + cause_of(errno));
  }
  if (::bind(fd_, &address.any, size) != 0) {
    return fail(Errc::kIo, where + ": " + cause_of(errno));
  }
  if (auto known = learn_port(); !known) {
    return known;
  }
  claim_.take(params_.address, port_);
  return {};
}

void ListenerImpl::on_ready(bool /*readable*/, bool /*writable*/) noexcept {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    if (fd_ < 0) {
      return;
    }
    if (params_.tls != nullptr && totals_.handshakes >= params_.max_handshakes && !make_room()) {
      waiting_ = true;  // on_handshake_end() comes back here
      return;
    }
    Address address{};
    socklen_t size = sizeof address;
    const int fd = ::accept4(fd_, &address.any, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      const bool may_go = member_ != nullptr && !draining_;
      const auto better = may_go ? params_.group->better_than(*member_) : nullptr;
      if (better != nullptr) {
        ++totals_.handed_over;
        ListenerGroup::hand_over(better, fd);
      } else {
        adopt(fd, address);
      }
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    }
    if (errno == EMFILE && answer_without_descriptors()) {
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      log_warn("cannot accept connections for a moment",
               {{"address", params_.address}, {"cause", cause_of(errno)}});
      pause_.start(kPauseWithoutDescriptors, [this] { on_ready(true, false); });
      return;
    }
    // ECONNABORTED and the network errors of accept(2) belong to one connection only.
  }
  loop_.read_again(fd_);
}

/// One of those in the backlog is told at once that there is no room for it, with the descriptor
/// that is kept for that (SE-092). False: others have to wait.
bool ListenerImpl::answer_without_descriptors() noexcept {
  if (spare_ < 0) {
    return false;
  }
  ::close(spare_);
  const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  const int failure = errno;
  if (fd >= 0) {
    ::close(fd);
    ++totals_.without_descriptor;
  }
  spare_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  errno = failure;
  return fd >= 0;
}

/// Ends the oldest handshake that waits for its peer, if it has had its time and somebody waits for
/// its place. Else this is looked at again as soon as one may have had it.
bool ListenerImpl::make_room() noexcept {
  const TimePoint latest = loop_.now() - params_.crowded_handshake_timeout;
  const ServerConnection& oldest = *handshakes_.front();
  crowd_.start(std::max<Duration>(oldest.accepted_at - latest, milliseconds(100)),
               [this] { on_ready(true, false); });
  if (oldest.accepted_at > latest || !is_readable(fd_)) {
    return false;
  }
  for (ServerConnection* const connection : handshakes_) {
    if (connection->accepted_at > latest) {
      return false;
    }
    // What has come may not have been announced yet, if this loop is the one that is slow.
    if (!connection->waits && !is_readable(connection->transport().fd())) {
      connection->give_up();
      return totals_.handshakes < params_.max_handshakes;
    }
  }
  return false;
}

void ListenerImpl::adopt_foreign(int fd) {
  Address address{};
  socklen_t size = sizeof address;
  if (::getpeername(fd, &address.any, &size) != 0) {
    ::close(fd);  // gone already
    return;
  }
  adopt(fd, address);
}

void ListenerImpl::adopt(int fd, const Address& address) {
  ++totals_.accepted;
  http::PeerInfo peer;
  describe(address, peer);
  if (!is_unix_) {
    tune_tcp(fd);
    suit_congestion(fd);
  } else if (!is_ours(fd)) {
    ++totals_.handshake_errors;
    ::close(fd);
    return;
  }
  auto place = params_.book == nullptr ? nullptr : std::make_unique<ConnectionBook::Place>();
  if (place != nullptr && !params_.book->admit(*place, peer.address, loop_.now())) {
    ::close(fd);
    return;
  }
  SslPtr ssl;
  if (params_.tls != nullptr) {
    ssl.reset(SSL_new(params_.tls->native()));
    if (ssl == nullptr) {
      ERR_clear_error();
      ++totals_.handshake_errors;
      ::close(fd);
      return;
    }
    SSL_set_accept_state(ssl.get());
    ++totals_.handshakes;
  }
  auto made = std::make_unique<ServerConnection>(loop_, fd, *this, std::move(peer));
  ServerConnection& connection = *made;
  connection.place = std::move(place);
  connection.index = connections_.size();
  connections_.push_back(std::move(made));
  if (member_ != nullptr) {
    member_->connections.fetch_add(1, std::memory_order_relaxed);
  }
  if (ssl != nullptr) {
    handshakes_.push_back(&connection);
  }
  connection.start(std::move(ssl));
}

void ListenerImpl::on_handshake_bytes(ServerConnection& connection) noexcept {
  if (!std::exchange(connection.waits, true)) {
    ready_.push_back(&connection);
  }
  loop_.mark_dirty(*this);
}

void ListenerImpl::flush() noexcept {
  for (int i = 0; i < kHandshakesPerPass && !ready_.empty(); ++i) {
    ServerConnection& connection = *ready_.front();
    ready_.pop_front();
    connection.waits = false;
    connection.go_on();
  }
  while (ReadTurns::Reader* const reader = turns_.next(loop_.now())) {
    static_cast<ServerConnection*>(reader)->go_on();
  }
  if (!ready_.empty() || turns_.has_waiting()) {
    loop_.mark_dirty(*this);
  }
}

void ListenerImpl::on_handshake_end(ServerConnection& connection, bool success) noexcept {
  --totals_.handshakes;
  std::erase(handshakes_, &connection);
  if (!success) {
    ++totals_.handshake_errors;
  }
  if (waiting_) {
    waiting_ = false;
    loop_.read_again(fd_);
  }
}

void ListenerImpl::on_connection_end(ServerConnection& connection) noexcept {
  totals_.bytes_in += connection.transport().bytes_in();
  totals_.bytes_out += connection.transport().bytes_out();
  connection.place.reset();
  turns_.leave(connection);
  if (connection.waits) {
    std::erase(ready_, &connection);
  }
  const std::size_t index = connection.index;
  std::shared_ptr<ServerConnection> dead(std::move(connections_[index]));
  if (index + 1 != connections_.size()) {
    connections_[index] = std::move(connections_.back());
    connections_[index]->index = index;
  }
  connections_.pop_back();
  if (member_ != nullptr) {
    member_->connections.fetch_sub(1, std::memory_order_relaxed);
  }
  dead->abandon();
  loop_.defer([dead] {});
  if (draining_ && connections_.empty()) {
    report_drained();
  }
}

void ListenerImpl::report_drained() {
  if (drained_) {
    loop_.defer(std::exchange(drained_, nullptr));
  }
}

void ListenerImpl::stop_accepting() noexcept {
  pause_.cancel();
  crowd_.cancel();
  if (member_ != nullptr) {
    member_->open.store(false, std::memory_order_relaxed);
    member_->adopt = nullptr;
  }
  if (fd_ < 0) {
    return;
  }
  loop_.forget(fd_);
  ::close(fd_);
  fd_ = -1;
  if (spare_ >= 0) {
    ::close(std::exchange(spare_, -1));
  }
  if (is_unix_) {
    ::unlink(params_.address.c_str());
  }
}

void ListenerImpl::review() noexcept {
  for (std::size_t i = connections_.size(); i-- > 0;) {
    connections_[i]->review();
  }
}

std::size_t ListenerImpl::shed_idle(std::size_t most) {
  std::map<std::string, std::vector<ServerConnection*>> idle;
  for (const auto& connection : connections_) {
    if (connection->is_idle() && !connection->is_exempt()) {
      idle[connection->payer()].push_back(connection.get());
    }
  }
  std::vector<std::vector<ServerConnection*>*> owners;
  for (auto& [payer, all] : idle) {
    owners.push_back(&all);
  }
  std::stable_sort(owners.begin(), owners.end(),
                   [](const auto* a, const auto* b) { return a->size() > b->size(); });
  std::size_t ended = 0;
  for (const auto* all : owners) {
    for (ServerConnection* const connection : *all) {
      if (ended == most) {
        return ended;
      }
      connection->drain();
      ++ended;
    }
  }
  return ended;
}

/// Who has connected and not asked yet is no one to be closed on: a server that takes over on this
/// port gets those that come from now on (GR-212).
void ListenerImpl::drain(std::function<void()> done) {
  draining_ = true;
  drained_ = std::move(done);
  on_ready(true, false);
  stop_accepting();
  bool has_newcomers = false;
  for (std::size_t i = connections_.size(); i-- > 0;) {
    if (connections_[i]->has_asked()) {
      connections_[i]->drain();
    } else {
      has_newcomers = true;
    }
  }
  if (has_newcomers) {
    crowd_.start(kNewcomersDrain, [this] {
      for (std::size_t i = connections_.size(); i-- > 0;) {
        connections_[i]->drain();
      }
    });
  }
  if (connections_.empty()) {
    report_drained();
  }
}

void ListenerImpl::close() noexcept {
  stop_accepting();
  while (!connections_.empty()) {
    connections_.back()->shut(Errc::kClosed);
  }
}

ListenerStats ListenerImpl::stats() const noexcept {
  ListenerStats result = totals_;
  result.connections = connections_.size();
  for (const auto& connection : connections_) {
    result.streams += connection->stream_count();
    result.bytes_in += connection->transport().bytes_in();
    result.bytes_out += connection->transport().bytes_out();
    result.largest_queue = std::max(result.largest_queue, connection->transport().held());
  }
  return result;
}

}  // namespace

Expected<std::unique_ptr<Listener>> Listener::open(Loop& loop, ListenerParams params,
                                                   http::Handler& handler) {
  auto listener = std::make_unique<ListenerImpl>(loop, std::move(params), handler);
  if (Expected<void> listening = listener->listen(); !listening) {
    return fail(std::move(listening).error());
  }
  return listener;
}

}  // namespace kintsugi::net
