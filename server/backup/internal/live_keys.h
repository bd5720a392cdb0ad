#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kintsugi::server {

/// Which keys a store has, by 16 bytes of each: what an incremental backup knows of deletions
/// (GR-405). The digests are of SHA-256: who may choose names does not choose digests.
class LiveKeys {
 public:
  using Digest = std::array<char, 16>;
  [[nodiscard]] static Digest digest_of(std::string_view key);

  void add(const Digest& digest) { digests_.push_back(digest); }
  /// After the last one was added.
  void sort();
  [[nodiscard]] bool has(std::string_view key) const { return index_of(key).has_value(); }
  /// A number of its own below size().
  [[nodiscard]] std::optional<std::size_t> index_of(std::string_view key) const;
  [[nodiscard]] std::uint64_t size() const noexcept { return digests_.size(); }

 private:
  std::vector<Digest> digests_;
};

}  // namespace kintsugi::server
