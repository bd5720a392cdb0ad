#include <fcntl.h>
#include <lmdb.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>

#include "workers/runtime/journal/journal.h"

/// The part of Journal that knows how much room there is. Two reserves keep erasures possible when
/// puts no longer are: pages below the size limit, and blocks of the disk behind the file's end.
namespace kintsugi::workers {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kBallast = std::uint64_t{1} << 20;
constexpr std::uint64_t kMostBallast = std::uint64_t{32} << 20;
constexpr std::uint64_t kNearlyFull = std::uint64_t{1} << 20;
constexpr std::uint64_t kRowOverhead = 2 * kPageBytes;  // a page that splits and its parent

std::uint64_t pages_of(MDB_txn* txn, MDB_dbi table) noexcept {
  MDB_stat stat{};
  if (mdb_stat(txn, table, &stat) != 0) {
    return 0;
  }
  return stat.ms_branch_pages + stat.ms_leaf_pages + stat.ms_overflow_pages;
}

}  // namespace

std::uint64_t Journal::used_bytes() const noexcept {
  if (write_ == nullptr) {
    return in_use_;
  }
  std::uint64_t pages = 2 + pages_of(write_, 0) + pages_of(write_, 1) + pages_of(write_, meta_);
  for (const MDB_dbi table : tables_) {
    pages += pages_of(write_, table);
  }
  return pages * kPageBytes;
}

std::uint64_t Journal::reserve() const noexcept {
  return std::clamp(params_.max_bytes / 8, std::uint64_t{256} << 10, std::uint64_t{16} << 20);
}

bool Journal::fits(std::uint64_t used, std::uint64_t bytes) const noexcept {
  // Once full it takes some room more, so that the state does not flicker.
  const std::uint64_t kept = reserve() + (limit_reached_ ? reserve() / 4 : 0);
  const std::uint64_t needed = used + bytes + kRowOverhead;
  // On a full disk there is what the file has free inside.
  return needed + kept <= params_.max_bytes && (!disk_full_ || needed + kBallast <= end_bytes_);
}

void Journal::note_full(bool disk, std::string_view why) {
  (disk ? disk_full_ : limit_reached_) = true;
  reason_ = "JournalFull: ";
  reason_.append(disk ? "no space left on the disk" : why);
}

bool Journal::disk_is_full() const noexcept {
  struct statvfs space {};
  return ::statvfs(params_.directory.c_str(), &space) == 0 &&
         std::uint64_t{space.f_bavail} * space.f_frsize < kNearlyFull;
}

void Journal::keep_ballast() {
  MDB_envinfo info{};
  if (mdb_env_info(env_, &info) != 0) {
    return;
  }
  const std::uint64_t end = end_bytes_ = (info.me_last_pgno + 1) * kPageBytes;
  if (end + kBallast <= ballast_end_) {
    return;
  }
  const std::uint64_t wanted = std::clamp(end / 8, 2 * kBallast, kMostBallast);
  for (const std::uint64_t bytes : {wanted, kBallast}) {
    const int code = ::fallocate(file_.get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(end),
                                 static_cast<off_t>(bytes)) == 0
                         ? 0
                         : errno;
    if (code != ENOSPC && code != EDQUOT) {  // others: a file system that cannot, or will not
      ballast_end_ = end + bytes;
      disk_full_ = false;
      return;
    }
  }
  note_full(true, "");
}

void Journal::check_space(TimePoint now) {
  if ((!disk_full_ && !limit_reached_) || damaged_ || closed_ || env_ == nullptr ||
      (space_checked_ != TimePoint{} && now - space_checked_ < seconds(1))) {
    return;
  }
  space_checked_ = now;
  if (disk_full_) {
    ballast_end_ = 0;
    disk_full_ = disk_is_full();
    if (!disk_full_) {
      keep_ballast();
    }
  }
  if (limit_reached_ && fits(in_use_, 0)) {
    limit_reached_ = false;
  }
  if (!disk_full_ && !limit_reached_) {
    reason_.clear();
  }
}

}  // namespace kintsugi::workers
