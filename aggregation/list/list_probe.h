#pragma once

#include <functional>
#include <optional>
#include <string>

#include "aggregation/bytes/json_split.h"
#include "aggregation/member_call.h"
#include "aggregation/merge_loop.h"
#include "net/loop.h"

namespace kintsugi::aggregation {

/// Asks one shard for a list of at most one object, to learn what a stream's objects are, or how
/// far the shard is (AGG-512, AGG-522). Tries again until it knows. Threads:
/// its loop.
class ListProbe final : private MemberCall::Listener {
 public:
  /// @param head  as the watch is asked for; like `route` it has to outlive this.
  /// @param shard  nullopt: any, one after another
  ListProbe(MergeLoop& shared, const http::RequestHead& head, const MergeRoute& route,
            std::string passed_on, std::optional<topology::ShardId> shard,
            std::function<void(const ListEnvelope& list)> known);
  void start();
  /// Nothing comes any more.
  void stop() noexcept {
    call_.close();
    retry_.cancel();
  }

 private:
  void on_head(const http::ResponseHead& head) noexcept override { good_ = head.status == 200; }
  void on_data(std::string_view bytes) noexcept override;
  void on_end(Errc cause) noexcept override;

  MergeLoop& shared_;
  const http::RequestHead& head_;
  const MergeRoute& route_;
  std::string passed_on_;
  std::optional<topology::ShardId> shard_;
  std::function<void(const ListEnvelope&)> known_;
  MemberCall call_;
  ListSplitter splitter_;
  net::Timer retry_;
  std::size_t next_ = 0;
  bool good_ = false;
};

}  // namespace kintsugi::aggregation
