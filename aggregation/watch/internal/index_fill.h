#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "aggregation/asking/shard_question.h"
#include "aggregation/bytes/watch_coding.h"
#include "aggregation/list/shard_pages.h"
#include "aggregation/watch/internal/member_watch.h"
#include "aggregation/watch/watches.h"
#include "net/loop.h"

namespace kintsugi::aggregation {

/// Learns what the readers of a stream have that began at a cursor, so that a lost history can be
/// repaired for them too (AGG-1002): some time after the stream began it lists
/// the shard's objects as they were at the stream's position, and what the stream tells meanwhile
/// takes precedence. Only a few of a loop at a time, and none while the indexes take all the memory
/// that they may. Threads: its loop.
class IndexFill final : private ShardPages::Listener {
 public:
  /// @param stream  the stream that has the index, until stop()
  /// @param question  outlives this
  IndexFill(Watches& watches, std::function<MemberWatch*()> stream,
            std::function<std::unique_ptr<KeyIndex>(const Member&)> make_index,
            ShardQuestion& question);
  ~IndexFill() { stop(); }
  IndexFill(const IndexFill&) = delete;
  IndexFill& operator=(const IndexFill&) = delete;

  void start();
  /// Nothing comes any more.
  void stop() noexcept;

 private:
  void on_item(std::string_view item, const ListEnvelope& envelope) override;
  void on_bytes(std::size_t count) override;
  void on_pages_end(ShardPages::End end) override;

  void list();
  void wait(Duration delay);
  void give_turn() noexcept;
  /// The index that is being filled; null: somebody has taken it away.
  [[nodiscard]] KeyIndex* index() const;

  Watches& watches_;
  Asking& shared_;
  std::function<MemberWatch*()> stream_;
  std::function<std::unique_ptr<KeyIndex>(const Member&)> make_index_;
  ShardQuestion& question_;
  net::Timer timer_;
  std::unique_ptr<ShardPages> pages_;
  Duration delay_;
  bool has_turn_ = false;
  bool broken_ = false;
};

}  // namespace kintsugi::aggregation
