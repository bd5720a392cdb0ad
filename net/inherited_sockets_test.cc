#include "net/inherited_sockets.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>

namespace kintsugi::net {
namespace {

constexpr int kFine = 0, kWrong = 1;

int listening_socket() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd, 8) != 0) {
    ::_exit(kWrong);
  }
  return fd;
}

/// In a process of its own with these descriptors from 3 on: whether `holds`.
bool in_child(const std::vector<std::function<int()>>& make, bool is_for_it,
              const std::function<bool()>& holds) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (std::size_t i = 0; i < make.size(); ++i) {
      const int made = make[i]();
      const int wanted = 3 + static_cast<int>(i);
      if (made != wanted && ::dup2(made, wanted) != wanted) {
        ::_exit(kWrong);
      }
    }
    const pid_t named = is_for_it ? ::getpid() : ::getppid();
    ::setenv("LISTEN_PID", std::to_string(named).c_str(), 1);
    ::setenv("LISTEN_FDS", std::to_string(make.size()).c_str(), 1);
    ::_exit(holds() ? kFine : kWrong);
  }
  int status = -1;
  return ::waitpid(child, &status, 0) == child && status == kFine;
}

TEST(InheritedSockets, WhenTheyAreForThisProcess_OP_211_TheyAreItsOwn) {
  EXPECT_TRUE(in_child({listening_socket, listening_socket}, true, [] {
    const auto taken = take_inherited_sockets();
    return taken && *taken == std::vector<int>{3, 4} && ::fcntl(3, F_GETFD) == FD_CLOEXEC &&
           (::fcntl(4, F_GETFL) & O_NONBLOCK) != 0 && std::getenv("LISTEN_FDS") == nullptr &&
           bound_address(3) == "127.0.0.1:" + std::to_string(bound_port(3)) && bound_port(3) != 0 &&
           inherited_descriptors() == 0;
  }));
}

TEST(InheritedSockets, WhenTheyAreForAnother_OP_211_NoneIsTaken) {
  EXPECT_TRUE(in_child({listening_socket}, false, [] {
    const bool none = inherited_descriptors() == 0;
    const auto taken = take_inherited_sockets();
    return none && taken && taken->empty() && std::getenv("LISTEN_PID") == nullptr;
  }));
}

TEST(InheritedSockets, WhenOneDoesNotListen_OP_211_ItIsNamed) {
  const auto unbound = [] { return ::socket(AF_INET, SOCK_STREAM, 0); };
  const auto file = [] { return ::open("/dev/null", O_RDONLY); };
  for (const std::function<int()>& wrong :
       {std::function<int()>(unbound), std::function<int()>(file)}) {
    EXPECT_TRUE(in_child({listening_socket, wrong}, true, [] {
      const auto taken = take_inherited_sockets();
      return !taken &&
             taken.error().message() == "LISTEN_FDS: descriptor 4 is no TCP socket that listens";
    }));
  }
}

}  // namespace
}  // namespace kintsugi::net
