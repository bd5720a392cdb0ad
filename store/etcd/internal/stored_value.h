#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Values as etcd has them: the bytes of the store, then 20 bytes: the id of the transaction that
/// wrote it and a sum over key and value (GR-105).
namespace kintsugi::store::etcd {

inline constexpr std::size_t kIdBytes = 12;
inline constexpr std::size_t kTrailerBytes = kIdBytes + 8;

/// Ids of the transactions of one process: 6 random bytes and a counter.
class TransactionIds {
 public:
  explicit TransactionIds(std::uint64_t random) noexcept : random_(random) {}
  [[nodiscard]] std::string next();
  /// Made here.
  [[nodiscard]] bool is_own(std::string_view id) const;

 private:
  std::uint64_t random_;
  std::uint64_t counter_ = 0;
};

[[nodiscard]] std::string seal_value(std::string_view etcd_key, std::string_view value,
                                     std::string_view id);
struct OpenedValue {
  std::string_view value, id;
};
/// Views into `stored`. nullopt: shorter than a trailer, or the sum is wrong.
[[nodiscard]] std::optional<OpenedValue> open_value(std::string_view etcd_key,
                                                    std::string_view stored);

/// The value of the key `d`, without the trailer: store keys and last states.
using Deletions = std::vector<std::pair<std::string_view, std::string_view>>;
[[nodiscard]] std::string encode_deletions(const Deletions& deletions);
/// Views. nullopt: malformed.
[[nodiscard]] std::optional<Deletions> decode_deletions(std::string_view value);

}  // namespace kintsugi::store::etcd
