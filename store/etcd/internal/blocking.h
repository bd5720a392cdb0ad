#pragma once

#include <optional>
#include <utility>

#include "net/loop.h"
#include "net/task.h"

namespace kintsugi::store::etcd {

template <typename T>
net::Task<> put_and_stop(net::Loop* loop, net::Task<T> task, std::optional<T>* out) {
  T value = co_await task;
  out->emplace(std::move(value));
  loop->stop();
}

/// Runs a loop that nobody else runs until the coroutine has ended. For tools.
template <typename T>
T run_until_done(net::Loop& loop, net::Task<T> task) {
  std::optional<T> out;
  const net::Job job(put_and_stop(&loop, std::move(task), &out));
  loop.run();
  return std::move(*out);
}

}  // namespace kintsugi::store::etcd
