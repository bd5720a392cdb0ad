#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/secret.h"
#include "base/time.h"
#include "net/loop.h"
#include "net/tls.h"
#include "net/upstream.h"
#include "store/etcd/wire/frames.h"

/// Calls to the members of one etcd, over net/. Threads: its loop.
namespace kintsugi::store::etcd {

struct ClientParams {
  std::vector<net::Url> endpoints;  ///< one at least
  std::shared_ptr<net::TlsContext> tls;
};

/// How a call ended.
struct Reply {
  std::optional<GrpcStatus> status;  ///< of a call that was answered
  Errc transport = Errc::kOk;        ///< why there is no status
  std::string message;               ///< of an answer with code kOk
  [[nodiscard]] bool ok() const noexcept { return status && status->code == GrpcCode::kOk; }
  [[nodiscard]] std::string text() const;
};

struct CallRequest {
  std::string method;  ///< "/etcdserverpb.KV/Txn"
  std::string message;
  Duration timeout = milliseconds(2'500);
  net::UpstreamClass kind = net::UpstreamClass::kRead;
};

/// A watch stream that is open.
class WatchCall {
 public:
  virtual ~WatchCall() = default;
  virtual void send(std::string_view message) = 0;
  /// While it is held, what comes stays with etcd (after what is on its way).
  virtual void hold(bool held) = 0;
};

class Client {
 public:
  Client(net::Loop& loop, ClientParams params);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  [[nodiscard]] std::size_t members() const noexcept { return upstreams_.size(); }
  [[nodiscard]] std::string name(std::size_t member) const;
  /// `done` comes once, in a later turn, unless the handle is destroyed before.
  [[nodiscard]] std::unique_ptr<net::Call> call(std::size_t member, CallRequest request,
                                                std::function<void(Reply)> done);
  /// `on_message` gets every message, until `on_end` or the end of the returned one.
  [[nodiscard]] std::unique_ptr<WatchCall> watch(
      std::size_t member, std::string first,
      std::function<void(std::string_view message)> on_message, std::function<void(Reply)> on_end);
  /// Goes with every call from now on; "": none.
  void set_token(std::string token) { token_ = std::move(token); }

 private:
  net::Loop& loop_;
  std::vector<std::unique_ptr<net::Upstream>> upstreams_;
  std::string token_;
};

}  // namespace kintsugi::store::etcd
