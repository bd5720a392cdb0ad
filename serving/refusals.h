#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/error.h"
#include "base/time.h"
#include "http/handler.h"
#include "net/loop.h"

namespace kintsugi::serving {

/// When requests that are refused are told so: whoever asks again as soon as he is refused would
/// have the loop do nothing else (SE-005). A hundred a second of a loop are told at once, others
/// after 250 to 750 ms, each after another time, of which 4,096 wait at most. Threads: its loop.
/// Outlives what waits.
class Refusals {
 public:
  explicit Refusals(net::Loop& loop) noexcept : loop_(loop) {}
  Refusals(const Refusals&) = delete;
  Refusals& operator=(const Refusals&) = delete;

  using Tell = std::function<void(const Error&)>;
  /// One that waits to be told; is not told once this is destroyed.
  class Later {
   public:
    ~Later() { --refusals_.waiting_; }
    Later(const Later&) = delete;
    Later& operator=(const Later&) = delete;

   private:
    friend class Refusals;
    Later(Refusals& refusals, Error error, Tell tell);
    Refusals& refusals_;
    Error error_;
    Tell tell_;
    net::Timer timer_;
  };
  /// @param tell  is called once, now or in a later turn; may destroy what is returned
  /// @returns null: it has been told
  [[nodiscard]] std::unique_ptr<Later> tell(Error error, Tell tell);
  /// The same with the answer to a request, whose body is dropped meanwhile.
  [[nodiscard]] std::unique_ptr<http::RequestHandler> answer(const http::RequestHead& head,
                                                             http::ResponseStream& stream,
                                                             Error error);
  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_; }

 private:
  [[nodiscard]] bool may_tell() noexcept;
  [[nodiscard]] Duration pause() noexcept;

  net::Loop& loop_;
  std::size_t waiting_ = 0, told_ = 0;  // the second: since since_
  TimePoint since_{};
  std::uint32_t random_ = 1;
};

}  // namespace kintsugi::serving
