#pragma once

#include <optional>
#include <string>
#include <tuple>

namespace kintsugi::cel {

/// What `authorizer` is asked in an expression.
struct AccessQuestion {
  std::string account_namespace, account;  ///< a service account; "": the user of the request
  std::string path;                        ///< "": a resource
  std::string group, resource, subresource, ns, name, field_selector, label_selector;
  std::string verb;

  [[nodiscard]] auto tied() const {
    return std::tie(account_namespace, account, path, group, resource, subresource, ns, name,
                    field_selector, label_selector, verb);
  }
  bool operator<(const AccessQuestion& other) const { return tied() < other.tied(); }
};

struct AccessAnswer {
  bool allowed = false;
  std::string reason;
  std::string error;  ///< "": none
};

/// Who answers. Threads: that of the evaluation.
class AccessOracle {
 public:
  virtual ~AccessOracle() = default;
  /// nullopt: not known yet. The evaluation then fails, and is made again when the answer is there;
  /// the oracle remembers the question.
  [[nodiscard]] virtual std::optional<AccessAnswer> ask(const AccessQuestion& question) = 0;
};

}  // namespace kintsugi::cel
