#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "store/etcd/etcd_store.h"

namespace kintsugi::server {

/// Opens a store on etcd on a thread of its own, again and again while etcd cannot be reached.
/// Threads: one, but for what is said.
class StoreOpening {
 public:
  using Result = Expected<std::unique_ptr<store::EtcdStore>>;
  /// @param password_file  of the user; "": there is none
  StoreOpening(store::EtcdParams params, std::string password_file);
  /// Gives up.
  ~StoreOpening();
  StoreOpening(const StoreOpening&) = delete;
  StoreOpening& operator=(const StoreOpening&) = delete;

  /// What has come of it within that time; nullopt: etcd has not answered yet.
  [[nodiscard]] std::optional<Result> wait(Duration limit);
  /// Instead of wait(): `done` runs on the thread that opens, or here, and must only hand on.
  void then(std::function<void(Result)> done);

 private:
  void run();
  void settle(Result result);

  store::EtcdParams params_;
  const std::string password_file_;
  std::atomic<bool> given_up_ = false;
  std::mutex mutex_;
  std::condition_variable settled_;
  std::optional<Result> result_;
  std::function<void(Result)> done_;
  std::thread thread_;
};

}  // namespace kintsugi::server
