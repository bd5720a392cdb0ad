#include "cmd/kintsugi/admin_client.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/strings.h"
#include "base/time.h"

namespace kintsugi::cmd {
namespace {

constexpr const char* kUsual[] = {".kintsugi/run/admin.sock", "/run/kintsugi/proxy/admin.sock"};
constexpr std::size_t kLargest = std::size_t{256} << 20U;
constexpr std::int64_t kPatience = 10;  // [s]

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

Error nobody(const std::string& socket, int cause) {
  return Error(Errc::kUnreachable,
               "no proxy answers at " + socket + " (" + std::generic_category().message(cause) +
                   "); is one running? `kintsugi up` starts one, --admin says where it listens");
}

Expected<std::string> exchange(const std::string& path, const std::string& method,
                               const std::string& target, std::int64_t patience = kPatience) {
  const TimePoint end = Clock::now() + seconds(patience);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return fail(Errc::kConfig, path + ": is too long for a Unix socket");
  }
  std::copy(path.begin(), path.end(), address.sun_path);
  const Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval each{static_cast<time_t>(patience), 0};
  (void)::setsockopt(socket.fd(), SOL_SOCKET, SO_RCVTIMEO, &each, sizeof each);
  (void)::setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &each, sizeof each);
  if (socket.fd() < 0 ||
      ::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return fail(nobody(path, errno));
  }
  const std::string request =
      method + " " + target + " HTTP/1.0\r\nHost: admin\r\nContent-Length: 0\r\n\r\n";
  if (::send(socket.fd(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size())) {
    return fail(nobody(path, errno));
  }
  std::string answer;
  char part[65'536];
  while (true) {
    const ssize_t got = ::recv(socket.fd(), part, sizeof part, 0);
    if (got == 0) {
      return answer;
    }
    if (got < 0 && errno != EINTR) {
      return fail(nobody(path, errno == EAGAIN ? ETIMEDOUT : errno));
    }
    if (Clock::now() > end) {
      return fail(nobody(path, ETIMEDOUT));
    }
    answer.append(part, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (answer.size() > kLargest) {
      return fail(Errc::kInternal, path + ": the answer is too long");
    }
  }
}

}  // namespace

std::string admin_socket(const std::string& named) {
  if (!named.empty()) {
    return named;
  }
  if (const char* set = std::getenv("KINTSUGI_ADMIN"); set != nullptr && *set != '\0') {
    return set;
  }
  for (const char* usual : kUsual) {
    if (::access(usual, F_OK) == 0) {
      return usual;
    }
  }
  return kUsual[0];
}

Expected<std::map<std::string, std::string>> process_sockets(const std::string& admin,
                                                             const std::string& process) {
  constexpr std::string_view kBegin = "admin-", kEnd = ".sock";
  const std::filesystem::path folder = std::filesystem::path(admin).parent_path();
  std::map<std::string, std::string> found;
  std::error_code fault;
  for (const auto& entry : std::filesystem::directory_iterator(
           folder.empty() ? std::filesystem::path(".") : folder, fault)) {
    const std::string file = entry.path().filename();
    std::string name = file == "admin.sock" ? "proxy" : "";
    if (file.starts_with(kBegin) && file.ends_with(kEnd)) {
      name = file.substr(kBegin.size(), file.size() - kBegin.size() - kEnd.size());
    }
    if (!name.empty() && (process == "all" || process == name)) {
      found[name] = entry.path();
    }
  }
  if (found.empty()) {
    return fail(Errc::kNotFound, "no process " + (process == "all" ? "" : process + " ") +
                                     "has a socket in " + folder.string());
  }
  return found;
}

Expected<AdminAnswer> get_admin(const std::string& socket, const std::string& target,
                                std::int64_t patience) {
  auto answer = exchange(socket, "GET", target, patience);
  if (!answer) {
    return fail(std::move(answer.error()));
  }
  const std::string_view text = *answer;
  constexpr std::string_view kBegin = "HTTP/1.1 ";
  const std::size_t end = text.find("\r\n\r\n");
  const auto status = text.starts_with(kBegin) && end != std::string_view::npos
                          ? parse_decimal<int>(text.substr(kBegin.size(), 3))
                          : std::nullopt;
  if (!status) {
    return fail(Errc::kInternal, socket + ": what answers there is no process of kintsugi");
  }
  return AdminAnswer{*status, std::string(text.substr(end + 4))};
}

Flag admin_flag(std::string& target) {
  return {"admin", "SOCKET", "$KINTSUGI_ADMIN, .kintsugi/run/admin.sock",
          "Unix socket where the proxy is asked", into(target)};
}

Expected<krm::Json> ask_admin(const std::string& socket, const std::string& target,
                              const std::string& method) {
  auto answer = exchange(socket, method, target);
  if (!answer) {
    return fail(std::move(answer.error()));
  }
  const std::string_view text = *answer;
  const std::size_t end = text.find("\r\n\r\n");
  constexpr std::string_view kFine = "HTTP/1.1 200 ";
  if (end == std::string_view::npos) {
    return fail(Errc::kInternal, socket + ": the answer broke off");
  }
  const std::string_view body = text.substr(end + 4);
  if (!text.starts_with(kFine)) {
    return fail(Errc::kInternal, socket + ": " + std::string(trim(body)));
  }
  auto document = krm::Json::parse(body);
  if (!document) {
    return fail(Errc::kInternal, socket + ": what answers there is no admin listener of a proxy");
  }
  return document;
}

}  // namespace kintsugi::cmd
