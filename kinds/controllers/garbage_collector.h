#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "apiserver/controllers/controller.h"
#include "base/strings.h"

namespace kintsugi::kinds {

/// Deletes objects whose owners are gone, makes owners wait for their dependents (finalizer
/// foregroundDeletion) and sets dependents free (finalizer orphan). Owners are matched by uid and
/// only inside their logical cluster (AM-342 to AM-353).
/// Shape: an index of the objects that have owners, nothing about others.
/// What cannot be resolved now (unknown owner kind, definitions still loading) is never deleted and
/// tried again with back-off.
class GarbageCollector final : public apiserver::ControllerBase {
 public:
  explicit GarbageCollector(const apiserver::ControllerContext& context);
  void start() override;
  void add_cluster(std::string_view cluster) override;
  void remove_cluster(std::string_view cluster) override;
  /// Objects with owners that are known.
  [[nodiscard]] std::size_t tracked() const noexcept { return nodes_.size(); }

 private:
  struct Owner {
    std::string uid;
    bool blocks = false;  ///< blockOwnerDeletion
  };
  struct Node {
    std::string uid;
    std::vector<Owner> owners;
  };
  /// What a reference points at.
  enum class OwnerState : std::uint8_t { kSolid, kWaiting, kDangling, kUnknown, kNever };

  void process(const std::string& key, Finished finished) override;
  void on_change(const apiserver::ApiServer::Change& change);
  void note(const std::string& key, const std::string& cluster, const krm::Json& object);
  void forget(const std::string& key, const std::string& cluster);
  void wake_waiting(const std::string& cluster, const std::vector<Owner>& owners);

  void finish_foreground(const apiserver::ObjectKey& key, krm::Json object, Finished finished);
  void orphan_dependents(const apiserver::ObjectKey& key, krm::Json object, Finished finished);
  void collect(const apiserver::ObjectKey& key, krm::Json object, Finished finished);
  void delete_item(const apiserver::ObjectKey& key, krm::Json object, bool foreground,
                   Finished finished);

  [[nodiscard]] OwnerState state_of(const apiserver::ObjectKey& key, const krm::Json& object,
                                    const krm::Json& reference);
  [[nodiscard]] apiserver::ResourcePtr owner_kind(const std::string& cluster,
                                                  const krm::Json& reference);
  [[nodiscard]] bool lives_elsewhere(const std::string& cluster, const apiserver::ResourceDef& kind,
                                     const std::string& uid);
  void report_namespace(const apiserver::ObjectKey& key, const krm::Json& object,
                        const krm::Json& reference);
  /// Whether `from` (a uid that waits for its dependents) waits for `target`.
  [[nodiscard]] bool waits_for(const std::string& cluster, const std::string& from,
                               const std::string& target) const;
  [[nodiscard]] const std::set<std::string>* dependents_of(const std::string& cluster,
                                                           const std::string& uid) const;

  StringMap<Node> nodes_;                     // by packed key
  StringMap<std::set<std::string>> owned_;    // "cluster/uid" of the owner -> packed keys
  StringMap<std::string> waiting_;            // "cluster/uid" deleting in foreground -> packed key
  std::unordered_set<std::string> absent_;    // "cluster/uid" known to be gone
  std::unordered_set<std::string> reported_;  // "dependent uid/owner uid"
  StringMap<apiserver::ResourcePtr> kinds_;   // "cluster/apiVersion/kind", of generation below
  StringMap<std::uint64_t> generations_;      // by cluster
};

}  // namespace kintsugi::kinds
