#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "http/headers.h"
#include "net/loop.h"
#include "net/upstream.h"
#include "shards/internal/spread_fsm.h"

namespace kintsugi::shards {

/// One shard behind one or several URLs: processes that serve the same (GR-301). Reads and watches
/// go to those that answer, in turn; writes to the first one while it answers, since what a process
/// counts by itself is exact there. A place that is added, or whose connections fail, is left out
/// until it is ready: it is asked for /readyz at once, and then every second, or ten times a second
/// while nobody answers. Which place a request gets: spread_fsm.h. Its parameters are those of the
/// first place. Threads: its loop.
class SpreadUpstream final : public net::Upstream {
 public:
  struct Place {
    std::string url;
    std::unique_ptr<net::Upstream> upstream;
    std::unique_ptr<net::Call> call = nullptr;  ///< asks whether it is ready
  };
  /// @param headers  of what asks whether a place is back
  SpreadUpstream(net::Loop& loop, Place first, http::HeaderList headers);
  ~SpreadUpstream() override;

  http::RequestStream& open(net::UpstreamClass kind, const http::RequestHead& head,
                            http::ResponseHandler& handler) override;
  /// Of all places together.
  net::UpstreamStats stats(net::UpstreamClass kind) const noexcept override;
  const net::UpstreamParams& params() const noexcept override { return first().params(); }
  void set_tls(std::shared_ptr<net::TlsContext> tls) noexcept override;
  void retry_now() noexcept override;
  /// The fewest of all places.
  std::uint32_t failures_in_a_row() const noexcept override;
  const std::string& last_failure() const noexcept override { return first().last_failure(); }
  Duration round_trip() const noexcept override { return first().round_trip(); }
  Handle elsewhere() noexcept override;

  [[nodiscard]] const net::Upstream& first() const noexcept { return *places_.front().upstream; }
  [[nodiscard]] std::size_t size() const noexcept { return places_.size(); }
  [[nodiscard]] bool has(std::string_view url) const noexcept;
  /// The place of that URL, which is there, is the first one from now on.
  void put_first(std::string_view url);
  void add(Place place);
  /// Takes out all but the first one and those of these URLs. Their streams go on.
  [[nodiscard]] std::vector<std::unique_ptr<net::Upstream>> keep(
      const std::vector<std::string>& urls);
  /// A place that has failed answers again: it may be ready.
  void ask_soon();

 private:
  void look();
  void look_after(Duration delay);
  void ask();
  void hear(const std::string& url, const Expected<net::FetchResponse>& said);

  net::Loop& loop_;
  std::vector<Place> places_;
  const std::shared_ptr<net::Upstream*> self_ = std::make_shared<net::Upstream*>(this);
  SpreadFsm fsm_;  // of the same places
  const http::HeaderList headers_;
  std::optional<TimePoint> asks_at_;  // the timer runs
  net::Timer timer_;
};

}  // namespace kintsugi::shards
