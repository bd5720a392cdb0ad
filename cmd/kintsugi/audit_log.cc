#include "cmd/kintsugi/audit_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"

namespace kintsugi::cmd {
namespace {

constexpr std::size_t kBlock = std::size_t{64} << 10;

Expected<int> open_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) {
    return fail(Errc::kIo, path + ": " + std::strerror(errno));
  }
  return fd;
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

Expected<std::unique_ptr<AuditLog>> AuditLog::open(const std::string& path,
                                                   std::size_t queue_bytes) {
  auto fd = open_file(path);
  if (!fd) {
    return fail(std::move(fd.error()));
  }
  return std::unique_ptr<AuditLog>(new AuditLog(path, queue_bytes, *fd));
}

AuditLog::AuditLog(std::string path, std::size_t queue_bytes, int fd)
    : path_(std::move(path)), queue_bytes_(queue_bytes), fd_(fd), thread_([this] { run(); }) {}

AuditLog::~AuditLog() {
  stopping_ = true;
  wake();
  thread_.join();
  ::close(fd_);
}

void AuditLog::wake() {
  ++wakes_;
  wakes_.notify_one();
}

void AuditLog::add(std::string line) {
  const std::size_t size = line.size() + sizeof(Line);
  if (waiting_.fetch_add(size) + size > queue_bytes_) {
    waiting_ -= size;
    ++dropped_;
  } else {
    Line* const added = new Line{std::move(line), newest_.load()};
    while (!newest_.compare_exchange_weak(added->next, added)) {
    }
  }
  wake();
}

void AuditLog::reopen() {
  reopen_ = true;
  wake();
}

void AuditLog::run() {
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

void AuditLog::write_waiting() {
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
      (void)write_lines(block);
      block.clear();
      waiting_ -= std::exchange(taken, std::size_t{0});
    }
  }
  report_drops();
}

bool AuditLog::write_lines(const std::string& lines) {
  if (torn_ && write_some(fd_, "\n") == 1) {
    torn_ = false;
  }
  const std::size_t written = torn_ ? 0 : write_some(fd_, lines);
  const bool failed = written < lines.size();
  if (failed) {
    if (!broken_) {
      log_error("audit log cannot be written", {{"file", path_}, {"error", std::strerror(errno)}});
    }
    torn_ = torn_ || (written != 0 && lines[written - 1] != '\n');
    const auto lost = lines.begin() + static_cast<std::ptrdiff_t>(written);
    dropped_ += static_cast<std::uint64_t>(std::count(lost, lines.end(), '\n'));
  }
  broken_ = failed;
  return !failed;
}

void AuditLog::report_drops() {
  const std::uint64_t dropped = dropped_.load();
  if (dropped == 0) {
    return;
  }
  if (write_lines("{\"dropped\":" + std::to_string(dropped) + "}\n")) {
    dropped_ -= dropped;
  } else {
    --dropped_;  // of the report itself
  }
}

void AuditLog::open_again() {
  auto fd = open_file(path_);
  if (!fd) {
    log_error("audit log stays in its old file", {{"error", fd.error().to_string()}});
    return;
  }
  ::close(std::exchange(fd_, *fd));
  torn_ = false;
}

}  // namespace kintsugi::cmd
