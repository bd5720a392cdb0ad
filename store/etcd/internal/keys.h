#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

/// Where what is under the prefix of one store in etcd. Source: docs/spec/growing.md.
namespace kintsugi::store::etcd {

/// What a key under the prefix is.
enum class KeyKind : std::uint8_t {
  kRow,        ///< of the store
  kDeletions,  ///< last states of what its transaction deletes
  kOther,      ///< ours, but no row, or a stranger's
};

/// `o/<group or ->/<plural>[:<identity>]/<cluster>/[<ns>/]<name>` of an API object, `x/<key>` of
/// any other row; parts percent-encode '%', '/' and bytes below 0x21. One to one with store keys.
class Keys {
 public:
  /// @param prefix  begins and ends with '/'
  explicit Keys(std::string prefix) : prefix_(std::move(prefix)) {}

  [[nodiscard]] const std::string& prefix() const noexcept { return prefix_; }
  /// Of a row, or of what fence_guard() looks at.
  [[nodiscard]] std::string row(std::string_view store_key) const;
  [[nodiscard]] KeyKind kind(std::string_view etcd_key) const;
  /// Of a row; nullopt: no row has this key.
  [[nodiscard]] std::optional<std::string> store_key(std::string_view etcd_key) const;

  [[nodiscard]] std::string deletions() const { return prefix_ + "d"; }
  [[nodiscard]] std::string meta() const { return prefix_ + "meta"; }
  [[nodiscard]] std::string marks() const { return prefix_ + "marks"; }
  [[nodiscard]] std::string seat(std::string_view replica) const {
    return prefix_ + "seat/" + std::string(replica);
  }
  [[nodiscard]] std::string barrier(std::string_view replica) const {
    return prefix_ + "barrier/" + std::string(replica);
  }
  /// Who has a duty, written anew as long as he lives.
  [[nodiscard]] std::string lease(std::string_view duty) const {
    return prefix_ + "lease/" + std::string(duty);
  }
  /// Written when a duty is taken over, and never else.
  [[nodiscard]] std::string epoch(std::string_view duty) const {
    return prefix_ + "epoch/" + std::string(duty);
  }
  /// Somebody reads as of this key's revision, and needs the history from it on (GR-406).
  [[nodiscard]] std::string pin(std::string_view id) const {
    return prefix_ + "pin/" + std::string(id);
  }
  /// Of a key that nobody writes.
  [[nodiscard]] std::string absent() const { return prefix_ + "absent"; }
  [[nodiscard]] std::string probe(std::string_view replica) const {
    return prefix_ + "probe/" + std::string(replica);
  }

 private:
  std::string prefix_;
};

}  // namespace kintsugi::store::etcd
