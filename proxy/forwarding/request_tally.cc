#include "proxy/forwarding/request_tally.h"

#include <algorithm>

namespace kintsugi::proxy {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kMethods = {
    {{"GET", "get"},
     {"POST", "post"},
     {"PUT", "put"},
     {"PATCH", "patch"},
     {"DELETE", "delete"},
     {"HEAD", "head"},
     {"OPTIONS", "options"}}};

std::string_view label_of(std::string_view method) noexcept {
  const auto* const found = std::find_if(kMethods.begin(), kMethods.end(),
                                         [&](const auto& one) { return one.first == method; });
  return found == kMethods.end() ? "other" : found->second;
}

}  // namespace

void RequestTimes::add(std::string_view method, int code, Duration took) {
  const double seconds = std::chrono::duration<double>(took).count();
  Times& times = rows_[{label_of(method), code}];
  const auto* const bound = std::lower_bound(kBounds.begin(), kBounds.end(), seconds);
  ++times.counts[static_cast<std::size_t>(bound - kBounds.begin())];
  times.sum += seconds;
}

void RequestTimes::add(const RequestTimes& other) {
  for (const auto& [what, more] : other.rows_) {
    Times& times = rows_[what];
    for (std::size_t i = 0; i < more.counts.size(); ++i) {
      times.counts[i] += more.counts[i];
    }
    times.sum += more.sum;
  }
}

RequestTally::RequestTally(RequestTimes& times, ServerBytes& bytes, std::string_view method,
                           bool timed, TimePoint now) noexcept
    : times_(times), bytes_(bytes), begun_(now), timed_(timed) {
  const auto* const found = std::find_if(kMethods.begin(), kMethods.end(),
                                         [&](const auto& one) { return one.first == method; });
  method_ = found == kMethods.end() ? "" : found->first;
}

void RequestTally::end(TimePoint now) {
  if (timed_ && code_ != 0) {
    times_.add(method_, code_, now - begun_);
  }
}

}  // namespace kintsugi::proxy
