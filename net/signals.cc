#include "net/signals.h"

#include <pthread.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <utility>

namespace kintsugi::net {

struct Signals::State : std::enable_shared_from_this<State> {
  State(Loop& loop, std::function<void(int)> the_handler)
      : set(loop.context()), handler(std::move(the_handler)) {}

  void wait() {
    // What was delivered already comes without an error, also after the Signals died.
    set.async_wait([weak = weak_from_this()](const boost::system::error_code& error, int number) {
      const std::shared_ptr<State> self = weak.lock();
      if (self != nullptr && !error) {
        self->wait();
        self->handler(number);
      }
    });
  }

  boost::asio::signal_set set;
  std::function<void(int)> handler;
};

Signals::Signals(Loop& loop, std::initializer_list<int> numbers, std::function<void(int)> handler)
    : state_(std::make_shared<State>(loop, std::move(handler))) {
  sigset_t mask;
  sigemptyset(&mask);
  for (const int number : numbers) {
    state_->set.add(number);
    struct sigaction action {};
    ::sigaction(number, nullptr, &action);
    action.sa_flags |= SA_RESTART;
    ::sigaction(number, &action, nullptr);
    sigaddset(&mask, number);
  }
  ::pthread_sigmask(SIG_UNBLOCK, &mask, nullptr);  // whoever started this process may block them
  state_->wait();
}

Signals::~Signals() = default;

}  // namespace kintsugi::net
