#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/outdated.h"
#include "store/store.h"

namespace kintsugi::store {

/// A store in front of another one, which outlives it: everything is the other's but what a derived
/// one says otherwise. Threads: as that.
class ForwardingStore : public Store, public KeepsForms {
 public:
  [[nodiscard]] Revision current() const noexcept override { return inner_.current(); }
  [[nodiscard]] Revision compacted() const noexcept override { return inner_.compacted(); }
  [[nodiscard]] Expected<Entry> get(std::string_view key) const override { return inner_.get(key); }
  [[nodiscard]] Expected<Revision> range(const RangeQuery& query,
                                         const Visitor& visit) const override {
    return inner_.range(query, visit);
  }
  [[nodiscard]] Expected<std::uint64_t> count(const RangeQuery& query) const override {
    return inner_.count(query);
  }
  void commit(std::vector<Op> ops, CommitCallback done) override {
    inner_.commit(std::move(ops), std::move(done));
  }
  void synchronize(SynchronizeCallback done) override { inner_.synchronize(std::move(done)); }
  [[nodiscard]] Limits limits() const noexcept override { return inner_.limits(); }
  [[nodiscard]] bool is_shared() const noexcept override { return inner_.is_shared(); }
  [[nodiscard]] std::shared_ptr<void> compete(std::string duty, DutyListener listener) override {
    return inner_.compete(std::move(duty), std::move(listener));
  }
  [[nodiscard]] Expected<Changes> changes(std::string_view prefix, Revision after,
                                          std::size_t limit) const override {
    return inner_.changes(prefix, after, limit);
  }
  [[nodiscard]] Subscription subscribe(std::function<void(const EventBatch&)> listener) override {
    return inner_.subscribe(std::move(listener));
  }
  void compact(Revision revision) override { inner_.compact(revision); }
  [[nodiscard]] StoreStats stats() const override { return inner_.stats(); }
  [[nodiscard]] Books* books() noexcept override { return inner_.books(); }
  [[nodiscard]] Expected<void> health() const override { return inner_.health(); }
  [[nodiscard]] bool is_outdated(std::string_view key, Revision modified) const override {
    return is_stored_outdated(inner_, key, modified);
  }

 protected:
  explicit ForwardingStore(Store& inner) : inner_(inner) {}
  [[nodiscard]] Store& inner() const noexcept { return inner_; }

 private:
  Store& inner_;
};

}  // namespace kintsugi::store
