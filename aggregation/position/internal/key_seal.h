#pragma once

#include <string>
#include <string_view>

#include "aggregation/position/continue_token.h"
#include "base/error.h"
#include "base/secret.h"

namespace kintsugi::aggregation {

/// What the keys of tokens look like in a store that others can read (GR-203): "sealed:" and
/// AES-256-GCM under a key of ours, or as they are where there is none.
struct KeySeal {
  TokenKeys keys;  ///< the first seals, all open; none: nothing is sealed

  /// @param name  of the record, which it is bound to
  [[nodiscard]] std::string seal(std::string_view name, const Secret& plain) const;
  /// @error kConfig it is sealed, and none of the keys opens it
  [[nodiscard]] Expected<Secret> open(std::string_view name, std::string_view stored) const;
  /// It is as seal() makes it, as far as can be seen without a key.
  [[nodiscard]] bool fits(std::string_view stored) const noexcept;
};

}  // namespace kintsugi::aggregation
