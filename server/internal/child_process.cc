#include "server/internal/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string_view>

#include "base/strings.h"

namespace kintsugi::server {
namespace {

/// For a child between fork and exec: no handler of the parent runs in it, for that would tell the
/// parent's loop of a signal that the parent did not get. What is ignored stays ignored.
void forget_handlers() noexcept {
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) {
      ::signal(number, SIG_DFL);
    }
  }
}

}  // namespace

std::optional<std::string> program_in_path(const std::string& name) {
  const char* const path = std::getenv("PATH");  // NOLINT: nobody sets it
  for (const std::string_view folder : split(path == nullptr ? "" : path, ':')) {
    std::string program = std::string(folder) + "/" + name;
    if (!folder.empty() && ::access(program.c_str(), X_OK) == 0) {
      return program;
    }
  }
  return std::nullopt;
}

std::string own_program() {
  char path[4096];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof(path));
  const std::string name(path, length > 0 ? static_cast<std::size_t>(length) : 0);
  return ::access(name.c_str(), X_OK) == 0 ? name : "/proc/self/exe";
}

pid_t start_child(const std::string& program, const std::vector<std::string>& arguments,
                  int log_fd) {
  std::vector<std::string> texts{program};
  texts.insert(texts.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& text : texts) {
    argv.push_back(text.data());
  }
  argv.push_back(nullptr);
  const pid_t parent = ::getpid();
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::fork();
  if (pid == 0) {
    // Only async-signal-safe calls until exec.
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) {
      ::_exit(1);
    }
    ::setpgid(0, 0);  // Ctrl-C reaches the parent alone, which ends its children in order
    forget_handlers();
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    const int null_fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::dup2(null_fd, STDIN_FILENO);
    if (log_fd >= 0) {
      ::dup2(log_fd, STDOUT_FILENO);
      ::dup2(log_fd, STDERR_FILENO);
    }
    ::execv(argv.front(), argv.data());
    ::_exit(127);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return pid;
}

std::string how_child_ended(int status) {
  return WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                             : "exit " + std::to_string(WEXITSTATUS(status));
}

}  // namespace kintsugi::server
