#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "aggregation/bytes/json_split.h"
#include "aggregation/bytes/proto_split.h"
#include "aggregation/bytes/watch_coding.h"
#include "aggregation/member_call.h"
#include "aggregation/merge_loop.h"
#include "aggregation/watch/internal/key_index.h"
#include "net/loop.h"

namespace kintsugi::aggregation {

/// Lists one shard's objects after its history was lost, and tells the difference to what an index
/// knows as events (AGG-1002). Tries again until the shard answers. Threads:
/// its loop.
class SlotResync final : private MemberCall::Listener {
 public:
  /// None of these may destroy the resync.
  class Sink {
   public:
    /// An event without a newline, for a client that had what the index said.
    virtual void on_difference(SlotResync& from, const ObjectFacts& facts,
                               std::string_view event) noexcept = 0;
    /// Everything was told: a watch goes on at `revision`.
    virtual void on_resynced(SlotResync& from, std::uint64_t revision) noexcept = 0;
    /// It cannot be had in this way: clients have to list themselves.
    virtual void on_resync_failed(SlotResync& from) noexcept = 0;

   protected:
    ~Sink() = default;
  };

  /// @param head  as the watch was asked for; like `route`, `passed_on` and `shape`, which is
  /// known, it has to outlive this.
  SlotResync(MergeLoop& shared, Sink& sink, Member member, const http::RequestHead& head,
             const MergeRoute& route, const std::string& passed_on, const StreamShape& shape,
             std::unique_ptr<KeyIndex> index);
  void start();
  /// The sink hears nothing more.
  void stop() noexcept;
  [[nodiscard]] const Member& member() const noexcept { return member_; }
  [[nodiscard]] std::unique_ptr<KeyIndex> take_index() noexcept { return std::move(index_); }

 private:
  void on_head(const http::ResponseHead& head) noexcept override;
  void on_data(std::string_view bytes) noexcept override;
  void on_end(Errc cause) noexcept override;
  void take(std::string_view raw);
  void again();

  MergeLoop& shared_;
  Sink& sink_;
  Member member_;
  const http::RequestHead& head_;
  const MergeRoute& route_;
  const std::string& passed_on_;
  const StreamShape& shape_;
  std::unique_ptr<KeyIndex> index_;
  MemberCall call_;
  ListSplitter splitter_;
  ProtoListSplitter messages_;
  net::Timer retry_;
  http::ResponseHead answer_;
  Duration backoff_;
  bool broken_ = false;
};

}  // namespace kintsugi::aggregation
