#pragma once

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "store/internal/book_keeper.h"
#include "store/internal/subscribers.h"
#include "store/store.h"

namespace kintsugi::store {

/// The Store contract on a std::map, for unit tests of other modules. Nothing is durable and
/// history is kept until compact(). Commits are applied at once; listeners and the callback run
/// inside commit(), unless another thread (or an outer commit on this one) is delivering: then that
/// one delivers, in order.
class MemoryStore final : public Store {
 public:
  explicit MemoryStore(const BookRules& rules = {}) : books_(rules) {}
  [[nodiscard]] Revision current() const noexcept override;
  [[nodiscard]] Revision compacted() const noexcept override;
  [[nodiscard]] Expected<Entry> get(std::string_view key) const override;
  [[nodiscard]] Expected<Revision> range(const RangeQuery& query,
                                         const Visitor& visit) const override;
  [[nodiscard]] Expected<std::uint64_t> count(const RangeQuery& query) const override;
  void commit(std::vector<Op> ops, CommitCallback done) override;
  [[nodiscard]] Expected<Changes> changes(std::string_view prefix, Revision after,
                                          std::size_t limit) const override;
  [[nodiscard]] Subscription subscribe(std::function<void(const EventBatch&)> listener) override;
  void compact(Revision revision) override;
  [[nodiscard]] StoreStats stats() const override;
  [[nodiscard]] Books* books() noexcept override { return books_.is_open() ? &books_ : nullptr; }
  [[nodiscard]] Expected<void> health() const override { return {}; }
  /// From now on commits and reads of single keys fail so; kOk: they work again.
  void fail_with(Errc fault) noexcept { fault_ = fault; }
  /// So many of the next commits that make a new key find it taken.
  void lose_races(std::size_t count) noexcept { lost_races_ = count; }
  /// Happens once, just before the next commit that makes a new key.
  void meanwhile(std::function<void()> what) { meanwhile_ = std::move(what); }

 private:
  struct Version {
    Revision created = 0;
    Revision modified = 0;
    Revision end = 0;  ///< revision that replaced or deleted it; 0: live
    SharedBytes value;
  };
  struct Delivery {
    Revision revision = 0;
    EventBatch batch;
    CommitCallback done;
    Expected<CommitResult> result;
  };

  [[nodiscard]] const Version* live(std::string_view key) const;
  [[nodiscard]] Expected<CommitResult> apply(std::vector<Op>& ops, std::vector<Event>& events);
  [[nodiscard]] Expected<std::vector<Entry>> collect(const RangeQuery& query, Revision& at) const;

  mutable std::mutex mutex_;
  Errc fault_ = Errc::kOk;
  std::size_t lost_races_ = 0;
  std::function<void()> meanwhile_;
  Revision current_ = 0;
  Revision compacted_ = 0;
  std::map<std::string, std::vector<Version>, std::less<>> keys_;
  std::deque<Event> log_;
  std::deque<Delivery> deliveries_;
  bool delivering_ = false;
  std::uint64_t commits_ = 0;
  std::uint64_t conflicts_ = 0;
  BookKeeper books_;
  SubscriberList subscribers_;
};

}  // namespace kintsugi::store
