#include "net/service_notices.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/time.h"

namespace kintsugi::net {
namespace {

/// What a service manager listens with.
class Manager {
 public:
  explicit Manager(std::string address) : address_(std::move(address)) {
    fd_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::memcpy(at.sun_path, address_.data(), address_.size());
    if (at.sun_path[0] == '@') {
      at.sun_path[0] = '\0';
    }
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
    EXPECT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&at), size), 0) << address_;
  }
  ~Manager() {
    ::close(fd_);
    if (address_[0] == '/') {
      ::unlink(address_.c_str());
    }
  }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  std::vector<std::string> read() const {
    std::vector<std::string> out;
    char buffer[4096];
    for (ssize_t n = ::recv(fd_, buffer, sizeof(buffer), 0); n >= 0;
         n = ::recv(fd_, buffer, sizeof(buffer), 0)) {
      out.emplace_back(buffer, static_cast<std::size_t>(n));
    }
    return out;
  }

 private:
  std::string address_;
  int fd_;
};

std::string address(const char* kind) {
  const std::string name = "kintsugi-notices-" + std::to_string(::getpid()) + "-" + kind;
  return kind[0] == '@' ? "@" + name.substr(0, name.size() - 1) : ::testing::TempDir() + name;
}

std::string pid() { return std::to_string(::getpid()); }

TEST(ServiceNotices, WhenThereIsASocket_OP_204_EachChangeIsOneMessage) {
  for (const char* kind : {"path", "@"}) {
    const std::string at = address(kind);
    const Manager manager(at);
    ServiceNotices notices({at, seconds(30)});
    notices.extend(seconds(2));
    notices.status("waits: root\nis away");
    notices.status("waits: root\nis away");
    notices.ready("ready");
    notices.status("ready");
    notices.reloading(std::chrono::microseconds(17));
    notices.ready("ready");
    notices.alive();
    notices.stopping();
    const std::vector<std::string> wanted = {"EXTEND_TIMEOUT_USEC=2000000",
                                             "STATUS=waits: root is away",
                                             "READY=1\nMAINPID=" + pid() + "\nSTATUS=ready",
                                             "RELOADING=1\nMONOTONIC_USEC=17",
                                             "READY=1\nMAINPID=" + pid() + "\nSTATUS=ready",
                                             "WATCHDOG=1",
                                             "STOPPING=1\nSTATUS=stops"};
    EXPECT_EQ(manager.read(), wanted) << kind;
    EXPECT_EQ(notices.alive_every(), seconds(10));
  }
}

TEST(ServiceNotices, WhenTheSocketIsFull_OP_T202_NothingWaitsAndChangesComeLaterInOrder) {
  const std::string at = address("full");
  const Manager manager(at);
  ServiceNotices notices({at, {}});
  for (int i = 0; i < 2000; ++i) {  // more than any queue of datagrams has room for
    notices.alive();
  }
  notices.status("first");
  notices.status("second");
  notices.alive();  // lost: a sign of life is of its moment
  for (const std::string& one : manager.read()) {
    ASSERT_EQ(one, "WATCHDOG=1");
  }
  notices.stopping();
  EXPECT_EQ(manager.read(), (std::vector<std::string>{"STATUS=first", "STATUS=second",
                                                      "STOPPING=1\nSTATUS=stops"}));
}

TEST(ServiceNotices, WhenNobodyReadsForLong_OP_T202_TheNewestEightAreKept) {
  const std::string at = address("long");
  const Manager manager(at);
  ServiceNotices notices({at, {}});
  for (int i = 0; i < 2000; ++i) {
    notices.alive();
  }
  for (int i = 0; i < 20; ++i) {
    notices.status(std::to_string(i));
  }
  (void)manager.read();
  notices.ready("20");
  const std::vector<std::string> told = manager.read();
  ASSERT_EQ(told.size(), 9U);
  EXPECT_EQ(told.front(), "STATUS=12");
}

TEST(ServiceNotices, WhenTheSocketIsBadOrGone_OP_T202_NothingHappens) {
  for (const char* at : {"", "/", "@", "relative", "/nowhere/at/all", "@nobody-listens-here"}) {
    ServiceNotices notices({at, {}});
    notices.ready("ready");
    notices.stopping();
  }
  const std::string at = address("gone");
  ServiceNotices notices({at, {}});
  {
    const Manager manager(at);
    notices.status("one");
    EXPECT_EQ(manager.read().size(), 1U);
  }
  notices.status("two");
  const Manager manager(at);
  notices.status("three");
  EXPECT_EQ(manager.read(), std::vector<std::string>{"STATUS=three"});
}

TEST(ServiceEnvironment, WhenItIsTaken_OP_205_ChildrenDoNotInheritIt) {
  ::setenv("NOTIFY_SOCKET", "/run/notify", 1);
  ::setenv("WATCHDOG_USEC", "30000000", 1);
  ::setenv("WATCHDOG_PID", pid().c_str(), 1);
  const ServiceEnvironment all = take_service_environment();
  EXPECT_EQ(all.socket, "/run/notify");
  EXPECT_EQ(all.watchdog, seconds(30));
  EXPECT_EQ(std::getenv("NOTIFY_SOCKET"), nullptr);
  EXPECT_EQ(std::getenv("WATCHDOG_USEC"), nullptr);
  EXPECT_EQ(std::getenv("WATCHDOG_PID"), nullptr);
  EXPECT_TRUE(take_service_environment().socket.empty());
}

TEST(ServiceEnvironment, WhenItIsMeantForOthersOrWrong_OP_T202_ItIsIgnored) {
  struct Case {
    const char *socket, *every, *whose;
    bool has_socket, has_watchdog;
  };
  const std::string other = std::to_string(::getppid());
  const std::string longest = "/" + std::string(200, 'x');
  for (const Case& one :
       {Case{"relative", "30000000", "", false, false}, Case{"/run/notify", "x", "", true, false},
        Case{"/run/notify", "30000000", other.c_str(), true, false},
        Case{longest.c_str(), "1", "", false, false}, Case{"@abstract", "5", "", true, true}}) {
    ::setenv("NOTIFY_SOCKET", one.socket, 1);
    ::setenv("WATCHDOG_USEC", one.every, 1);
    ::setenv("WATCHDOG_PID", one.whose, 1);
    const ServiceEnvironment found = take_service_environment();
    EXPECT_EQ(!found.socket.empty(), one.has_socket) << one.socket;
    EXPECT_EQ(found.watchdog > Duration{0}, one.has_watchdog) << one.every;
  }
}

}  // namespace
}  // namespace kintsugi::net
