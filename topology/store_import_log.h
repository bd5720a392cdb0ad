#pragma once

#include <memory>

#include "base/alive.h"
#include "net/loop.h"
#include "store/store.h"
#include "topology/import.h"

namespace kintsugi::topology {

/// topology::ImportLog in the proxy's store: one key per entry, beside the objects. Lifetime: the
/// store outlives it.
class StoreImportLog final : public topology::ImportLog {
 public:
  StoreImportLog(net::Loop& loop, store::Store& store);
  ~StoreImportLog() override;
  [[nodiscard]] bool has(std::string_view key) const override;
  void add(std::string_view key, std::function<void(bool ok)> done) override;

 private:
  net::Loop& loop_;
  store::Store& store_;
  Alive alive_;
};

}  // namespace kintsugi::topology
