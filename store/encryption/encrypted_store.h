#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/encryption/value_codec.h"
#include "store/outdated.h"
#include "store/store.h"

namespace kintsugi::store {

/// A store in front of another one: what the configuration names lies encrypted in that one, with
/// history, events and what backups copy, and is plain here (SE-149, SE-150).
/// is_stored_outdated() tells values that a write of the same text would store otherwise.
/// Errors besides Store's: kInternal for what does not open. A range() ends there: a list without
/// the object would look whole.
/// Cost for other resources: a comparison per read value, of the resource per write.
/// Threads: as Store.
class EncryptedStore final : public Store, public KeepsForms {
 public:
  /// `inner` must outlive it.
  explicit EncryptedStore(Store& inner,
                          std::shared_ptr<const ValueCodec> codec = ValueCodec::none());

  /// From now on this one writes and reads. Events of transactions that are on their way are still
  /// opened with the keys from before; these stay in memory until the store goes.
  void set_codec(std::shared_ptr<const ValueCodec> codec);

  [[nodiscard]] Revision current() const noexcept override { return inner_.current(); }
  [[nodiscard]] Revision compacted() const noexcept override { return inner_.compacted(); }
  [[nodiscard]] Expected<Entry> get(std::string_view key) const override;
  [[nodiscard]] Expected<Revision> range(const RangeQuery& query,
                                         const Visitor& visit) const override;
  [[nodiscard]] Expected<std::uint64_t> count(const RangeQuery& query) const override {
    return inner_.count(query);
  }
  void commit(std::vector<Op> ops, CommitCallback done) override;
  void synchronize(SynchronizeCallback done) override { inner_.synchronize(std::move(done)); }
  [[nodiscard]] Limits limits() const noexcept override { return inner_.limits(); }
  [[nodiscard]] bool is_shared() const noexcept override { return inner_.is_shared(); }
  [[nodiscard]] std::shared_ptr<void> compete(std::string duty, DutyListener listener) override {
    return inner_.compete(std::move(duty), std::move(listener));
  }
  [[nodiscard]] Expected<Changes> changes(std::string_view prefix, Revision after,
                                          std::size_t limit) const override;
  [[nodiscard]] Subscription subscribe(std::function<void(const EventBatch&)> listener) override;
  void compact(Revision revision) override { inner_.compact(revision); }
  [[nodiscard]] StoreStats stats() const override { return inner_.stats(); }
  [[nodiscard]] Books* books() noexcept override { return inner_.books(); }
  [[nodiscard]] Expected<void> health() const override { return inner_.health(); }
  [[nodiscard]] bool is_outdated(std::string_view key, Revision modified) const override;

 private:
  /// What all subscriptions share; a running delivery may outlive the store that began it.
  struct Shared;

  [[nodiscard]] const ValueCodec& codec() const noexcept;

  Store& inner_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace kintsugi::store
