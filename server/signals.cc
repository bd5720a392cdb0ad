#include "server/signals.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

namespace kintsugi::server {

Signals::Signals(net::Loop& loop, std::initializer_list<int> numbers,
                 std::function<void(int)> handler)
    : loop_(loop), handler_(std::move(handler)) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : numbers) {
    sigaddset(&set, number);
  }
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  fd_ = ::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  loop_.watch(fd_, *this);
}

Signals::~Signals() {
  loop_.forget(fd_);
  ::close(fd_);
}

void Signals::on_ready(bool readable, bool /*writable*/) noexcept {
  signalfd_siginfo info{};
  while (readable && ::read(fd_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    handler_(static_cast<int>(info.ssi_signo));
  }
}

}  // namespace kintsugi::server
