#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/internal/subscribers.h"
#include "store/outdated.h"
#include "store/store.h"

namespace kintsugi::store {

/// Stands for a store that others write, too, and that cannot be opened yet (GR-205). Until open()
/// everything fails with kUnavailable and nobody has a duty; from then on it is that store.
/// Threads: as Store.
class LateStore final : public Store, public KeepsForms {
 public:
  ~LateStore() override;
  /// Once. Whoever has subscribed before gets what happens from now on, and before that one event
  /// of kNoRow with the revision after which that begins: what was there already is read.
  void open(std::unique_ptr<Store> store);
  [[nodiscard]] bool is_open() const noexcept { return inner() != nullptr; }
  /// No key of a row.
  static constexpr std::string_view kNoRow = "kintsugi.late/opened";

  [[nodiscard]] Revision current() const noexcept override;
  [[nodiscard]] Revision compacted() const noexcept override;
  [[nodiscard]] Expected<Entry> get(std::string_view key) const override;
  [[nodiscard]] Expected<Revision> range(const RangeQuery& query,
                                         const Visitor& visit) const override;
  [[nodiscard]] Expected<std::uint64_t> count(const RangeQuery& query) const override;
  void commit(std::vector<Op> ops, CommitCallback done) override;
  void synchronize(SynchronizeCallback done) override;
  [[nodiscard]] Limits limits() const noexcept override;
  [[nodiscard]] bool is_shared() const noexcept override { return true; }
  [[nodiscard]] std::shared_ptr<void> compete(std::string duty, DutyListener listener) override;
  [[nodiscard]] Expected<Changes> changes(std::string_view prefix, Revision after,
                                          std::size_t limit) const override;
  [[nodiscard]] Subscription subscribe(std::function<void(const EventBatch&)> listener) override;
  void compact(Revision revision) override;
  [[nodiscard]] StoreStats stats() const override;
  [[nodiscard]] Books* books() noexcept override;
  [[nodiscard]] Expected<void> health() const override;
  [[nodiscard]] bool is_outdated(std::string_view key, Revision modified) const override;

 private:
  /// Of a duty that is wanted; its token.
  struct Competitor {
    std::string duty;
    DutyListener listener;
    std::shared_ptr<void> token;  ///< of the store
  };
  [[nodiscard]] Store* inner() const noexcept { return opened_.load(std::memory_order_acquire); }

  mutable std::mutex opening_;  ///< held while it is opened, and by who comes before that
  SubscriberList early_;
  std::vector<std::weak_ptr<Competitor>> competitors_;
  std::unique_ptr<Store> store_;
  std::atomic<Store*> opened_ = nullptr;
  std::shared_ptr<void> subscription_;  ///< for `early_`
};

}  // namespace kintsugi::store
