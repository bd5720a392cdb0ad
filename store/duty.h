#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/forwarding_store.h"
#include "store/store.h"

/// Duties: what one at a time of the processes that share a store does, and what keeps one from
/// writing that has lost its duty and does not know yet (GR-207, GR-208).
namespace kintsugi::store {

/// No row has a key that begins so: what follows is the name of a duty. As a guard it says that the
/// duty has not been taken over since a revision.
inline constexpr std::string_view kFencePrefix{
    "\x01"
    "fence/",
    7};

[[nodiscard]] inline Op fence_guard(const Fence& fence) {
  return unchanged(std::string(kFencePrefix) + fence.duty, fence.revision);
}

/// Applies the operations if the duty is still held, else nothing. One operation more than `ops`.
/// @error (in done) also kUnavailable: somebody else has taken it over.
void commit_fenced(Store& store, std::vector<Op> ops, const std::optional<Fence>& fence,
                   CommitCallback done);

/// A store that is written while a duty is held, and not at all when it is not any more.
class DutyStore final : public ForwardingStore {
 public:
  /// @param inner  outlives it
  DutyStore(Store& inner, Fence fence) : ForwardingStore(inner), fence_(std::move(fence)) {}
  void commit(std::vector<Op> ops, CommitCallback done) override {
    commit_fenced(inner(), std::move(ops), fence_, std::move(done));
  }
  [[nodiscard]] Limits limits() const noexcept override {
    Limits limits = inner().limits();
    --limits.ops;
    return limits;
  }

 private:
  const Fence fence_;
};

}  // namespace kintsugi::store
