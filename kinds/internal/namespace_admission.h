#pragma once

#include <vector>

#include "apiserver/admission.h"
#include "apiserver/resource.h"
#include "base/error.h"
#include "store/store.h"

namespace kintsugi::kinds {

/// A new object of a namespaced kind needs a Namespace (AM-159) that is not on its way out
/// (AM-160), where the registry serves Namespaces at all. Threads: one loop.
class NamespaceAdmission final : public apiserver::AdmissionStep {
 public:
  NamespaceAdmission(const store::Store& store, const apiserver::Registry& registry)
      : store_(store), registry_(registry) {}

  /// @returns the Namespace. @error kNotFound; kForbidden it is being terminated
  [[nodiscard]] Expected<std::vector<store::Op>> check_new(
      const apiserver::PendingWrite& write) const override;

 private:
  const store::Store& store_;
  const apiserver::Registry& registry_;
};

}  // namespace kintsugi::kinds
