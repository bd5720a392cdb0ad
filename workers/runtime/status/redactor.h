#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/secret.h"

namespace kintsugi::workers {

/// Knows secret values and takes them out of texts that leave the process (RT-84). A value is found
/// as it is, without the blanks around it, in base64 (both alphabets), percent-encoded and as JSON
/// text; of a value with several lines each line of 16 bytes or more. Values of less than 4 bytes
/// are found as whole words only. What a peer cuts or encodes otherwise is not found. Limits: 4,096
/// values of up to 64 KiB. Cost: redact() one look-up per byte of text. Threads: one at a time.
class Redactor {
 public:
  static constexpr std::size_t kMaxValues = 4'096;
  static constexpr std::size_t kMaxValueBytes = 64U << 10U;
  static constexpr std::string_view kInstead = "***";

  /// Knows a value from now on; `owner` names what holds it, e.g. the key of a Secret and its
  /// field, and has one value at a time. An empty value: as forget().
  /// @returns false: a limit is reached and nothing has changed; the caller must not show texts
  ///          that may have it.
  bool know(std::string_view owner, const Secret& value);
  void forget(std::string_view owner);
  /// The text with kInstead in place of every value; of several that begin at one place the
  /// longest.
  [[nodiscard]] std::string redact(std::string_view text) const;
  [[nodiscard]] std::size_t size() const noexcept { return forms_.size(); }

 private:
  void index();
  [[nodiscard]] std::size_t match(std::string_view text, std::size_t at) const noexcept;

  std::map<std::string, std::vector<Secret>, std::less<>> forms_;  // by owner
  std::vector<std::string_view> sorted_;                           // into forms_
  std::bitset<1U << 16U> starts_;                                  // first two bytes
  std::bitset<1U << 8U> singles_;                                  // values of one byte
};

/// A message of a peer, fit to be shown: secrets replaced, control characters taken out (line ends
/// and tabs become blanks), invalid UTF-8 replaced by `?`, at most `limit` bytes (RT-84).
[[nodiscard]] std::string peer_message(std::string_view text, const Redactor& redactor,
                                       std::size_t limit = 256);

/// At most `limit` bytes, cut between characters.
[[nodiscard]] std::string_view cut_utf8(std::string_view text, std::size_t limit) noexcept;
/// Without control characters (C0, DEL, C1) and invalid UTF-8, as in peer_message.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace kintsugi::workers
