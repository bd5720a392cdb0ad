#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "aggregation/asking/asking.h"
#include "aggregation/asking/shard_question.h"
#include "aggregation/bytes/json_list.h"
#include "aggregation/list/shard_pages.h"
#include "net/loop.h"

namespace kintsugi::aggregation {

/// Asks one shard for a list of at most one object, to learn what a stream's objects are, or how
/// far the shard is (AGG-512, AGG-522). Tries again until it knows. Threads:
/// its loop.
class ListProbe final : private ShardPages::Listener {
 public:
  /// @param question  outlives this. @param shard  nullopt: any, one after another
  /// @param known  must not destroy it
  ListProbe(Asking& shared, ShardQuestion& question, std::optional<topology::ShardId> shard,
            std::function<void(const ListEnvelope& list)> known);
  void start();
  /// Nothing comes any more.
  void stop() noexcept {
    if (pages_ != nullptr) {
      pages_->close();
    }
    retry_.cancel();
  }

 private:
  void on_item(std::string_view, const ListEnvelope&) override {}
  void on_bytes(std::size_t count) override { pages_->consume(count); }
  void on_pages_end(ShardPages::End end) override;
  void again();

  Asking& shared_;
  ShardQuestion& question_;
  std::optional<topology::ShardId> shard_;
  std::function<void(const ListEnvelope&)> known_;
  std::unique_ptr<ShardPages> pages_;
  net::Timer retry_;
  std::size_t next_ = 0;
};

}  // namespace kintsugi::aggregation
