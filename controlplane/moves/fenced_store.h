#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "store/outdated.h"
#include "store/store.h"

namespace kintsugi::controlplane {

/// A store in which no row of a logical cluster is written while that is fenced (move_book.h): each
/// transaction expects that there is no fence of the cluster of its first row, so that nothing is
/// committed behind one, whoever knew of it when (GR-602). Everything else is the other store's,
/// which outlives this. Threads: as that.
class FencedStore final : public store::Store, public store::KeepsForms {
 public:
  explicit FencedStore(store::Store& store) : store_(store) {}

  [[nodiscard]] store::Revision current() const noexcept override { return store_.current(); }
  [[nodiscard]] store::Revision compacted() const noexcept override { return store_.compacted(); }
  [[nodiscard]] Expected<store::Entry> get(std::string_view key) const override {
    return store_.get(key);
  }
  [[nodiscard]] Expected<store::Revision> range(const store::RangeQuery& query,
                                                const store::Visitor& visit) const override {
    return store_.range(query, visit);
  }
  [[nodiscard]] Expected<std::uint64_t> count(const store::RangeQuery& query) const override {
    return store_.count(query);
  }
  /// @error (in done) also kUnavailable: the cluster is fenced
  void commit(std::vector<store::Op> ops, store::CommitCallback done) override;
  void synchronize(store::SynchronizeCallback done) override {
    store_.synchronize(std::move(done));
  }
  [[nodiscard]] store::Limits limits() const noexcept override { return store_.limits(); }
  [[nodiscard]] Expected<Changes> changes(std::string_view prefix, store::Revision after,
                                          std::size_t limit) const override {
    return store_.changes(prefix, after, limit);
  }
  [[nodiscard]] Subscription subscribe(
      std::function<void(const store::EventBatch&)> listener) override {
    return store_.subscribe(std::move(listener));
  }
  void compact(store::Revision revision) override { store_.compact(revision); }
  [[nodiscard]] store::StoreStats stats() const override { return store_.stats(); }
  [[nodiscard]] store::Books* books() noexcept override { return store_.books(); }
  [[nodiscard]] Expected<void> health() const override { return store_.health(); }
  [[nodiscard]] bool is_outdated(std::string_view key, store::Revision modified) const override {
    return store::is_stored_outdated(store_, key, modified);
  }

 private:
  store::Store& store_;
};

}  // namespace kintsugi::controlplane
