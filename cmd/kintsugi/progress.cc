#include "cmd/kintsugi/progress.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

namespace kintsugi::cmd {
namespace {

constexpr const char* kClearLine = "\r\x1b[K";

}  // namespace

Progress::Progress(std::string subject)
    : subject_(std::move(subject)), begin_(Clock::now()), terminal_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (terminal_ && !shown_.empty()) {
    std::fputs(kClearLine, stderr);
    std::fflush(stderr);
  }
}

void Progress::show(const std::string& state) {
  if (!terminal_) {
    if (state != shown_) {
      std::fprintf(stderr, "%s: %s\n", subject_.c_str(), state.c_str());
    }
  } else {
    const double passed = std::chrono::duration<double>(Clock::now() - begin_).count();
    std::fprintf(stderr, "%s%s: %s … %.1f s", kClearLine, subject_.c_str(), state.c_str(), passed);
    std::fflush(stderr);
  }
  shown_ = state;
}

}  // namespace kintsugi::cmd
