#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kintsugi::net {

/// The buffers of one loop, used by whichever connection is being served. Nothing idle owns a
/// buffer of its own.
struct IoScratch {
  static constexpr std::size_t kRead = 64 * 1024;    ///< read per connection and turn (PERF-103)
  static constexpr std::size_t kRecord = 16 * 1024;  ///< plain text of one TLS record
  static constexpr std::size_t kWrite = 64 * 1024;   ///< plain text written per connection and turn
  std::array<char, kRead> received;  ///< as recv(2) gave it: cipher text, or plain text without TLS
  std::array<char, kRead + 32 * 1024>
      plain;                        ///< the same, decrypted, with the rest of an earlier record
  std::array<char, kWrite> unsent;  ///< plain text that is about to be sent
  std::array<char, kWrite + 24 * 1024> out;  ///< what send(2) takes: records with their overhead
  std::size_t out_size = 0;                  ///< 0 between callbacks
  bool flushing = false;                     ///< this is the flush pass
  std::uint64_t writes = 0, writes_outside_flush = 0;  ///< see Loop::Stats
};

}  // namespace kintsugi::net
