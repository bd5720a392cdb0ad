#pragma once

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>

namespace kintsugi {

/// A credential that a process keeps: a private key, a token, a password, a key of ours (SE-144).
/// Shape: any bytes, which never change. Handles share one copy of them: it lies in pages that core
/// dumps leave out, and is overwritten when the last handle ends, is moved from, or is given
/// another content. Nothing prints or logs a Secret, and text is made of it by view() alone. Cost:
/// a new one takes a lock and one allocation, a handle counts. Threads: any; a handle as a
/// shared_ptr. No memory ends the process.
class Secret {
 public:
  Secret() noexcept = default;
  /// Takes the bytes over and overwrites the text that had them.
  explicit Secret(std::string&& text);
  /// A second copy of bytes that somebody else keeps, or that are no secret (tests).
  [[nodiscard]] static Secret copy_of(std::string_view bytes);
  /// Several texts in a row.
  [[nodiscard]] static Secret joined(std::initializer_list<std::string_view> parts);
  /// `size` bytes that `fill` writes.
  [[nodiscard]] static Secret made(std::size_t size, const std::function<void(char* to)>& fill);

  /// Lives as long as a handle.
  [[nodiscard]] std::string_view view() const noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return view().size(); }
  [[nodiscard]] bool empty() const noexcept { return view().empty(); }

  /// Equal bytes; takes as long for a near miss as for any of that size.
  [[nodiscard]] bool operator==(const Secret& other) const noexcept;
  friend std::ostream& operator<<(std::ostream&, const Secret&) = delete;

 private:
  class Bytes;
  std::shared_ptr<const Bytes> bytes_;
};

/// Overwrites text that held a secret, in a way that the compiler keeps: for what is passed on and
/// not kept.
void wipe(std::string& text) noexcept;
/// The same of any memory.
void wipe(void* at, std::size_t size) noexcept;

/// Called of each Secret's memory between its last handle and the next use of that memory: what it
/// sees then is what stays. nullptr: nobody. Not thread-safe.
void watch_ended_secrets_for_test(void (*ended)(std::string_view bytes)) noexcept;

}  // namespace kintsugi
