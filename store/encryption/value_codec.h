#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/aead.h"
#include "base/error.h"

/// Values of a store encrypted at rest, as Kubernetes' EncryptionConfiguration says (SE-149,
/// SE-150).
///
/// Shape of a stored value, Kubernetes' own: `k8s:enc:aesgcm:v1:<key name>:`, then 12 bytes nonce,
/// the AES-GCM cipher text, 16 bytes tag. The store's key is the associated data, so a value opens
/// only where it was written. A value without `k8s:enc:` in front is plain.
///
/// Keys of the store begin with their resource and NUL: "secrets", "widgets.ex.io", "widgets.ex.io:
/// <identity>" (apiserver/keys.h). Keys without NUL are never encrypted.
namespace kintsugi::store {

/// In front of every value that is not plain, whatever wrote it.
inline constexpr std::string_view kSealedMark = "k8s:enc:";
/// Of one key; Kubernetes' advice for random nonces. The limit of the algorithm is 2^32.
inline constexpr std::uint64_t kWritesPerKey = 200'000;

/// What a stored value says.
struct OpenedValue {
  bool is_sealed = false;  ///< `plain` has the text; else the stored bytes are the text
  std::string plain;
  bool stale = false;  ///< would be written with another key, or not plain, now
};

/// One configuration. Immutable but for the counts of writes. Threads: any.
class ValueCodec {
 public:
  /// No configuration: everything is written plain, and what is encrypted does not open.
  [[nodiscard]] static std::shared_ptr<const ValueCodec> none();
  /// An EncryptionConfiguration of apiserver.config.k8s.io/v1, YAML or JSON. Of the providers
  /// `aesgcm` and `identity` are known. Faults are named by field and never show a secret.
  /// @error kConfig every fault of the document, as Kubernetes writes them.
  [[nodiscard]] static Expected<std::shared_ptr<const ValueCodec>> parse(std::string_view document);

  /// The value as it is to be stored: `plain` itself where the resource is not encrypted.
  /// @param key  the store's key.
  [[nodiscard]] std::string seal(std::string_view key, std::string plain) const;
  /// @error kInternal `unable to transform key "secrets/…": …` with the name of the encryption key;
  /// no byte of the value.
  [[nodiscard]] Expected<OpenedValue> open(std::string_view key, std::string_view stored) const;

  /// Whether values of this key may be other than plain.
  [[nodiscard]] bool covers(std::string_view key) const noexcept { return find(key) != nullptr; }
  /// "secrets: aesgcm (key1), identity" for each entry; for logs. No secrets.
  [[nodiscard]] std::vector<std::string> describe() const;

  ValueCodec() = default;
  ValueCodec(const ValueCodec&) = delete;
  ValueCodec& operator=(const ValueCodec&) = delete;

 private:
  friend class EncryptionParser;

  struct Key {
    std::string name;
    std::string mark;  ///< k8s:enc:aesgcm:v1:<name>:
    Secret secret;
    mutable std::atomic<std::uint64_t> writes = 0;
  };
  /// A provider taken apart into its keys.
  struct Reader {
    std::shared_ptr<const Key> key;  ///< null: identity
  };
  struct Rule {
    std::vector<std::string> resources;  ///< "secrets", "widgets.ex.io", "*.ex.io", "*.", "*.*"
    std::vector<Reader> readers;         ///< the first writes
    std::string about;
  };

  [[nodiscard]] const Rule* find(std::string_view key) const noexcept;
  static void count_write(const Key& key) noexcept;

  std::vector<Rule> rules_;
};

}  // namespace kintsugi::store
