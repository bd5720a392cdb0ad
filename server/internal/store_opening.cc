#include "server/internal/store_opening.h"

#include <utility>

#include "server/internal/etcd_opening.h"

namespace kintsugi::server {

StoreOpening::StoreOpening(store::EtcdParams params, std::string password_file)
    : params_(std::move(params)), password_file_(std::move(password_file)) {
  params_.is_given_up = [this] { return given_up_.load(); };
  thread_ = std::thread([this] { run(); });
}

StoreOpening::~StoreOpening() {
  given_up_ = true;
  thread_.join();
}

void StoreOpening::run() {
  while (true) {
    Result opened = open_etcd_store(params_, password_file_);
    if (opened || opened.error().code() != Errc::kUnavailable || given_up_) {
      settle(std::move(opened));
      return;
    }
  }
}

void StoreOpening::settle(Result result) {
  std::function<void(Result)> done;
  {
    const std::lock_guard lock(mutex_);
    done = std::move(done_);
    if (!done) {
      result_ = std::move(result);
    }
  }
  if (done) {
    done(std::move(result));
  } else {
    settled_.notify_all();
  }
}

std::optional<StoreOpening::Result> StoreOpening::wait(Duration limit) {
  std::unique_lock lock(mutex_);
  settled_.wait_for(lock, limit, [this] { return result_.has_value(); });
  return std::exchange(result_, std::nullopt);
}

void StoreOpening::then(std::function<void(Result)> done) {
  {
    const std::lock_guard lock(mutex_);
    if (!result_) {
      done_ = std::move(done);
      return;
    }
  }
  done(std::move(*result_));
}

}  // namespace kintsugi::server
