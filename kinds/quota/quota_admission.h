#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/admission.h"
#include "base/error.h"
#include "base/strings.h"
#include "store/store.h"

namespace kintsugi::kinds {

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

/// Charges the ResourceQuotas of its namespace for every new object, in its own transaction, so
/// that of two creates that saw the same use only one is stored. Rules: quota.h; what is deleted is
/// given back by controllers/quota_usage.h. Threads: one loop.
class QuotaAdmission final : public apiserver::AdmissionStep {
 public:
  explicit QuotaAdmission(store::Store& store) : store_(store), quotas_(store) {}

  /// @error kForbidden when a quota has no room
  [[nodiscard]] Expected<std::vector<store::Op>> charge(
      const apiserver::PendingWrite& write) const override;

 private:
  store::Store& store_;
  QuotaIndex quotas_;
};

}  // namespace kintsugi::kinds
