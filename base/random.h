#pragma once

#include <cstdint>
#include <cstring>

#include "base/strings.h"

namespace kintsugi {

/// Any number, each as likely, which nobody can foresee (random_bytes()). Threads: any.
[[nodiscard]] inline std::uint64_t random_number() {
  std::uint64_t out = 0;
  std::memcpy(&out, random_bytes(sizeof(out)).data(), sizeof(out));
  return out;
}

}  // namespace kintsugi
