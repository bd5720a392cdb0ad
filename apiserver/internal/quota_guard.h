#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/internal/write_op.h"
#include "base/error.h"
#include "base/strings.h"
#include "store/store.h"

namespace kintsugi::apiserver::internal {

/// Which namespaces have ResourceQuotas. A quota is known here before anybody is told that it was
/// made. Cost of has() without any quota in the store: one atomic read.
/// Threads: has() on any; fed on the store's writer thread, which only looks at keys.
class QuotaIndex {
 public:
  explicit QuotaIndex(store::Store& store);
  QuotaIndex(const QuotaIndex&) = delete;
  QuotaIndex& operator=(const QuotaIndex&) = delete;

  [[nodiscard]] bool has(std::string_view cluster, std::string_view ns) const;

 private:
  void apply(std::string_view key, bool present);

  mutable std::mutex mutex_;
  StringMap<std::set<std::string, std::less<>>> spaces_;  ///< keys of quotas by their prefix
  std::atomic<std::size_t> size_ = 0;                     ///< of spaces_
  std::shared_ptr<void> subscription_;                    ///< last: ends before the rest goes
};

/// Key of the queue in which creates of a namespace with quotas wait for each other: each has to
/// see what the one before has used.
[[nodiscard]] std::string quota_queue_key(const WriteOp& op);

/// The writes that charge the quotas of the namespace for op's new object: they belong into its
/// transaction and expect the quotas as they are now, so that of two creates that saw the same use
/// only one is stored. @error kForbidden when a quota has no room
[[nodiscard]] Expected<std::vector<store::Op>> charge_quotas(const WriteOp& op);

}  // namespace kintsugi::apiserver::internal
