#include "proxy/gates/watch_start_gate.h"

#include <algorithm>
#include <utility>

#include "http/guarded_answer.h"
#include "serving/waiting_request.h"

namespace kintsugi::proxy {
namespace {

Error too_many_starts() {
  Error error(Errc::kTooManyRequests,
              "Too many watches begin: listener.watch_starts is reached, please try again later.");
  error.edit().retry_after_seconds = 1;
  return error;
}

}  // namespace

Duration WatchStartPace::next(TimePoint now) noexcept {
  const TimePoint turn = std::max(turn_, now - seconds(kSecondsAtOnce)) + between_;
  const Duration wait = std::max(turn - now, Duration::zero());
  if (wait <= kLongestWait) {
    turn_ = turn;
  }
  return wait;
}

std::unique_ptr<http::RequestHandler> WatchStartGate::on_request(
    Request&& request, http::ResponseStream& stream) noexcept {
  if (!request.target.is_watch) {
    return inner_.on_request(std::move(request), stream);
  }
  const Duration wait = pace_.next(loop_.now());
  if (wait == Duration::zero()) {
    return inner_.on_request(std::move(request), stream);
  }
  return http::guarded_answer("watch starts", stream, false, [&] {
    return wait <= WatchStartPace::kLongestWait
               ? hold(std::move(request), stream, wait)
               : refusals_.answer(request.head, stream, too_many_starts());
  });
}

std::unique_ptr<http::RequestHandler> WatchStartGate::hold(Request&& request,
                                                           http::ResponseStream& stream,
                                                           Duration wait) {
  auto waiting = std::make_unique<serving::WaitingRequest>();
  auto kept = std::make_shared<Request>(std::move(request));
  loop_.after(wait, [this, alive = alive_.weak(), weak = waiting->weak(), kept, &stream] {
    if (alive && *weak != nullptr && !(*weak)->closed()) {
      (*weak)->go_on(inner_.on_request(std::move(*kept), stream));
    }
  });
  return waiting;
}

}  // namespace kintsugi::proxy
