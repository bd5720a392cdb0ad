#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kintsugi::topology {

/// The identities of kcp's own exports, which stand behind the names of their resources where all
/// logical clusters are read (FP-164). Threads: any.
class Identities {
 public:
  /// @param export_name  in root: a group, or "<resource>.<group>" where it has not all of one
  void set(std::string_view export_name, std::string_view hash);
  /// "": none is known, or the resource is nobody's. @param resource  "": any of the group
  [[nodiscard]] std::string of(std::string_view group, std::string_view resource) const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<std::string, std::string>> hashes_;
};

}  // namespace kintsugi::topology
