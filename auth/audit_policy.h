#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "auth/user.h"
#include "base/error.h"
#include "krm/request_info.h"

namespace kintsugi::auth {

/// Which requests an audit log has lines for: a Policy of audit.k8s.io/v1. The first rule that
/// matches a request counts; where none does, nothing is written. Immutable. Threads: any.
class AuditPolicy {
 public:
  enum class Level : std::uint8_t { kNone, kMetadata, kRequest, kRequestResponse };
  struct Verdict {
    Level level = Level::kNone;
    bool started = true, complete = true;  ///< stages that are written
  };

  /// Every request at level Metadata.
  AuditPolicy();
  /// @param file for messages.
  /// @error kConfig "<file>:<line>: <key>: <what is wrong>": no Policy, no rules, unknown keys, and
  ///        what Kubernetes refuses.
  [[nodiscard]] static Expected<AuditPolicy> parse(std::string_view yaml, const std::string& file);

  /// @param user null: nobody who is known. O(rules).
  [[nodiscard]] Verdict judge(const krm::RequestInfo& info, const UserInfo* user) const;
  /// A rule wants more than Metadata.
  [[nodiscard]] bool wants_bodies() const;

  struct Resources {
    std::string group;
    std::vector<std::string> resources, names;
  };
  struct Rule {
    Level level = Level::kNone;
    std::vector<std::string> users, groups, verbs, namespaces, urls, omitted;
    std::vector<Resources> resources;
  };

 private:
  explicit AuditPolicy(std::vector<Rule> rules) : rules_(std::move(rules)) {}
  std::vector<Rule> rules_;
};

}  // namespace kintsugi::auth
