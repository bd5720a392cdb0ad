#include "aggregation/position/sequence_journal.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "base/digest.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::string_view kMagic = "kseq0001";
constexpr std::size_t kHeadBytes = 32;
constexpr std::size_t kSumBytes = 8;
constexpr std::size_t kRecordHead = 4 + kSumBytes;
constexpr std::size_t kFixedBytes = kScopeIdBytes + 8 + 4 + 4;
constexpr std::size_t kMaxSlots = 65'535;
constexpr std::size_t kMaxFile = std::size_t{16} << 30;

void put(std::string& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    out += static_cast<char>(value >> (8 * i) & 0xff);
  }
}

/// @param at  with `size` bytes behind it
std::uint64_t get(std::string_view bytes, std::size_t at, std::size_t size) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = size; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  }
  return value;
}

std::string sum_of(std::uint64_t turn, std::string_view covered) {
  std::string text;
  text.reserve(8 + covered.size());
  put(text, turn, 8);
  text += covered;
  const auto digest = sha256(text);
  return std::string(reinterpret_cast<const char*>(digest.data()), kSumBytes);
}

std::string head_of(std::uint64_t turn) {
  std::string out(kMagic);
  put(out, turn, 8);
  out += sum_of(turn, kMagic);
  out.resize(kHeadBytes);
  return out;
}

std::string record_text(std::uint64_t turn, const SequenceRecord& record) {
  std::string covered = record.scope;
  covered.resize(kScopeIdBytes);
  put(covered, record.number, 8);
  put(covered, record.generation, 4);
  put(covered, record.components.size(), 4);
  for (const std::uint64_t component : record.components) {
    put(covered, component, 8);
  }
  std::string out;
  put(out, kRecordHead + covered.size(), 4);
  return out + sum_of(turn, covered) + covered;
}

Error io_error(const std::string& path) {
  const int number = errno;
  return Error(number == ENOSPC ? Errc::kFull : Errc::kIo,
               path + ": " + std::generic_category().message(number));
}

}  // namespace

JournalHalf read_journal_half(std::string_view bytes,
                              const std::function<void(SequenceRecord)>& take) {
  JournalHalf out;
  if (bytes.size() < kHeadBytes || !bytes.starts_with(kMagic)) {
    return out;
  }
  const std::uint64_t turn = get(bytes, kMagic.size(), 8);
  if (turn == 0 || bytes.substr(0, kHeadBytes) != head_of(turn)) {
    return out;
  }
  out.turn = turn;
  out.end = kHeadBytes;
  while (bytes.size() - out.end >= kRecordHead + kFixedBytes) {
    const auto size = static_cast<std::size_t>(get(bytes, out.end, 4));
    if (size < kRecordHead + kFixedBytes || size > bytes.size() - out.end) {
      break;
    }
    const std::string_view sum = bytes.substr(out.end + 4, kSumBytes);
    const std::string_view covered = bytes.substr(out.end + kRecordHead, size - kRecordHead);
    const auto slots = static_cast<std::size_t>(get(covered, kFixedBytes - 4, 4));
    if (slots > kMaxSlots || covered.size() != kFixedBytes + 8 * slots ||
        sum != sum_of(turn, covered)) {
      break;
    }
    SequenceRecord record;
    record.scope = covered.substr(0, kScopeIdBytes);
    record.number = get(covered, kScopeIdBytes, 8);
    record.generation = static_cast<std::uint32_t>(get(covered, kScopeIdBytes + 8, 4));
    record.components.reserve(slots);
    for (std::size_t i = 0; i < slots; ++i) {
      record.components.push_back(get(covered, kFixedBytes + 8 * i, 8));
    }
    out.end += size;
    take(std::move(record));
  }
  return out;
}

Expected<std::unique_ptr<SequenceJournal>> SequenceJournal::open(const std::string& path,
                                                                 std::size_t bytes,
                                                                 SequenceBook& book) {
  bytes = std::max(bytes, kLeastBytes) & ~std::size_t{15};
  auto file = FileLock::take(path, LockFile::kHasContent);
  if (!file) {
    return fail(file.error().code() == Errc::kConfig ? std::move(file.error()).at(path)
                                                     : std::move(file.error()));
  }
  const int fd = file->descriptor();
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) {
    return fail(io_error(path));
  }
  const auto found = static_cast<std::size_t>(std::max<off_t>(facts.st_size, 0));
  std::vector<SequenceRecord> moved;  // of a file of another size
  if (found != bytes) {
    const std::size_t half = std::min(found, kMaxFile) / 2;
    void* old = half == 0 ? MAP_FAILED : ::mmap(nullptr, found, PROT_READ, MAP_PRIVATE, fd, 0);
    if (old != MAP_FAILED) {
      const std::string_view all(static_cast<const char*>(old), found);
      const std::size_t later = read_journal_half(all.substr(0, half), [](auto) {}).turn >
                                        read_journal_half(all.substr(half, half), [](auto) {}).turn
                                    ? 0
                                    : 1;
      for (const std::size_t at : {1 - later, later}) {
        static_cast<void>(read_journal_half(
            all.substr(at * half, half),
            [&moved](SequenceRecord record) { moved.push_back(std::move(record)); }));
      }
      ::munmap(old, found);
    }
    if (::ftruncate(fd, 0) != 0) {
      return fail(io_error(path));
    }
  }
  // Space that is not there now must not end the process later.
  if (const int why = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes)); why != 0) {
    errno = why;
    return fail(io_error(path));
  }
  void* map = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) {
    return fail(io_error(path));
  }
  std::unique_ptr<SequenceJournal> journal(
      new SequenceJournal(std::move(*file), static_cast<char*>(map), bytes));
  const TimePoint now = Clock::now();
  const std::string_view all(journal->map_, bytes);
  const std::size_t half = journal->half_bytes_;
  const JournalHalf halves[] = {read_journal_half(all.substr(0, half), [](auto) {}),
                                read_journal_half(all.substr(half, half), [](auto) {})};
  const std::size_t later = halves[0].turn > halves[1].turn ? 0 : 1;
  for (const std::size_t at : {1 - later, later}) {
    static_cast<void>(read_journal_half(
        all.substr(at * half, half),
        [&book, now](SequenceRecord record) { book.restore(std::move(record), now); }));
  }
  if (halves[later].turn == 0) {
    journal->begin_half(0);
  } else {
    journal->half_ = later;
    journal->end_ = halves[later].end;
    journal->turn_ = halves[later].turn;
  }
  for (SequenceRecord& record : moved) {
    journal->append(record);
    book.restore(std::move(record), now);
  }
  return journal;
}

SequenceJournal::SequenceJournal(FileLock file, char* map, std::size_t bytes) noexcept
    : file_(std::move(file)), map_(map), half_bytes_(bytes / 2) {}

SequenceJournal::~SequenceJournal() { ::munmap(map_, 2 * half_bytes_); }

void SequenceJournal::begin_half(std::size_t half) noexcept {
  half_ = half;
  ++turn_;
  const std::string head = head_of(turn_);
  std::memcpy(map_ + half_ * half_bytes_, head.data(), head.size());
  end_ = kHeadBytes;
}

void SequenceJournal::append(const SequenceRecord& record) noexcept {
  const std::lock_guard lock(mutex_);
  const std::size_t size = kRecordHead + kFixedBytes + 8 * record.components.size();
  if (size > half_bytes_ - kHeadBytes || record.components.size() > kMaxSlots) {
    return;
  }
  if (size > half_bytes_ - end_) {
    begin_half(1 - half_);
  }
  const std::string text = record_text(turn_, record);
  std::memcpy(map_ + half_ * half_bytes_ + end_, text.data(), text.size());
  end_ += text.size();
}

}  // namespace kintsugi::aggregation
