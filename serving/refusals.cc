#include "serving/refusals.h"

#include <string_view>
#include <utility>

#include "serving/answer.h"

namespace kintsugi::serving {
namespace {

constexpr std::size_t kAtOnce = 100;  // in a second
constexpr std::size_t kMostWaiting = 4'096;
constexpr Duration kShortest = milliseconds(250);
constexpr std::uint32_t kSpread = 500;  // [ms]

class RefusedRequest final : public http::RequestHandler {
 public:
  RefusedRequest(const http::RequestHead& head, http::ResponseStream& stream)
      : stream_(stream), form_(AnswerForm::of(head)) {}
  void begin(Refusals& refusals, Error error) {
    later_ = refusals.tell(std::move(error),
                           [this](const Error& told) { send_error(stream_, form_, told); });
  }
  void on_data(std::string_view bytes, bool /*end*/) noexcept override {
    stream_.consume(bytes.size());
  }
  void on_close(Errc /*cause*/) noexcept override { later_.reset(); }

 private:
  http::ResponseStream& stream_;
  const AnswerForm form_;
  std::unique_ptr<Refusals::Later> later_;
};

}  // namespace

Refusals::Later::Later(Refusals& refusals, Error error, Tell tell)
    : refusals_(refusals),
      error_(std::move(error)),
      tell_(std::move(tell)),
      timer_(refusals.loop_) {
  ++refusals_.waiting_;
  timer_.start(refusals_.pause(), [this] {
    const Tell now = std::move(tell_);  // it may destroy this
    const Error why = std::move(error_);
    now(why);
  });
}

std::unique_ptr<Refusals::Later> Refusals::tell(Error error, Tell tell) {
  if (waiting_ >= kMostWaiting || may_tell()) {
    tell(error);
    return nullptr;
  }
  return std::unique_ptr<Later>(new Later(*this, std::move(error), std::move(tell)));
}

std::unique_ptr<http::RequestHandler> Refusals::answer(const http::RequestHead& head,
                                                       http::ResponseStream& stream, Error error) {
  auto refused = std::make_unique<RefusedRequest>(head, stream);
  refused->begin(*this, std::move(error));
  return refused;
}

bool Refusals::may_tell() noexcept {
  if (const TimePoint now = loop_.now(); now - since_ >= seconds(1)) {
    since_ = now;
    told_ = 0;
  }
  return told_++ < kAtOnce;
}

Duration Refusals::pause() noexcept {
  random_ = random_ * 1'664'525U + 1'013'904'223U;
  return kShortest + milliseconds((random_ >> 8U) % kSpread);
}

}  // namespace kintsugi::serving
