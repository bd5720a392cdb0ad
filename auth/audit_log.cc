#include "auth/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/time.h"

namespace kintsugi::auth {
namespace {

constexpr std::size_t kBlock = std::size_t{64} << 10;

/// Waits for nobody. A pipe without a reader is held open at both ends, so that lines wait in it.
Expected<int> open_file(const std::string& path) {
  constexpr int kFlags = O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK;
  int fd = ::open(path.c_str(), O_WRONLY | kFlags, 0600);
  std::error_code fault;
  if (fd < 0 && errno == ENXIO && std::filesystem::is_fifo(path, fault)) {
    log_warn("nobody reads the log yet, its lines wait", {{"file", path}});
    fd = ::open(path.c_str(), O_RDWR | kFlags, 0600);
  }
  if (fd < 0 || ::fcntl(fd, F_SETFL, O_APPEND) != 0) {
    return fail(Errc::kIo, path + ": " + std::strerror(errno));
  }
  return fd;
}

constexpr std::int64_t kDayMicroseconds = 86'400'000'000;

/// "2026-01-02T03-04-05.000006": sorts as time does.
std::string stamp_of(std::int64_t microseconds) {
  std::string stamp = rfc3339_micro(microseconds);
  stamp.pop_back();
  std::replace(stamp.begin(), stamp.end(), ':', '-');
  return stamp;
}

/// @return the bytes that were written; errno when these are not all.
std::size_t write_some(int fd, std::string_view bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t written = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      break;
    }
    done += static_cast<std::size_t>(written);
  }
  return done;
}

}  // namespace

/// What the thread needs; it outlives the log when the disk hangs.
class AuditLog::Writer {
 public:
  Writer(AuditFile file, int fd) : file_(std::move(file)), fd_(fd) {}
  ~Writer() { ::close(fd_); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void add(std::string line);
  void reopen();
  void stop();
  void run();  ///< of the thread
  [[nodiscard]] const AuditFile& file() const noexcept { return file_; }

  std::atomic<std::uint64_t> dropped{0}, added{0}, lost{0};

 private:
  struct Line {
    std::string text;
    Line* next;
  };

  void wake();
  [[nodiscard]] LineTotals& totals() const noexcept {
    return file_.counted_in != nullptr ? *file_.counted_in : audit_totals().file;
  }
  void write_waiting();
  void open_again();
  void measure();
  void rotate();
  void remove_old() const;
  /// @return lines that are lost.
  [[nodiscard]] std::uint64_t write_lines(const std::string& lines);
  void lose(std::uint64_t lines);
  void report_drops();

  const AuditFile file_;
  std::atomic<Line*> newest_{nullptr};  // the queue, the oldest line last
  std::atomic<std::size_t> waiting_{0};
  std::atomic<std::uint32_t> wakes_{0};
  std::atomic<bool> reopen_{false};
  std::atomic<bool> stopping_{false};
  // Of the thread.
  int fd_;
  std::uint64_t size_ = 0;  // of the file, while it may be rotated
  bool rotates_ = false;
  bool torn_ = false;    // the file ends within a line
  bool broken_ = false;  // the last write failed
};

Expected<std::unique_ptr<AuditLog>> AuditLog::open(AuditFile file) {
  auto fd = open_file(file.path);
  if (!fd) {
    return fail(std::move(fd.error()));
  }
  return std::unique_ptr<AuditLog>(new AuditLog(std::make_shared<Writer>(std::move(file), *fd)));
}

AuditLog::AuditLog(std::shared_ptr<Writer> writer) : writer_(std::move(writer)) {
  std::promise<void> done;
  done_ = done.get_future();
  thread_ = std::thread([writer = writer_, done = std::move(done)]() mutable {
    writer->run();
    writer.reset();
    done.set_value();
  });
}

AuditLog::~AuditLog() {
  writer_->stop();
  if (done_.wait_for(writer_->file().last_wait) == std::future_status::ready) {
    thread_.join();
    return;
  }
  log_error("a log hangs, what waits for it is lost", {{"file", writer_->file().path}});
  thread_.detach();
}

void AuditLog::add(std::string line) { writer_->add(std::move(line)); }

void AuditLog::reopen() { writer_->reopen(); }

std::uint64_t AuditLog::dropped() const noexcept { return writer_->dropped.load(); }

std::uint64_t AuditLog::added() const noexcept { return writer_->added.load(); }

std::uint64_t AuditLog::lost() const noexcept { return writer_->lost.load(); }

void AuditLog::Writer::stop() {
  stopping_ = true;
  wake();
}

void AuditLog::Writer::wake() {
  ++wakes_;
  wakes_.notify_one();
}

void AuditLog::Writer::add(std::string line) {
  const std::size_t size = line.size() + sizeof(Line);
  ++added;
  ++totals().lines;
  if (waiting_.fetch_add(size) + size > file_.queue_bytes) {
    waiting_ -= size;
    lose(1);
  } else {
    Line* const top = new Line{std::move(line), newest_.load()};
    while (!newest_.compare_exchange_weak(top->next, top)) {
    }
  }
  wake();
}

void AuditLog::Writer::reopen() {
  reopen_ = true;
  wake();
}

void AuditLog::Writer::lose(std::uint64_t lines) {
  dropped += lines;
  lost += lines;
  totals().lost += lines;
}

void AuditLog::Writer::run() {
  measure();
  while (true) {
    const std::uint32_t seen = wakes_.load();
    const bool last = stopping_.load();
    write_waiting();
    if (last) {
      return;
    }
    wakes_.wait(seen);
  }
}

void AuditLog::Writer::write_waiting() {
  Line* oldest = nullptr;
  for (Line* line = newest_.exchange(nullptr); line != nullptr;) {
    Line* const older = std::exchange(line->next, oldest);
    oldest = std::exchange(line, older);
  }
  if (reopen_.exchange(false)) {
    open_again();
  }
  std::string block;
  std::size_t taken = 0;
  while (oldest != nullptr) {
    const std::unique_ptr<Line> line(oldest);
    oldest = line->next;
    taken += line->text.size() + sizeof(Line);
    block.append(line->text).push_back('\n');
    if (block.size() >= kBlock || oldest == nullptr) {
      if (rotates_ && size_ != 0 && size_ + block.size() > file_.rotate_bytes) {
        rotate();
      }
      lose(write_lines(block));
      block.clear();
      waiting_ -= std::exchange(taken, std::size_t{0});
    }
  }
  report_drops();
}

std::uint64_t AuditLog::Writer::write_lines(const std::string& lines) {
  if (torn_ && write_some(fd_, "\n") == 1) {
    torn_ = false;
  }
  const std::size_t written = torn_ ? 0 : write_some(fd_, lines);
  size_ += written;
  const bool failed = written < lines.size();
  if (failed && !broken_) {
    log_error("a log cannot be written", {{"file", file_.path}, {"error", std::strerror(errno)}});
  }
  broken_ = failed;
  if (!failed) {
    return 0;
  }
  torn_ = torn_ || (written != 0 && lines[written - 1] != '\n');
  const auto rest = lines.begin() + static_cast<std::ptrdiff_t>(written);
  return static_cast<std::uint64_t>(std::count(rest, lines.end(), '\n'));
}

void AuditLog::Writer::report_drops() {
  const std::uint64_t count = dropped.load();
  if (count != 0 && write_lines("{\"dropped\":" + std::to_string(count) + "}\n") == 0) {
    dropped -= count;
  }
}

void AuditLog::Writer::open_again() {
  auto fd = open_file(file_.path);
  if (!fd) {
    log_error("a log stays in its old file", {{"error", fd.error().to_string()}});
    return;
  }
  ::close(std::exchange(fd_, *fd));
  torn_ = false;
  measure();
}

void AuditLog::Writer::measure() {
  struct stat facts {};
  rotates_ = file_.rotate_bytes != 0 && ::fstat(fd_, &facts) == 0 && S_ISREG(facts.st_mode);
  size_ = rotates_ ? static_cast<std::uint64_t>(facts.st_size) : 0;
}

void AuditLog::Writer::rotate() {
  const std::filesystem::path path(file_.path);
  std::filesystem::path target = path;
  target.replace_filename(path.stem().string() + "-" + stamp_of(unix_microseconds()) +
                          path.extension().string());
  std::error_code fault;
  std::filesystem::rename(path, target, fault);
  if (fault) {
    log_error("a log cannot be renamed", {{"file", file_.path}, {"error", fault.message()}});
    size_ = 0;  // the next try comes after as many bytes
    return;
  }
  open_again();
  remove_old();
}

void AuditLog::Writer::remove_old() const {
  const std::filesystem::path path(file_.path);
  const std::string before = path.stem().string() + "-", after = path.extension().string();
  const std::int64_t now = unix_microseconds();
  const std::string oldest =
      file_.days == 0 ? "" : before + stamp_of(now - file_.days * kDayMicroseconds) + after;
  std::vector<std::filesystem::path> files;  // of past rotations
  std::error_code fault;
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  for (std::filesystem::directory_iterator it(folder, fault), end; !fault && it != end;
       it.increment(fault)) {
    const std::string name = it->path().filename().string();
    if (name.size() == before.size() + stamp_of(now).size() + after.size() &&
        name.starts_with(before) && name.ends_with(after)) {
      files.push_back(it->path());
    }
  }
  std::sort(files.rbegin(), files.rend());
  for (std::size_t i = 0; i < files.size(); ++i) {
    const bool too_many = file_.backups != 0 && i >= file_.backups;
    if (too_many || files[i].filename().string() < oldest) {
      std::filesystem::remove(files[i], fault);
    }
  }
}

}  // namespace kintsugi::auth
