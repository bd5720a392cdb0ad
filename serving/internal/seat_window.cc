#include "serving/internal/seat_window.h"

#include <algorithm>

namespace kintsugi::serving {
namespace {

constexpr Duration kPeriod = milliseconds(50);
constexpr std::size_t kAnswers = 8;       // fewer tell nothing
constexpr Duration kQuiet = seconds(10);  // so long the time without waiting is believed
constexpr Duration kSlack = milliseconds(1);

}  // namespace

bool SeatWindow::on_answer(Duration took, std::size_t running, bool refused,
                           TimePoint now) noexcept {
  if (answers_ == 0 && !refused_) {
    since_ = now;
  }
  peak_ = std::max(peak_, running);
  if (refused) {
    refused_ = true;
  } else {
    ++answers_;
    fastest_ = std::min(fastest_, took);
  }
  if (now - since_ < kPeriod || (answers_ < kAnswers && !refused_)) {
    return false;
  }
  const bool changed = judge(now);
  fastest_ = Duration::max();
  answers_ = peak_ = 0;
  refused_ = false;
  return changed;
}

bool SeatWindow::judge(TimePoint now) noexcept {
  if (now - quiet_since_ >= kQuiet) {
    last_quiet_ = now - quiet_since_ < 2 * kQuiet ? quiet_ : Duration::max();
    quiet_ = Duration::max();
    quiet_since_ = now;
  }
  quiet_ = std::min(quiet_, fastest_);
  const std::size_t before = seats_;
  const Duration quiet = std::min(quiet_, last_quiet_);
  const auto running = static_cast<double>(std::min(peak_, seats_));
  auto seats = static_cast<double>(seats_);
  if (refused_) {
    seats = running * 3 / 4;
  } else if (const Duration good = std::max<Duration>(2 * quiet, quiet + kSlack);
             fastest_ > good && peak_ > least_) {  // fewer do not wait for each other
    // What runs now takes so much longer: of so many it would not (Little's law).
    const double slower = static_cast<double>(fastest_.count()) / static_cast<double>(good.count());
    seats = std::max(running / slower, running / 4);
  } else if (static_cast<double>(peak_) >= seats * 3 / 4) {
    seats = seats * 5 / 4 + 4;  // they are of use
  }
  seats_ = std::clamp(static_cast<std::size_t>(seats), least_, most_);
  return seats_ != before;
}

}  // namespace kintsugi::serving
