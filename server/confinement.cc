#include "server/confinement.h"

#include <linux/capability.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "base/log.h"
#include "net/inherited_sockets.h"

namespace kintsugi::server {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

Error refused(const char* what, int error) {
  return Error(Errc::kConfig, std::string(what) + ": " + std::strerror(error));
}

/// What start, requests, writes and stop of proxy and shard were seen to call, and what the
/// libraries beneath them call in rarer cases (name resolution, backup, memory pressure, abort).
constexpr std::array kAllowed = {
    // descriptors and events
    "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd2",
    "timerfd_create", "timerfd_settime", "timerfd_gettime", "poll", "ppoll", "select", "pselect6",
    "pipe2", "close", "close_range", "dup", "dup2", "dup3", "signalfd4", "inotify_init1",
    "inotify_add_watch", "inotify_rm_watch",
    // bytes
    "read", "readv", "pread64", "preadv", "write", "writev", "pwrite64", "pwritev", "recvfrom",
    "recvmsg", "recvmmsg", "sendto", "sendmsg", "sendmmsg", "sendfile", "copy_file_range",
    // sockets; their families are judged below
    "accept4", "accept", "bind", "listen", "connect", "shutdown", "getsockopt", "setsockopt",
    "getsockname", "getpeername",
    // files
    "open", "openat", "stat", "lstat", "newfstatat", "fstat", "statx", "statfs", "fstatfs", "lseek",
    "truncate", "ftruncate", "fallocate", "fadvise64", "fsync", "fdatasync", "sync_file_range",
    "rename", "renameat", "renameat2", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "link",
    "linkat", "symlink", "symlinkat", "chmod", "fchmod", "fchmodat", "readlink", "readlinkat",
    "getcwd", "access", "faccessat", "faccessat2", "getdents64", "flock", "fcntl", "utimensat",
    "umask",
    // memory and threads
    "munmap", "mremap", "madvise", "msync", "mincore", "brk", "futex", "sched_yield",
    "sched_getaffinity", "sched_setaffinity", "set_robust_list", "get_robust_list", "rseq",
    "membarrier", "set_tid_address", "getcpu", "arch_prctl",
    // signals, time, random numbers, the process itself
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigsuspend",
    "rt_sigtimedwait", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "sigaltstack", "tgkill", "getrandom",
    "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time",
    "restart_syscall", "getpid", "getppid", "gettid", "getuid", "geteuid", "getgid", "getegid",
    "getresuid", "getresgid", "getpgrp", "getpgid", "getsid", "getgroups", "uname", "sysinfo",
    "times", "getrusage", "prlimit64", "getrlimit", "exit", "exit_group"};

/// Nothing in this program makes these.
constexpr std::array kOfIntruders = {"execve",
                                     "execveat",
                                     "fork",
                                     "vfork",
                                     "ptrace",
                                     "process_vm_readv",
                                     "process_vm_writev",
                                     "process_madvise",
                                     "pidfd_getfd",
                                     "mount",
                                     "umount2",
                                     "move_mount",
                                     "open_tree",
                                     "fsopen",
                                     "fsmount",
                                     "pivot_root",
                                     "chroot",
                                     "setns",
                                     "unshare",
                                     "bpf",
                                     "perf_event_open",
                                     "userfaultfd",
                                     "init_module",
                                     "finit_module",
                                     "delete_module",
                                     "kexec_load",
                                     "kexec_file_load",
                                     "reboot",
                                     "swapon",
                                     "swapoff",
                                     "keyctl",
                                     "add_key",
                                     "request_key",
                                     "personality",
                                     "setuid",
                                     "setgid",
                                     "setreuid",
                                     "setregid",
                                     "setresuid",
                                     "setresgid",
                                     "setgroups",
                                     "capset",
                                     "io_uring_setup",
                                     "io_uring_enter",
                                     "io_uring_register",
                                     "memfd_create",
                                     "mknod",
                                     "mknodat",
                                     "open_by_handle_at"};

struct Rule {
  const char* call;
  scmp_arg_cmp argument;
};

constexpr scmp_arg_cmp is(unsigned argument, std::uint64_t value) {
  return {argument, SCMP_CMP_EQ, value, 0};
}
constexpr scmp_arg_cmp masked(unsigned argument, std::uint64_t mask, std::uint64_t value) {
  return {argument, SCMP_CMP_MASKED_EQ, mask, value};
}

/// Calls that depend on an argument.
const Rule kGuarded[] = {
    {"socket", is(0, AF_INET)},
    {"socket", is(0, AF_INET6)},
    {"socket", is(0, AF_UNIX)},
    {"socket", is(0, AF_NETLINK)},  // name resolution asks for own addresses
    {"socketpair", is(0, AF_UNIX)},
    {"ioctl", is(1, FIONBIO)},
    {"ioctl", is(1, FIONREAD)},
    {"ioctl", is(1, TCGETS)},  // is it a terminal?
    {"mmap", masked(2, PROT_EXEC, 0)},
    {"mprotect", masked(2, PROT_EXEC, 0)},
    {"clone", masked(0, CLONE_THREAD, CLONE_THREAD)},
    {"kill", is(1, 0)},  // is it alive?
    {"prctl", is(0, PR_SET_NAME)},
    {"prctl", is(0, PR_GET_NAME)},
    {"prctl", is(0, PR_SET_TIMERSLACK)},
    {"prctl", is(0, PR_GET_DUMPABLE)},
};

struct ReleaseFilter {
  void operator()(void* filter) const noexcept { seccomp_release(filter); }
};
using Filter = std::unique_ptr<void, ReleaseFilter>;

/// A call that this architecture does not have is not an error.
int add(void* filter, std::uint32_t action, const char* name) {
  const int call = seccomp_syscall_resolve_name(name);
  return call == __NR_SCMP_ERROR ? 0 : seccomp_rule_add_array(filter, action, call, 0, nullptr);
}

int fill(void* filter) {
  int status = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);  // all threads
  // Threads are made by clone, whose flags can be seen; clone3 hides them in memory.
  status = status != 0 ? status : add(filter, SCMP_ACT_ERRNO(ENOSYS), "clone3");
  for (const char* name : kAllowed) {
    status = status != 0 ? status : add(filter, SCMP_ACT_ALLOW, name);
  }
  for (const char* name : kOfIntruders) {
    status = status != 0 ? status : add(filter, SCMP_ACT_KILL_PROCESS, name);
  }
  for (const Rule& rule : kGuarded) {
    const int call = seccomp_syscall_resolve_name(rule.call);
    status = status != 0 ? status
                         : seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call, 1, &rule.argument);
  }
  return status != 0 ? status : seccomp_load(filter);
}

/// Valgrind is another program that interprets this one, with system calls of its own.
bool is_interpreted() {
  const char* preloaded = std::getenv("LD_PRELOAD");
  return preloaded != nullptr && std::strstr(preloaded, "vgpreload") != nullptr;
}

/// Of this thread, and of those that it makes: none but those of `kept`, which it may have.
Expected<void> keep_capabilities(std::uint64_t kept) {
  __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> sets{};
  if (::syscall(SYS_capget, &head, sets.data()) != 0) {
    return fail(refused("capabilities", errno));
  }
  // Who may not change these has none to give away.
  (void)::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  for (unsigned long one = 0; one < 64; ++one) {
    (void)::prctl(PR_CAPBSET_DROP, one, 0, 0, 0);
  }
  bool had_more = false;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const auto part = static_cast<std::uint32_t>(kept >> (32 * i));
    had_more = had_more || (sets[i].permitted & ~part) != 0 || sets[i].inheritable != 0 ||
               sets[i].effective != sets[i].permitted;
    sets[i].permitted &= part;
    sets[i].effective = sets[i].permitted;
    sets[i].inheritable = 0;
  }
  if (!had_more) {  // a service manager took them, and perhaps the call, too (OP-804)
    return {};
  }
  if (::syscall(SYS_capset, &head, sets.data()) != 0) {
    return fail(refused("no capabilities", errno));
  }
  return {};
}

}  // namespace

Expected<void> confine(const Confinement& wanted) {
  ::umask(077);
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return fail(refused("no new privileges", errno));
  }
  if (!wanted.core_dumps) {
    const rlimit none{0, 0};
    if (::setrlimit(RLIMIT_CORE, &none) != 0) {
      return fail(refused("no core dumps", errno));
    }
    if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
      return fail(refused("not dumpable", errno));
    }
  }
  // Ports below 1024 are not bound yet.
  if (auto few = keep_capabilities(std::uint64_t{1} << CAP_NET_BIND_SERVICE); !few) {
    return few;
  }
  const auto first = static_cast<unsigned>(3 + net::inherited_descriptors());
  if (!kSanitized && !is_interpreted() && ::close_range(first, ~0U, 0) != 0 && errno != ENOSYS) {
    return fail(refused("close inherited descriptors", errno));
  }
  return {};
}

Expected<void> enter_sandbox(const Confinement& wanted) {
  if (::geteuid() == 0 && !wanted.allow_root) {
    log_warn("this runs as root and does not need to: give it a user of its own, or --allow-root");
  }
  if (auto none = keep_capabilities(0); !none) {
    return none;
  }
  if (!wanted.sandbox) {
    return {};
  }
  if (kSanitized || is_interpreted()) {
    log_info("no sandbox under a sanitizer or profiler");
    return {};
  }
  const Filter filter(seccomp_init(SCMP_ACT_ERRNO(EPERM)));
  if (filter == nullptr) {
    return fail(refused("sandbox", ENOMEM));
  }
  if (const int status = fill(filter.get()); status != 0) {
    return fail(refused("sandbox (--sandbox=off leaves it out)", -status));
  }
  return {};
}

}  // namespace kintsugi::server
