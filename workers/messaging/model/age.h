#pragma once

#include <compare>
#include <cstdint>

#include "workers/messaging/model/objects.h"

namespace kintsugi::workers {

/// An object in this process; numbers are small and used again.
using ObjectId = std::uint32_t;

/// A place in the order "oldest first" without the object's texts, 16 bytes: creation, then what
/// the uid begins with, then the object's number. Equal in every process up to uids that begin
/// alike.
struct Age {
  std::uint64_t uid = 0;      ///< its first 16 digits, or 8 bytes of what is no UUID
  std::uint32_t created = 0;  ///< seconds since 1970
  ObjectId object = 0;
  bool operator==(const Age&) const = default;
  [[nodiscard]] std::strong_ordering operator<=>(const Age& other) const noexcept {
    if (created != other.created) {
      return created <=> other.created;
    }
    return uid != other.uid ? uid <=> other.uid : object <=> other.object;
  }
};

[[nodiscard]] Age age_of(const ObjectIdentity& id, ObjectId object) noexcept;

}  // namespace kintsugi::workers
