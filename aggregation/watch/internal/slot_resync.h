#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "aggregation/asking/asking.h"
#include "aggregation/asking/shard_question.h"
#include "aggregation/bytes/json_split.h"
#include "aggregation/list/shard_pages.h"
#include "aggregation/watch/internal/key_index.h"
#include "net/loop.h"

namespace kintsugi::aggregation {

/// Lists one shard's objects after its history was lost, and tells the difference to what an index
/// knows as events (AGG-1002). Tries again until the shard answers. Threads:
/// its loop.
class SlotResync final : private ShardPages::Listener {
 public:
  /// None of these may destroy the resync.
  class Sink {
   public:
    /// An event without a newline, for a client that had what the index said.
    virtual void on_difference(SlotResync& from, const ObjectFacts& facts,
                               std::string_view event) = 0;
    /// Everything was told: a watch goes on at `revision`.
    virtual void on_resynced(SlotResync& from, std::uint64_t revision) = 0;
    /// It cannot be had in this way: clients have to list themselves.
    virtual void on_resync_failed(SlotResync& from) = 0;

   protected:
    ~Sink() = default;
  };

  /// @param question  outlives this; its shape is known
  SlotResync(Asking& shared, Sink& sink, Member member, ShardQuestion& question,
             std::unique_ptr<KeyIndex> index);
  void start();
  /// The sink hears nothing more.
  void stop() noexcept;
  [[nodiscard]] const Member& member() const noexcept { return member_; }
  [[nodiscard]] std::unique_ptr<KeyIndex> take_index() noexcept { return std::move(index_); }

 private:
  void on_item(std::string_view raw, const ListEnvelope& envelope) override;
  void on_bytes(std::size_t count) override { pages_->consume(count); }
  void on_pages_end(ShardPages::End end) override;
  void again();

  Asking& shared_;
  Sink& sink_;
  Member member_;
  ShardQuestion& question_;
  std::unique_ptr<KeyIndex> index_;
  std::unique_ptr<ShardPages> pages_;
  net::Timer retry_;
  Duration backoff_;
  bool broken_ = false;
};

}  // namespace kintsugi::aggregation
