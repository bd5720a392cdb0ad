#include "workers/runtime/journal/journal_keeper.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "net/work_pool.h"

namespace kintsugi::workers {
namespace {

net::WorkPool& syncs() {
  static net::WorkPool& pool = net::WorkPool::make(
      {.thread_name = "journal-sync", .threads = 2, .of_one = 1, .waiting = 1'024});
  return pool;
}

}  // namespace

Expected<std::unique_ptr<JournalKeeper>> JournalKeeper::open(net::Loop& loop,
                                                             JournalParams params) {
  const std::string directory = params.directory;
  auto journal = Journal::open(std::move(params));
  if (!journal) {
    return fail(std::move(journal.error()));
  }
  if (const auto& rebuilt = (*journal)->rebuilt()) {
    log_warn("a journal was damaged and is begun anew; what it held is read from the API",
             {{"err", rebuilt->reason}, {"aside", rebuilt->aside}});
  }
  return std::unique_ptr<JournalKeeper>(
      new JournalKeeper(loop, std::shared_ptr<Journal>(std::move(*journal))));
}

JournalKeeper::JournalKeeper(net::Loop& loop, std::shared_ptr<Journal> journal)
    : loop_(loop), journal_(std::move(journal)), timer_(loop) {}

JournalKeeper::~JournalKeeper() {
  // A sync that runs has its own share of the journal, which is closed with the last one.
  if (syncing_ == nullptr) {
    if (auto closed = journal_->close(); !closed) {
      log_warn("a journal was not closed in order",
               {{"err", std::string(closed.error().message())}});
    }
  }
}

Journal& JournalKeeper::use() {
  if (!std::exchange(used_, true)) {
    loop_.defer(alive_.guard([this] { end_turn(); }));
  }
  return *journal_;
}

void JournalKeeper::end_turn() {
  used_ = false;
  if (auto committed = journal_->commit(loop_.now()); !committed) {
    log_warn("a journal did not take what was written",
             {{"err", std::string(committed.error().message())}});
  }
  if (journal_->state() == JournalState::kDamaged && syncing_ == nullptr) {
    const std::string reason(journal_->reason());
    auto rebuilt = journal_->rebuild(reason);
    log_warn("a journal is damaged and is begun anew; what it held is read from the API",
             {{"err", rebuilt ? reason : std::string(rebuilt.error().message())}});
  }
  sync_when_due();
}

void JournalKeeper::sync_when_due() {
  if (syncing_ != nullptr) {
    return;  // its end looks again
  }
  if (journal_->due_sync(loop_.now())) {
    syncing_ = syncs().run(
        loop_, "",
        [journal = journal_] {
          (void)journal->sync();  // a failure is the journal's state
        },
        alive_.guard([this] {
          syncing_ = nullptr;
          sync_when_due();
        }));
  }
  timer_.cancel();
  if (const std::optional<TimePoint> next = journal_->next_sync()) {
    timer_.start(std::max<Duration>(*next - loop_.now(), milliseconds(1)),
                 [this] { sync_when_due(); });
  }
}

std::string JournalKeeper::not_ready() const {
  switch (journal_->state()) {
    case JournalState::kReady:
      break;
    case JournalState::kFull:
      return "JournalFull: " + std::string(journal_->reason());
    case JournalState::kDamaged:
      return "JournalDamaged: " + std::string(journal_->reason());
  }
  return {};
}

}  // namespace kintsugi::workers
