#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "aggregation/position/continue_token.h"
#include "aggregation/position/internal/key_ring.h"
#include "aggregation/position/internal/key_seal.h"
#include "aggregation/position/internal/shared_record.h"
#include "aggregation/position/slot_table.h"
#include "base/alive.h"
#include "net/loop.h"
#include "store/store.h"
#include "topology/snapshot.h"

namespace kintsugi::aggregation {

/// Keeps what cursors and continue tokens mean (AGG-509, AGG-612) in the proxy's
/// store: the slot table, which follows the shards of the snapshot, and the key that tokens are
/// made with. A table is stored before any loop hears of it, so that no cursor outlives its
/// meaning. Where several proxies share the store, each writes what it has found out into the
/// records as they are, by comparison, and follows what others write (GR-202): they mint equal
/// cursors. With a shared file all that is in it instead; what others write there shows within a
/// tenth of a second. Threads: the control loop's.
class SlotKeeper {
 public:
  using Publish = std::function<void(SlotHistoryPtr, TokenKeys)>;
  /// @param publish  runs on the loop whenever there is something new.
  /// @param shared_file  of the SharedRecord; "": none
  SlotKeeper(net::Loop& loop, store::Store& store, topology::SnapshotPublisher& publisher,
             Publish publish, const std::string& shared_file = {});
  ~SlotKeeper();
  /// How many generations are kept besides those of a day.
  void keep_generations(std::size_t count) noexcept { kept_ = count; }
  SlotKeeper(const SlotKeeper&) = delete;
  SlotKeeper& operator=(const SlotKeeper&) = delete;

  /// The table is what the configuration says, once the snapshot has exactly these shards; a
  /// generation of 0: it follows the snapshot again. In a store that others share, too, a later
  /// generation stays: theirs is the newer configuration. @param uids  in the order of their slots
  void fix(std::uint32_t generation, std::vector<std::string> uids);

  /// Keys of continue tokens from a file; empty: those that are stored.
  void set_keys(TokenKeys keys);

  /// Keys in the store are sealed with the first of these, and open with each. Before take_epoch();
  /// later for what is written from then on.
  void seal_with(TokenKeys keys) { seal_.keys = std::move(keys); }

  /// Makes a key of continue tokens that follows the one there is (GR-210): it is known to all who
  /// share the store for a minute before it signs, and the old one is accepted for a day after
  /// that. `done` runs on the loop. @error kConflict one is on its way, or there are too many;
  /// kConfig the keys are those of a file; what commit() says
  void rotate_key(std::function<void(Expected<void>)> done);
  /// For tests: how long the next key is only known.
  void promote_after(Duration known) noexcept { known_for_ = known; }

  /// The shard has lost revisions that were seen of it (AGG-522).
  void mark_rolled_back(const std::string& uid);

  /// Counts the starts of processes (AGG-516). Waits for the disk: for start-up, before start().
  /// @return 1..kMaxEpoch, one more than ever before @error kCorrupt, kIo
  [[nodiscard]] Expected<std::uint32_t> take_epoch();

  /// Reads what is stored, makes the token key where there is none, and publishes. Waits for the
  /// disk: for start-up. @error kCorrupt, kIo
  [[nodiscard]] Expected<void> start();
  /// A shard of this uid has a slot.
  [[nodiscard]] bool knows(std::string_view uid) const {
    return history_->slot_of(uid).has_value();
  }
  /// start() found nothing stored.
  [[nodiscard]] bool is_new() const noexcept { return is_new_; }

 private:
  /// What there is to be said of the shards where others write the table, too.
  struct News {
    bool is_any = false;
    bool is_lost = false;          ///< a shard that is seen here has no slot
    std::set<std::string> missed;  ///< those for which that has been so for long
  };
  void look();
  [[nodiscard]] News news(const SlotChange& own);
  void look_fixed(SlotChange own);
  [[nodiscard]] std::optional<SlotHistory> fixed_table(SlotChange change) const;
  /// @param told  what it says of the shards here
  void store_table(SlotHistory next, SlotChange told);
  void stored(const SlotHistoryPtr& table, SlotChange told,
              const Expected<store::CommitResult>& result);
  void wait_for_more(Duration pause);
  void tell_of_table() const;
  void take_told(SlotChange told);
  void publish();
  // slot_keeper_records.cc
  [[nodiscard]] Expected<void> read_table();
  /// Whether it is another one than that which is known.
  [[nodiscard]] Expected<bool> read_key();
  [[nodiscard]] Expected<void> make_key();
  /// Where keys of before are not sealed, and are to be now.
  [[nodiscard]] Expected<void> seal_again();
  // slot_keeper_keys.cc
  void store_ring(const KeyRing& next, std::function<void(Expected<void>)> done);
  void ring_stored(const KeyRing& next, const Expected<store::CommitResult>& result,
                   const std::function<void(Expected<void>)>& done);
  void follow_ring();
  void turn_ring();
  void follow_store();
  void look_at_records();
  // slot_keeper_shared.cc
  [[nodiscard]] Expected<std::uint32_t> take_shared_epoch();
  void look_shared(SlotChange own);
  void adopt(SharedContent content);
  void follow_record();

  net::Loop& loop_;
  store::Store& store_;
  std::shared_ptr<topology::SnapshotView> view_;
  Publish publish_;
  SlotHistoryPtr history_ = std::make_shared<const SlotHistory>();
  store::Revision table_at_ = 0;  // of history_ in the store; 0: it is not there
  SlotHistoryPtr own_;            // instead of history_, which others have ahead of us; may be null
  TokenKeys keys_;                // that are stored
  KeyRing ring_;                  // the same
  KeySeal seal_;
  store::Revision ring_at_ = 0;  // of it in the store; 0: the first key is all
  Duration known_for_ = seconds(60);
  net::Timer ring_timer_;
  TokenKeys configured_keys_;  // go before them
  std::uint32_t fixed_generation_ = 0;
  std::size_t kept_ = kGenerationsKept;
  std::vector<std::string> fixed_uids_;
  std::vector<std::string> rolled_back_;  // not stored yet
  net::Timer timer_;
  std::unique_ptr<SharedRecord> shared_;
  std::optional<SlotChange> told_;            // to those who write the table, too; last
  std::map<std::string, TimePoint> missing_;  // in the table, since then
  net::Timer follow_timer_;
  std::shared_ptr<void> changes_;  // of the records, by others
  bool is_new_ = false;
  bool busy_ = false;     // a table is on its way to the disk
  bool waiting_ = false;  // for the second that changes share
  Alive alive_;
};

}  // namespace kintsugi::aggregation
