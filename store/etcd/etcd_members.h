#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "store/etcd/etcd_store.h"

namespace kintsugi::store {

/// The members of one etcd, for tools that tend them. Calls block; one thread.
class EtcdMembers {
 public:
  struct Member {
    std::string url;
    std::uint64_t bytes = 0;  ///< of its file
    bool is_leader = false;
  };

  /// @param params  its prefix is not used. @error kConfig, kUnavailable as EtcdStore::open().
  [[nodiscard]] static Expected<std::unique_ptr<EtcdMembers>> open(EtcdParams params);
  ~EtcdMembers();
  EtcdMembers(const EtcdMembers&) = delete;
  EtcdMembers& operator=(const EtcdMembers&) = delete;

  /// The endpoints as they are now, the leader last. @error kUnavailable names one that does not
  /// answer, or that knows of no leader; kConfig the endpoints are of different clusters.
  [[nodiscard]] Expected<std::vector<Member>> look();
  /// URLs of members that no endpoint leads to.
  [[nodiscard]] Expected<std::vector<std::string>> others();
  /// Blocks the member as long as it writes its file anew; a few seconds a GiB (GR-126).
  /// @error kUnavailable says why; it may have been done.
  [[nodiscard]] Expected<void> defragment(const std::string& url);

 private:
  struct Parts;
  explicit EtcdMembers(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace kintsugi::store
