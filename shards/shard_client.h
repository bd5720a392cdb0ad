#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "http/headers.h"
#include "net/loop.h"
#include "net/upstream.h"
#include "shards/internal/health_fsm.h"
#include "shards/internal/spread_upstream.h"

namespace kintsugi::shards {

struct ShardClientParams {
  std::string name;
  /// Credentials and addresses for a base URL: TLS context with the client pair, overrides of
  /// `shards.<name>`. Called on the loop whenever the URL changes.
  std::function<Expected<net::UpstreamParams>(const std::string& base_url)> upstream;
  http::HeaderList headers;  ///< of probes: User-Agent, Authorization, for_nobody()
  /// Makes the headers of a caller's request what this shard expects. May be empty.
  std::function<void(http::HeaderList& headers)> as_caller;
  bool probe = true;  ///< false on loops that get the probe's result from another one
  Duration probe_every = seconds(5);
  Duration probe_timeout = seconds(2);
  Duration drain_limit = seconds(60);  ///< a replaced upstream is cut after this
};

/// Adds that nobody asks, for a probe: servers that believe in request headers refuse (401) who has
/// none, and others do not look at it.
void for_nobody(http::HeaderList& headers);

/// One shard as seen from one loop: its connections, and whether it is up.
/// Source. Threads: the loop's.
class ShardClient {
 public:
  /// @param on_health runs after each change between up and down; must not destroy the client.
  ShardClient(net::Loop& loop, ShardClientParams params, std::function<void()> on_health = {});
  ~ShardClient();
  /// For requests: their streams may end after the client, when the shard is removed. Points to
  /// null then.
  using Handle = std::shared_ptr<ShardClient* const>;
  [[nodiscard]] Handle handle() const noexcept { return self_; }
  ShardClient(const ShardClient&) = delete;
  ShardClient& operator=(const ShardClient&) = delete;

  /// Requests go to the new URL from now on. The old upstream lives until its last stream ends, at
  /// most `drain_limit`; users move their watches by themselves.
  /// @error kConfig when there is no upstream for that URL; upstream() is null then.
  [[nodiscard]] Expected<void> set_base_url(const std::string& url);
  /// The same for a URL that it may have already: there is another way to it.
  [[nodiscard]] Expected<void> move_to(const std::string& url);
  /// The base URL, and those at which other processes serve the same shard (GR-301). A base URL
  /// that is one of these already becomes the first; nothing that runs has to move then.
  /// @returns whether all that runs has to: the base URL is another server's
  /// @error as set_base_url; others that are none, or have another path than the base, are left out
  [[nodiscard]] Expected<bool> set_urls(const std::string& url,
                                        const std::vector<std::string>& others);
  /// Where requests go; null while the base URL is unusable. Changes with a moved base URL only.
  [[nodiscard]] net::Upstream* upstream() const noexcept { return upstream_.get(); }
  [[nodiscard]] const std::string& base_url() const noexcept { return base_url_; }
  /// As set_urls() was told.
  [[nodiscard]] const std::vector<std::string>& other_urls() const noexcept { return others_; }
  /// Whether a request that has found nobody may find somebody: of several processes one answers,
  /// or may be back.
  [[nodiscard]] bool answers_elsewhere() const noexcept {
    return upstream_ != nullptr && upstream_->elsewhere() != nullptr;
  }
  [[nodiscard]] const std::string& name() const noexcept { return params_.name; }

  [[nodiscard]] bool up() const noexcept { return health_.up(); }
  /// Why it is down, or the last failure; "" when there was none since it is up.
  [[nodiscard]] const std::string& cause() const noexcept { return cause_; }
  /// When a request or probe last found no answer, and when there was one; TimePoint(): never.
  [[nodiscard]] TimePoint failed_at() const noexcept { return failed_at_; }
  [[nodiscard]] TimePoint answered_at() const noexcept { return answered_at_; }
  /// When the certificate ends that it showed last [s since 1970]; 0: it has shown none.
  [[nodiscard]] std::int64_t certificate_end() const noexcept;
  /// What the last probe was answered with; 0: nothing.
  [[nodiscard]] int probe_status() const noexcept { return probe_status_; }
  /// For the head of every request of a caller, before it is sent.
  void dress(http::HeaderList& headers) const {
    if (params_.as_caller) {
      params_.as_caller(headers);
    }
  }
  /// Asked before a request: false means E6 at once (one trial a second is let through).
  [[nodiscard]] bool admit() noexcept { return health_.admit(loop_.now()); }
  /// What became of a request: a response head of any status, or a connection-level failure.
  void on_success();
  void on_failure(Errc cause);
  /// The result of a probe.
  void on_probe(bool answered, std::string_view cause);
  /// What another loop found out; a shard that is up again is dialled at once.
  void on_verdict(bool up, std::string_view cause);
  /// For connections made from now on; see net::Upstream::set_tls.
  void set_tls(std::shared_ptr<net::TlsContext> tls);
  /// Upstreams that drain after a change of the base URL.
  [[nodiscard]] std::size_t draining() const noexcept { return retired_.size(); }

 private:
  struct Retired {
    std::unique_ptr<net::Upstream> upstream;
    TimePoint deadline;
  };
  [[nodiscard]] Expected<SpreadUpstream::Place> place(const std::string& url);
  void retire(std::unique_ptr<net::Upstream> upstream);
  void schedule_probe(Duration delay);
  void send_probe();
  void note_failure();
  void apply(HealthFsm::Change change);
  void tell_up();
  void sweep();

  net::Loop& loop_;
  std::shared_ptr<ShardClient*> self_ = std::make_shared<ShardClient*>(this);
  ShardClientParams params_;
  std::function<void()> on_health_;
  std::string base_url_;
  std::vector<std::string> others_;
  std::unique_ptr<SpreadUpstream> upstream_;
  std::vector<Retired> retired_;
  HealthFsm health_;
  std::string cause_;
  TimePoint failed_at_{}, answered_at_{};
  std::unique_ptr<net::Call> probe_;
  int probe_status_ = 0;
  net::Timer probe_timer_;
  net::Timer sweep_timer_;
};

}  // namespace kintsugi::shards
