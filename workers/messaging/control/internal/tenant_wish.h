#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "krm/json.h"
#include "workers/messaging/model/objects.h"

namespace kintsugi::workers {

// The tenant that a namespace's annotations ask for (MS-027). Functions of their inputs alone.
// Threads: any.

/// A namespace and what stands in it.
struct TenantWish {
  std::string_view cluster, ns, uid;       ///< of the namespace
  const MessagingSpace* wanted = nullptr;  ///< by its annotations; nullptr: none
  bool unknown_value = false;              ///< of enmasse.io/messaging: nothing is changed by it
  bool deleting = false;                   ///< the namespace
  const MessagingSpace* tenant = nullptr;  ///< MessagingTenant `default`
  bool tenant_deleting = false;
  bool project = false;  ///< there is a MessagingProject: an explicit one
};
struct TenantStep {
  enum class Kind { kNothing, kCreate, kPatch, kDelete } kind = Kind::kNothing;
  std::string body;  ///< the object, a merge patch, or DeleteOptions with the uid
};
/// An explicit tenant or project wins: then an owned tenant goes, and no other comes.
[[nodiscard]] TenantStep tenant_step(const TenantWish& wish);

}  // namespace kintsugi::workers
