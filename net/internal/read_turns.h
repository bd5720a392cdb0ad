#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/time.h"

namespace kintsugi::net {

/// Whose connections are read in a turn of a loop (SE-083): those of one payer until they have
/// begun `kRequests` in it, the others in later turns, one after another. So whoever asks waits for
/// one turn of everybody else, however many connections they have; a loop that has nothing else to
/// do goes on at once. A machine without I/O. Threads: its loop. Cost: two comparisons a read of a
/// connection; one lookup by name a connection.
class ReadTurns {
  struct Share;

 public:
  /// Of a payer and turn; as a request count 1 KiB.
  static constexpr std::size_t kRequests = 64;
  static constexpr std::size_t kBytes = 1024;

  /// A connection's place; without join() it is always its turn. Must not move.
  class Reader {
   public:
    Reader() noexcept = default;
    ~Reader() {
      if (turns_ != nullptr) {
        turns_->leave(*this);
      }
    }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

   private:
    friend class ReadTurns;
    ReadTurns* turns_ = nullptr;
    Share* share_ = nullptr;
    bool waits_ = false;
  };

  ReadTurns();
  ~ReadTurns();  ///< after all readers
  ReadTurns(const ReadTurns&) = delete;
  ReadTurns& operator=(const ReadTurns&) = delete;

  /// @param payer  whose turn it takes. Once per reader.
  void join(Reader& reader, const std::string& payer);
  /// It does not read any more. The turns need not outlive it then.
  void leave(Reader& reader) noexcept;
  /// @param now  the same in all of a turn
  /// @param first  should it have to wait, then before the payer's others
  /// @returns false: it waits until next() gives it
  [[nodiscard]] bool may_read(Reader& reader, TimePoint now, bool first = false);
  /// It has been read.
  static void count(Reader& reader, std::size_t requests, std::size_t bytes) noexcept;
  /// One that has waited and is to be read now; nullptr: nobody's turn is it in this one.
  [[nodiscard]] Reader* next(TimePoint now);
  [[nodiscard]] bool has_waiting() const noexcept { return !busy_.empty(); }

 private:
  std::unordered_map<std::string, std::unique_ptr<Share>> shares_;
  std::deque<Share*> busy_;  // those of whose readers one waits
};

}  // namespace kintsugi::net
