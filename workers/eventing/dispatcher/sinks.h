#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/time.h"
#include "net/loop.h"
#include "net/upstream.h"

namespace kintsugi::workers {

/// One URL that events are posted to.
class Sink {
 public:
  /// @param done  any status counts as an answer. @error as net::fetch
  [[nodiscard]] std::unique_ptr<net::Call> post(
      http::HeaderList headers, std::string body, Duration timeout,
      std::function<void(Expected<net::FetchResponse>)> done);
  [[nodiscard]] const std::string& url() const noexcept { return url_; }

 private:
  friend class Sinks;
  Sink(net::Loop& loop, std::shared_ptr<net::Upstream> origin, std::string url, std::string target)
      : loop_(loop), origin_(std::move(origin)), url_(std::move(url)), target_(std::move(target)) {}
  net::Loop& loop_;
  std::shared_ptr<net::Upstream> origin_;  // shared by all sinks of it, ended in a later turn
  std::string url_, target_;
};

/// Connections to where events go: sinks of one origin that trust the same certificates share
/// theirs. They last for as long as a sink of it does. Threads: the loop's.
class Sinks {
 public:
  explicit Sinks(net::Loop& loop) : loop_(loop) {}
  /// @param ca_pem  of https, what certificates are issued by; "": what the machine trusts
  /// @error kConfig: no URL of http or https, no certificates
  [[nodiscard]] Expected<std::shared_ptr<Sink>> find(const std::string& url,
                                                     const std::string& ca_pem);

 private:
  net::Loop& loop_;
  std::map<std::string, std::weak_ptr<net::Upstream>> origins_;
};

}  // namespace kintsugi::workers
