#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/alive.h"
#include "base/error.h"
#include "net/loop.h"
#include "workers/runtime/journal/journal.h"

namespace kintsugi::workers {

/// A journal on its loop: what a turn wrote is committed at its end, and on the disk soon after, by
/// a thread that waits for it. Source: RT-70 to RT-75.
/// Threads: the loop's. Lifetime: the loop outlives it.
class JournalKeeper {
 public:
  /// Begins anew what is damaged, and says so in the log. @error as Journal::open
  [[nodiscard]] static Expected<std::unique_ptr<JournalKeeper>> open(net::Loop& loop,
                                                                     JournalParams params);
  ~JournalKeeper();
  JournalKeeper(const JournalKeeper&) = delete;
  JournalKeeper& operator=(const JournalKeeper&) = delete;

  /// To read, or to write: what is written in this turn is committed at its end.
  [[nodiscard]] Journal& use();
  /// For /readyz; "": it takes what is written.
  [[nodiscard]] std::string not_ready() const;
  [[nodiscard]] JournalStats stats() const noexcept { return journal_->stats(); }

 private:
  JournalKeeper(net::Loop& loop, std::shared_ptr<Journal> journal);
  void end_turn();
  void sync_when_due();

  net::Loop& loop_;
  std::shared_ptr<Journal> journal_;  // shared with a sync() that runs
  bool used_ = false;                 // in this turn
  std::shared_ptr<void> syncing_;
  net::Timer timer_;
  Alive alive_;
};

}  // namespace kintsugi::workers
