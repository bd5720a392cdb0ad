#pragma once

#include <functional>
#include <initializer_list>

#include "net/loop.h"

namespace kintsugi::server {

/// Turns signals into calls on a loop, by signalfd. Make it before any other thread starts: the
/// mask is inherited.
class Signals final : public net::FdHandler {
 public:
  Signals(net::Loop& loop, std::initializer_list<int> numbers, std::function<void(int)> handler);
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  void on_ready(bool readable, bool writable) noexcept override;

 private:
  net::Loop& loop_;
  int fd_;
  std::function<void(int)> handler_;
};

}  // namespace kintsugi::server
