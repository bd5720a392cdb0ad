#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "aggregation/position/internal/sequence_book.h"
#include "base/error.h"
#include "base/file_lock.h"

/// Vectors of sequence cursors on disk, so that they outlive the process
/// (AGG-518).
///
/// A file of a fixed size, in two halves that are filled in turn: at least a half of it is known at
/// any time. Little-endian.
///
///   half   := "kseq0001" turn(8) sum(8) zeros(8) record…
///   record := size(4) sum(8) scope(16) number(8) generation(4) n(4) component(8)·n
///
/// A sum is the first 8 bytes of the SHA-256 of the half's turn (8) and of what it covers: all of a
/// record behind it. Records of an earlier turn do not fit the later one's sums: the first that
/// does not fit is the end.
namespace kintsugi::aggregation {

/// One half, as it was found.
struct JournalHalf {
  std::uint64_t turn = 0;  ///< 0: nothing that can be read
  std::size_t end = 0;     ///< [bytes] where the next record goes
};
/// Reads one half, whatever its bytes are. @param take  gets every whole record, in order
[[nodiscard]] JournalHalf read_journal_half(std::string_view bytes,
                                            const std::function<void(SequenceRecord)>& take);

class SequenceJournal {
 public:
  static constexpr std::size_t kLeastBytes = 64U << 10;

  /// Opens or makes the file; what it has goes to `book`, oldest first. A file of another size is
  /// written anew with as much of its records as fits; bytes that are damaged are as if they were
  /// not there. Waits for the disk: for start-up.
  /// @param bytes  of the file, at least kLeastBytes
  /// @error kConfig  another process has it; kIo, kFull
  [[nodiscard]] static Expected<std::unique_ptr<SequenceJournal>> open(const std::string& path,
                                                                       std::size_t bytes,
                                                                       SequenceBook& book);
  ~SequenceJournal();
  SequenceJournal(const SequenceJournal&) = delete;
  SequenceJournal& operator=(const SequenceJournal&) = delete;

  /// Into mapped memory: a kill of the process loses nothing, a crash of the machine the latest. A
  /// record that is larger than a half is left out. Threads: any.
  void append(const SequenceRecord& record) noexcept;

 private:
  SequenceJournal(FileLock file, char* map, std::size_t bytes) noexcept;
  void begin_half(std::size_t half) noexcept;

  const FileLock file_;
  char* const map_;
  const std::size_t half_bytes_;
  std::mutex mutex_;
  std::size_t half_ = 0;    // that is being filled
  std::size_t end_ = 0;     // in it
  std::uint64_t turn_ = 0;  // of it
};

}  // namespace kintsugi::aggregation
