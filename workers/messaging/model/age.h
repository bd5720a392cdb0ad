#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>

#include "workers/messaging/model/objects.h"

namespace kintsugi::workers {

/// An object in this process; numbers are small and used again.
using ObjectId = std::uint32_t;

/// A place in the order "oldest first" without the object's texts, 32 bytes: creation, then the
/// first 16 bytes of the uid, then the object's number. Equal in every process up to uids that
/// begin alike.
struct Age {
  std::int64_t created = 0;
  std::array<char, 16> uid{};
  ObjectId object = 0;
  auto operator<=>(const Age&) const = default;
};

[[nodiscard]] inline Age age_of(const ObjectIdentity& id, ObjectId object) noexcept {
  Age age{id.created, {}, object};
  std::copy_n(id.uid.begin(), std::min(id.uid.size(), age.uid.size()), age.uid.begin());
  return age;
}

}  // namespace kintsugi::workers
