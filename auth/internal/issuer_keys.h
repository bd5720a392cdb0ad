#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "auth/internal/jwk.h"
#include "base/alive.h"
#include "base/time.h"
#include "net/loop.h"
#include "net/outgoing.h"
#include "net/upstream.h"

namespace kintsugi::auth {

/// The keys of one issuer: its discovery document names where they are (OpenID Connect Discovery
/// 1.0). Fetched when it starts, again every `refresh` and when somebody asks for newer ones;
/// failures are retried with back-off and keep the keys there are. One that comes at once at the
/// very start says little about the issuer, so the first retries follow closely. Threads: its loop.
class IssuerKeys {
 public:
  struct Params {
    std::string issuer;              ///< that the document must name
    std::string discovery_url;       ///< https
    std::string ca_pem;              ///< "": the machine's
    Duration timeout = seconds(10);  ///< of both requests together
    Duration refresh = seconds(600);
    Duration least_pause = seconds(5);  ///< between fetches that are asked for
    Duration first_retry = seconds(1), longest_retry = seconds(30);
    Duration close_retry = milliseconds(50);  ///< the first of close_retries, each twice as long
    int close_retries = 3;                    ///< at the start, while there are no keys
    /// Asks servers that a tenant names, for `cluster`; null: the operator has named this one.
    std::shared_ptr<net::Outgoing> outgoing;
    std::string cluster;
  };
  IssuerKeys(net::Loop& loop, Params params);
  ~IssuerKeys();
  IssuerKeys(const IssuerKeys&) = delete;
  IssuerKeys& operator=(const IssuerKeys&) = delete;

  /// Null: never fetched.
  [[nodiscard]] const KeySet* keys() const noexcept { return keys_.get(); }
  /// A fetch runs, or is about to as the first ones failed.
  [[nodiscard]] bool fetching() const noexcept { return round_ != nullptr || starting_; }
  /// Fetches, unless it is too soon; fetching() tells.
  void ask();
  /// Runs once when fetching() is over, or in a later turn when it is already. Not at all when this
  /// dies before.
  void then(std::function<void()> done);

 private:
  struct Round;
  void fetch();
  void take_discovery(const Expected<net::FetchResponse>& answer);
  void take_keys(const Expected<net::FetchResponse>& answer);
  void finish(const std::string& fault);
  [[nodiscard]] bool request(const std::string& url,
                             std::function<void(const Expected<net::FetchResponse>&)> done);
  void request_outgoing(const std::string& url,
                        std::function<void(const Expected<net::FetchResponse>&)> done);

  net::Loop& loop_;
  Params params_;
  std::unique_ptr<KeySet> keys_;
  std::unique_ptr<Round> round_;
  std::vector<std::function<void()>> waiting_;
  net::Timer timer_;
  TimePoint fetched_at_{};  ///< begin of the last fetch
  Duration retry_;
  int close_retries_;      ///< left
  bool starting_ = false;  ///< one of them is next
  std::string last_fault_;
  Alive alive_;
};

}  // namespace kintsugi::auth
