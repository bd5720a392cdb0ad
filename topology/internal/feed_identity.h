#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "http/headers.h"
#include "net/loop.h"
#include "net/upstream.h"
#include "shards/informer.h"

namespace kintsugi::topology {

/// Reads the identity hashes of kcp's own exports, which are part of wildcard URLs.
/// Source: FP-151, R-10. Threads: the loop's.
class IdentityReader {
 public:
  struct Params {
    Duration poll, pause, refresh;
    http::HeaderList headers;
    /// How questions were answered whose answer is waited for. May be empty.
    shards::Informer::Heard heard = {};
  };
  /// @param changed runs for every new or changed hash.
  IdentityReader(net::Loop& loop, net::Upstream& root, Params params,
                 std::function<void(std::string_view name, const std::string& hash)> changed);

  void start();
  /// A wildcard request was refused: read again now and every `pause` for a minute, until the hash
  /// of Workspaces changes.
  void refresh_soon();
  /// "" while unknown.
  [[nodiscard]] std::string_view hash(std::string_view name) const noexcept;

  static constexpr std::string_view kTenancy = "tenancy.kcp.io";

 private:
  struct Export {
    std::string_view name;
    std::string hash;
    std::unique_ptr<net::Call> call;
    bool running = false;
  };
  void read(bool all);
  void tell(const Export& item, const std::string& target,
            const Expected<net::FetchResponse>& answer) const;
  void take(Export& item, Expected<net::FetchResponse> answer);
  void schedule();

  net::Loop& loop_;
  net::Upstream& root_;
  Params params_;
  std::function<void(std::string_view, const std::string&)> changed_;
  std::array<Export, 4> exports_;
  TimePoint patience_{};  // when exports that hold up nothing are asked for less often
  TimePoint last_all_{};
  TimePoint suspicious_until_{};  // re-read every `pause`
  net::Timer timer_;
};

}  // namespace kintsugi::topology
