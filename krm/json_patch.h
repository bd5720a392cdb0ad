#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "krm/json.h"

namespace kintsugi::krm {

/// A JSON patch (RFC 6902) as Kubernetes applies it: `replace` of an absent member adds it
/// (AM-195), `test` takes an absent member for null, negative array indices count from the end, a
/// path's text before its first `/` is ignored, an absent `value` is null, `copy` of an absent
/// member copies null,  holds 3 and 3.0 to be different. Source: AM-062,
/// AM-194 to AM-206.
class JsonPatch {
 public:
  static constexpr std::size_t kMaxOperations = 10'000;    ///< AM-062
  static constexpr std::size_t kMaxCopyBytes = 3U << 20U;  ///< JSON text that `copy` may add

  /// @error kBadRequest "error decoding patch: …" for what is no list of objects (AM-198) with
  /// texts
  ///        for op, path and from.
  /// @error kRequestEntityTooLarge more than kMaxOperations operations.
  [[nodiscard]] static Expected<JsonPatch> parse(std::string_view body);

  /// What strict field validation says: `json patch duplicate field "[0].op"`, `json patch unknown
  /// field "[1].bar"` (AM-151).
  [[nodiscard]] const std::vector<std::string>& strict_errors() const noexcept {
    return strict_errors_;
  }

  /// All operations in order, or none.
  /// @error kInvalid krm::invalid_patch() when one does not apply (AM-012, AM-196); the reason is
  ///        put into `why`, for logs.
  [[nodiscard]] Expected<Json> apply(Json document, std::string* why = nullptr) const;

 private:
  struct Operation {
    std::string op;
    bool has_path = false;
    bool has_from = false;
    std::string path;
    std::string from;
    Json value;
  };
  friend class JsonPatchRun;
  std::vector<Operation> operations_;
  std::vector<std::string> strict_errors_;
};

}  // namespace kintsugi::krm
