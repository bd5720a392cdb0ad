#include "net/signals.h"

#include <pthread.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdint>
#include <utility>
#include <vector>

namespace kintsugi::net {

struct Signals::State : std::enable_shared_from_this<State> {
  State(Loop& loop, std::function<void(int)> the_handler)
      : set(loop.context()), handler(std::move(the_handler)) {}

  void wait() {
    // What was delivered already comes without an error, also after the Signals died.
    set.async_wait([weak = weak_from_this()](const boost::system::error_code& error, int number) {
      const std::shared_ptr<State> self = weak.lock();
      if (self == nullptr || error) {
        return;
      }
      ++self->came;
      if (std::find(self->pending.begin(), self->pending.end(), number) == self->pending.end()) {
        self->pending.push_back(number);
      }
      self->wait();
      if (!std::exchange(self->tells, true)) {
        self->tell();
      }
    });
  }

  /// Asio queues signals, each of them: those that came during one call are taken in first.
  void tell() {
    boost::asio::post(set.get_executor(), [weak = weak_from_this(), seen = came] {
      const std::shared_ptr<State> self = weak.lock();
      if (self == nullptr) {
        return;
      }
      if (seen != self->came) {
        self->tell();
        return;
      }
      const int number = self->pending.front();
      self->pending.erase(self->pending.begin());
      self->tells = !self->pending.empty();
      if (self->tells) {
        self->tell();
      }
      self->handler(number);
    });
  }

  boost::asio::signal_set set;
  std::function<void(int)> handler;
  std::vector<int> pending;  ///< each once, as they came
  std::uint64_t came = 0;
  bool tells = false;  ///< tell() is under way
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
