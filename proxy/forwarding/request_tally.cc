#include "proxy/forwarding/request_tally.h"

#include <algorithm>

namespace kintsugi::proxy {
namespace {

struct Method {
  std::string_view name, label, verb;
};
constexpr std::array<Method, 7> kMethods = {{{"GET", "get", "get"},
                                             {"POST", "post", "create"},
                                             {"PUT", "put", "update"},
                                             {"PATCH", "patch", "patch"},
                                             {"DELETE", "delete", "delete"},
                                             {"HEAD", "head", "head"},
                                             {"OPTIONS", "options", "options"}}};

std::string_view label_of(std::string_view method) noexcept {
  const auto* const found = std::find_if(kMethods.begin(), kMethods.end(),
                                         [&](const Method& one) { return one.name == method; });
  return found == kMethods.end() ? "other" : found->label;
}

/// @param times  has counts, one more than bounds, and a sum [seconds]
template <typename Bounds, typename Times>
void count_in(const Bounds& bounds, Duration took, Times& times) noexcept {
  const double seconds = std::chrono::duration<double>(took).count();
  const auto bound = std::lower_bound(bounds.begin(), bounds.end(), seconds);
  ++times.counts[static_cast<std::size_t>(bound - bounds.begin())];
  times.sum += seconds;
}
template <typename Times>
void add_up(Times& times, const Times& more) noexcept {
  for (std::size_t i = 0; i < more.counts.size(); ++i) {
    times.counts[i] += more.counts[i];
  }
  times.sum += more.sum;
}

}  // namespace

void RequestTimes::add(std::string_view method, int code, Duration took) {
  count_in(kBounds, took, rows_[{label_of(method), code}]);
}

void RequestTimes::add(const RequestTimes& other) {
  for (const auto& [what, more] : other.rows_) {
    add_up(rows_[what], more);
  }
}

void OverheadTimes::add(Duration took) noexcept { count_in(kBounds, took, *this); }
void OverheadTimes::add(const OverheadTimes& other) noexcept { add_up(*this, other); }

ForwardFault forward_fault_of(Errc cause) noexcept {
  switch (cause) {
    case Errc::kRefused:
    case Errc::kUnreachable:
      return ForwardFault::kConnect;
    case Errc::kTls:
      return ForwardFault::kTls;
    case Errc::kDeadline:
      return ForwardFault::kTimeout;
    case Errc::kNotProcessed:
      return ForwardFault::kNotProcessed;
    case Errc::kOverloaded:
      return ForwardFault::kFull;
    case Errc::kBadRequest:
      return ForwardFault::kRefused;
    default:
      return ForwardFault::kLost;
  }
}

std::string_view forward_fault_name(ForwardFault fault) noexcept {
  constexpr std::array<std::string_view, kForwardFaults> kNames = {
      "connect", "tls", "timeout", "not-processed", "lost", "full", "refused"};
  return kNames[static_cast<std::size_t>(fault)];
}

void ServerTally::add(const ServerTally& other) {
  up += other.up;
  down += other.down;
  streams += other.streams;
  watches += other.watches;
  for (const auto& [what, count] : other.requests) {
    requests[what] += count;
  }
  for (std::size_t i = 0; i < kForwardFaults; ++i) {
    retries[i] += other.retries[i];
    failures[i] += other.failures[i];
  }
}

RequestTally::RequestTally(RequestTimes& times, ServerTally& server, std::string_view method,
                           Kind kind, TimePoint now, std::shared_ptr<AccessNote> note) noexcept
    : times_(times), server_(server), begun_(now), note_(std::move(note)), kind_(kind) {
  const auto* const found = std::find_if(kMethods.begin(), kMethods.end(),
                                         [&](const Method& one) { return one.name == method; });
  method_ = found == kMethods.end() ? "" : found->name;
  verb_ = kind == Kind::kWatch      ? "watch"
          : kind == Kind::kUpgrade  ? "connect"
          : found == kMethods.end() ? "other"
                                    : found->verb;
  ++server_.streams;
  server_.watches += kind == Kind::kWatch ? 1U : 0U;
}

void RequestTally::answered(int code) {
  if (code_ == 0) {
    code_ = code;
    ++server_.requests[{verb_, code}];
  }
}

void RequestTally::sent(TimePoint now) noexcept {
  if (note_ != nullptr) {
    note_->sent = now;
  }
}

void RequestTally::sent_again(ForwardFault why) noexcept {
  ++server_.retries[static_cast<std::size_t>(why)];
  if (note_ != nullptr) {
    note_->was_retried = true;
  }
}

void RequestTally::came(TimePoint now) noexcept {
  if (note_ != nullptr) {
    note_->upstream = now - note_->sent;
  }
}

void RequestTally::failed(ForwardFault why) noexcept {
  ++server_.failures[static_cast<std::size_t>(why)];
  if (note_ != nullptr) {
    note_->connect_failed = why == ForwardFault::kConnect || why == ForwardFault::kTls;
    note_->timed_out = why == ForwardFault::kTimeout;
    note_->was_lost = why == ForwardFault::kLost || why == ForwardFault::kNotProcessed;
  }
}

void RequestTally::found_none() noexcept {
  if (note_ != nullptr) {
    note_->none_up = true;
  }
}

void RequestTally::drained() noexcept {
  if (note_ != nullptr) {
    note_->is_drained = true;
  }
}

void RequestTally::end(TimePoint now) {
  --server_.streams;
  server_.watches -= kind_ == Kind::kWatch ? 1U : 0U;
  if (code_ == 0) {
    ++server_.requests[{verb_, 0}];
  } else if (kind_ == Kind::kPlain) {
    times_.add(method_, code_, now - begun_);
  }
}

}  // namespace kintsugi::proxy
