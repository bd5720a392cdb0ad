#include "server/confinement.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

namespace kintsugi::server {
namespace {

/// What becomes of a process that does `work` in the sandbox: its exit status, or minus the signal.
int outcome(const std::function<int()>& work) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::_exit(!confine({}) || !enter_sandbox({}) ? 99 : work());
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/// What `call` failed with, 0 when it did not.
int refusal(long result) { return result < 0 ? errno : 0; }

class Confinements : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers make system calls of their own";
#endif
  }
};

TEST_F(Confinements, SE_T082_WhatOnlyAnIntruderDoesEndsTheProcess) {
  struct Case {
    const char* name;
    std::function<int()> work;
  };
  const Case cases[] = {
      {"execve", [] { return ::execl("/bin/true", "true", nullptr); }},
      {"execveat",
       [] { return static_cast<int>(::syscall(SYS_execveat, 3, "", nullptr, nullptr, 0)); }},
      {"vfork", [] { return static_cast<int>(::syscall(SYS_vfork)); }},
      {"ptrace", [] { return static_cast<int>(::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr)); }},
      {"unshare", [] { return ::unshare(CLONE_NEWUSER); }},
      {"mount", [] { return ::mount("none", "/mnt", "tmpfs", 0, nullptr); }},
      {"setuid", [] { return ::setuid(0); }},
      {"memfd_create", [] { return ::memfd_create("x", 0); }},
      {"bpf", [] { return static_cast<int>(::syscall(SYS_bpf, 0, nullptr, 0)); }},
      {"io_uring_setup",
       [] { return static_cast<int>(::syscall(SYS_io_uring_setup, 1, nullptr)); }},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(outcome(one.work), -SIGSYS) << one.name;
  }
}

TEST_F(Confinements, SE_185_WhatIsNotListedFails) {
  const auto executable = [](int flags) {
    void* const page = ::mmap(nullptr, 4096, flags, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return page == MAP_FAILED ? errno : 0;
  };
  EXPECT_EQ(outcome([&] { return executable(PROT_READ | PROT_EXEC); }), EPERM);
  EXPECT_EQ(outcome([&] { return executable(PROT_READ | PROT_WRITE); }), 0);
  EXPECT_EQ(outcome([] {
              void* const page =
                  ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
              return refusal(::mprotect(page, 4096, PROT_READ | PROT_EXEC));
            }),
            EPERM);
  EXPECT_EQ(outcome([] { return refusal(::socket(AF_PACKET, SOCK_RAW, 0)); }), EPERM);
  EXPECT_EQ(outcome([] { return refusal(::kill(::getppid(), SIGTERM)); }), EPERM);
  EXPECT_EQ(outcome([] { return refusal(::fork()); }), EPERM);  // by clone
  EXPECT_EQ(outcome([] {
              timex none{};
              return refusal(::adjtimex(&none));
            }),
            EPERM);
}

TEST_F(Confinements, SE_185_WhatAServerDoesGoesOn) {
  EXPECT_EQ(outcome([] {
              const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
              sockaddr_in address{};
              address.sin_family = AF_INET;
              address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
              socklen_t size = sizeof(address);
              if (::bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
                  ::listen(listener, 1) != 0 ||
                  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
                return 1;
              }
              int result = 2;
              std::thread([&] {  // a thread of later has the same filter
                const int client = ::socket(AF_INET, SOCK_STREAM, 0);
                result = ::connect(client, reinterpret_cast<sockaddr*>(&address), size);
              })
                  .join();
              return result;
            }),
            0);
}

TEST_F(Confinements, SE_184_AProcessKeepsNoCoreNoPrivilegesNoDescriptors) {
  const int inherited = ::open("/dev/null", O_RDONLY);
  ASSERT_GE(inherited, 3);
  EXPECT_EQ(outcome([&] {
              rlimit core{1, 1};
              ::getrlimit(RLIMIT_CORE, &core);
              return (core.rlim_max == 0 ? 0 : 1) + (::prctl(PR_GET_DUMPABLE) == 0 ? 0 : 2) +
                     (::fcntl(inherited, F_GETFD) < 0 ? 0 : 4) + (::umask(0) == 077 ? 0 : 8);
            }),
            0);
  ::close(inherited);
}

/// "CapEff", "CapPrm", … of this thread, as the kernel tells it.
std::string capabilities(const std::string& set) {
  std::ifstream status("/proc/thread-self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(set + ":\t")) {
      return line.substr(set.size() + 2);
    }
  }
  return "?";
}

TEST_F(Confinements, SE_184_AfterTheStartAProcessHasNoCapabilities) {
  EXPECT_EQ(outcome([] {
              const std::string none(16, '0');
              std::string in_thread;
              std::thread([&in_thread] { in_thread = capabilities("CapPrm"); }).join();
              return (capabilities("CapEff") == none ? 0 : 1) +
                     (capabilities("CapPrm") == none ? 0 : 2) +
                     (capabilities("CapInh") == none ? 0 : 4) + (in_thread == none ? 0 : 8);
            }),
            0);
}

TEST_F(Confinements, SE_184_BeforeTheEndOfTheStartItMayBindLowPortsAtMost) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    const bool confined = confine({}).has_value();
    const std::string has = capabilities("CapEff");
    // CAP_NET_BIND_SERVICE is the tenth; who was not root has none.
    const bool few = has == "0000000000000400" || has == std::string(16, '0');
    const bool as_root = ::geteuid() != 0 || capabilities("CapBnd") == std::string(16, '0');
    ::_exit(confined && few && as_root ? 0 : 1);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(Confinements, SE_185_WithoutIt_ProgramsRun) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::_exit(enter_sandbox({.sandbox = false}) ? ::execl("/bin/true", "true", nullptr) : 99);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace kintsugi::server
