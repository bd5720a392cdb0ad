#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

/// The key `marks`: revisions of etcd that who compacts has seen, one each `every` by its own
/// clock, the newest last (GR-117, GR-118). No clock is compared with another's: how old one is
/// tells its place. Pure.
namespace kintsugi::store::etcd {

inline constexpr std::size_t kMostMarks = 128;

struct Marks {
  Duration every{};
  std::vector<std::uint64_t> revisions;
};

[[nodiscard]] std::string encode(const Marks& marks);
/// None of a text that nobody of ours has written.
[[nodiscard]] Marks parse_marks(std::string_view text);
/// The revision that is about `age` old, or the oldest; 0: there is none.
[[nodiscard]] std::uint64_t begin_of(const Marks& marks, Duration age);

}  // namespace kintsugi::store::etcd
