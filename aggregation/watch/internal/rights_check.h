#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "aggregation/watch/internal/member_watch.h"

namespace kintsugi::aggregation {

/// Asks one shard whether an identity may still watch, by beginning a watch and giving it up when
/// it is accepted: who joins running streams is asked about like everybody else. Threads: its loop.
class RightsCheck final : private MemberWatch::Sink {
 public:
  struct Outcome {
    enum class Kind : std::uint8_t { kAllowed, kRefused, kAway } kind = Kind::kAllowed;
    http::ResponseHead head;  ///< kRefused
    std::string body;         ///< kRefused; kAway: the cause
  };
  /// @param make  makes the stream for a sink. @param done  runs once, at once or later; must not
  /// destroy the check.
  RightsCheck(const std::function<std::unique_ptr<MemberWatch>(MemberWatch::Sink&)>& make,
              std::function<void(const Outcome&)> done)
      : stream_(make(*this)), done_(std::move(done)) {}
  ~RightsCheck() { stream_->stop(); }
  RightsCheck(const RightsCheck&) = delete;
  RightsCheck& operator=(const RightsCheck&) = delete;
  void start() { stream_->open(); }
  /// Nothing comes any more.
  void stop() noexcept {
    stream_->stop();
    done_ = nullptr;
  }

 private:
  void end(Outcome outcome) {
    stream_->stop();
    if (done_) {
      std::exchange(done_, nullptr)(outcome);
    }
  }
  void on_event(MemberWatch&, const EventFacts&, std::string_view) noexcept override {}
  void on_bookmark(MemberWatch&, const EventFacts&) noexcept override {}
  void on_initial_end(MemberWatch&) noexcept override {}
  void on_batch_end(MemberWatch&) noexcept override {}
  void on_accepted(MemberWatch&) override { end({}); }
  bool on_lost(MemberWatch&, std::string_view cause) override {
    end({Outcome::Kind::kAway, {}, std::string(cause)});
    return false;
  }
  void on_expired(MemberWatch&) override { end({}); }  // 410 only for who may ask
  void on_refused(MemberWatch&, const http::ResponseHead& head, const std::string& body) override {
    if (head.status == 404) {
      end({});
    } else if (head.status == 429) {  // no word about rights
      end({Outcome::Kind::kAway, {}, "it answers 429"});
    } else {
      end({Outcome::Kind::kRefused, head, body});
    }
  }
  void on_too_large(MemberWatch&, const std::string&) override { end({}); }
  void on_fault(MemberWatch&) override {
    end({Outcome::Kind::kAway, {}, "its answer cannot be understood"});
  }

  std::unique_ptr<MemberWatch> stream_;
  std::function<void(const Outcome&)> done_;
};

}  // namespace kintsugi::aggregation
