#include "workers/delivery/mqtt/internal/mqtt_bridge.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace kintsugi::workers {
namespace {

constexpr std::size_t kMaxInward = std::size_t{8} << 20, kPiece = 65'536;
constexpr int kRounds = 16;

std::string error_text() { return std::strerror(errno); }  // NOLINT: one thread's

/// A socket that listens at a name of its own in `folder` while it lives.
class Listener {
 public:
  explicit Listener(const std::string& folder) {
    std::string name = folder + "/mqtt-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) {
      return;
    }
    folder_ = name;
    // By way of a descriptor: the name of a socket may have 107 bytes, that of a folder more.
    folder_fd_ = ::open(name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    path_ = "/proc/self/fd/" + std::to_string(folder_fd_) + "/s";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (folder_fd_ < 0) {
      return;
    }
    std::memcpy(address.sun_path, path_.data(), path_.size());
    fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    good_ = fd_ >= 0 &&
            ::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
            ::listen(fd_, 1) == 0;
  }
  ~Listener() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
    if (folder_fd_ >= 0) {
      ::unlink(path_.c_str());
      ::close(folder_fd_);
    }
    ::rmdir(folder_.c_str());
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  [[nodiscard]] bool good() const noexcept { return good_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] int accept() const noexcept {
    return ::accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  }

 private:
  std::string folder_, path_;
  int fd_ = -1, folder_fd_ = -1;
  bool good_ = false;
};

}  // namespace

MqttBridge::MqttBridge(net::Loop& loop, Params params, Callbacks callbacks)
    : loop_(loop),
      params_(std::move(params)),
      callbacks_(std::move(callbacks)),
      bound_(params_.max_packet),
      stream_(loop, params_.to,
              {[this] { callbacks_.on_open(); }, [this](std::string_view bytes) { take(bytes); },
               [this](const std::string& error) {
                 end(error.empty() ? "the broker closed the connection" : error);
               },
               [this] { outward(); }}) {}

MqttBridge::~MqttBridge() {
  if (fd_ >= 0) {
    loop_.forget(fd_);
    ::close(fd_);
  }
}

Expected<void> MqttBridge::join(const std::function<bool(const std::string& path)>& connect) {
  const Listener listener(params_.folder);
  if (!listener.good()) {
    return fail(Errc::kIo, params_.folder + ": " + error_text());
  }
  if (!connect(listener.path())) {
    return fail(Errc::kIo, "the socket was not connected");
  }
  fd_ = listener.accept();
  if (fd_ < 0) {
    return fail(Errc::kIo, "accept: " + error_text());
  }
  loop_.watch(fd_, *this);
  return {};
}

void MqttBridge::on_ready(bool readable, bool writable) noexcept {
  if (writable) {
    write_inward();
  }
  // In a later turn: what came in this one is written down by then.
  if (readable && !std::exchange(posted_, true)) {
    loop_.post(alive_.guard([this] {
      posted_ = false;
      outward();
    }));
  }
}

void MqttBridge::on_hangup() noexcept {
  loop_.post(alive_.guard([this] {
    outward();
    end("the library closed the connection");
  }));
}

void MqttBridge::outward() {
  if (ended_ || fd_ < 0) {
    return;
  }
  if (params_.may_send && !params_.may_send()) {
    return end("what came cannot be written down");
  }
  std::array<char, kPiece> piece;  // NOLINT: is written before it is read
  for (int round = 0; round < kRounds; ++round) {
    if (stream_.queued() > params_.to.max_queued / 2) {
      return;  // on_written comes
    }
    const ssize_t size = ::recv(fd_, piece.data(), piece.size(), 0);
    if (size <= 0) {
      return;
    }
    if (!stream_.write({piece.data(), static_cast<std::size_t>(size)})) {
      return end("the broker takes nothing");
    }
  }
  if (!std::exchange(posted_, true)) {
    loop_.post(alive_.guard([this] {
      posted_ = false;
      outward();
    }));
  }
}

void MqttBridge::take(std::string_view bytes) {
  if (ended_) {
    return;
  }
  if (!bound_.take(bytes)) {
    return end("a packet has more than " + std::to_string(params_.max_packet) + " bytes");
  }
  if (inward_.size() + bytes.size() > kMaxInward) {
    return end("too much waits to be read");
  }
  inward_.append(bytes);
  write_inward();
}

void MqttBridge::write_inward() {
  std::size_t sent = 0;
  while (fd_ >= 0 && sent < inward_.size()) {
    const ssize_t size = ::send(fd_, inward_.data() + sent, inward_.size() - sent, MSG_NOSIGNAL);
    if (size <= 0) {
      break;
    }
    sent += static_cast<std::size_t>(size);
  }
  inward_.erase(0, sent);
}

void MqttBridge::end(const std::string& why) {
  if (!std::exchange(ended_, true)) {
    loop_.post(alive_.guard([this, why] { callbacks_.on_closed(why); }));
  }
}

}  // namespace kintsugi::workers
