#include "proxy/forwarding/request_tally.h"

#include <algorithm>

namespace kintsugi::proxy {
namespace {

struct Method {
  std::string_view sent, label, verb;
};
constexpr Method kOther = {"", "other", "other"};
constexpr std::array<Method, 7> kMethods = {{{"GET", "get", "get"},
                                             {"POST", "post", "create"},
                                             {"PUT", "put", "update"},
                                             {"PATCH", "patch", "patch"},
                                             {"DELETE", "delete", "delete"},
                                             {"HEAD", "head", "head"},
                                             {"OPTIONS", "options", "options"}}};

const Method& known(std::string_view method) noexcept {
  const auto* const found = std::find_if(kMethods.begin(), kMethods.end(),
                                         [&](const Method& one) { return one.sent == method; });
  return found == kMethods.end() ? kOther : *found;
}

template <typename Bounds, typename Counts>
void count_in(const Bounds& bounds, Counts& counts, double seconds) noexcept {
  const auto bound = std::lower_bound(bounds.begin(), bounds.end(), seconds);
  ++counts[static_cast<std::size_t>(bound - bounds.begin())];
}

double seconds_of(Duration took) noexcept { return std::chrono::duration<double>(took).count(); }

}  // namespace

void RequestTimes::add(std::string_view method, int code, Duration took) {
  Times& times = rows_[{known(method).label, code}];
  count_in(kBounds, times.counts, seconds_of(took));
  times.sum += seconds_of(took);
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

std::string_view retry_reason_name(RetryReason reason) noexcept {
  switch (reason) {
    case RetryReason::kRefused:
      return "refused";
    case RetryReason::kTimeout:
      return "timeout";
    case RetryReason::kLost:
      return "lost";
  }
  return "";
}

void ServerTraffic::add(const ServerTraffic& other) {
  up += other.up;
  down += other.down;
  streams += other.streams;
  watches += other.watches;
  for (std::size_t i = 0; i < kRetryReasons; ++i) {
    retries[i] += other.retries[i];
  }
  for (const auto& [what, count] : other.requests) {
    requests[what] += count;
  }
}

void OverheadTimes::add(Duration took) noexcept {
  count_in(kBounds, counts, seconds_of(took));
  sum += seconds_of(took);
}

void OverheadTimes::add(const OverheadTimes& other) noexcept {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    counts[i] += other.counts[i];
  }
  sum += other.sum;
}

RequestTally::RequestTally(RequestTimes& times, ServerTraffic& server, std::string_view method,
                           Kind kind, TimePoint now) noexcept
    : times_(times),
      server_(server),
      method_(known(method).sent),
      verb_(kind == Kind::kWatch     ? "watch"
            : kind == Kind::kUpgrade ? "connect"
                                     : known(method).verb),
      begun_(now),
      kind_(kind) {
  ++server_.streams;
  server_.watches += kind == Kind::kWatch ? 1U : 0U;
}

void RequestTally::answered(int code) {
  code_ = code;
  ++server_.requests[{verb_, code}];
}

void RequestTally::end(TimePoint now) {
  --server_.streams;
  server_.watches -= kind_ == Kind::kWatch ? 1U : 0U;
  if (kind_ == Kind::kPlain && code_ != 0) {
    times_.add(method_, code_, now - begun_);
  }
}

}  // namespace kintsugi::proxy
