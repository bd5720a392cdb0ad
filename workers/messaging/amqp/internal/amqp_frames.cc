#include "workers/messaging/amqp/internal/amqp_frames.h"

#include <utility>

#include "workers/messaging/amqp/internal/amqp_codec.h"

namespace kintsugi::workers {

void AmqpFrames::feed(std::string_view bytes) {
  if (rest_.empty()) {
    constexpr std::size_t kKept = 64 * 1024;
    if (held_.capacity() > kKept) {
      held_ = {};
    }
    rest_ = bytes;
    return;
  }
  if (rest_.data() != held_.data()) {
    // The rest may lie in held_ itself.
    std::string joined;
    joined.reserve(rest_.size() + bytes.size());
    joined += rest_;
    held_ = std::move(joined);
  }
  held_ += bytes;
  rest_ = held_;
}

std::optional<std::string_view> AmqpFrames::next() {
  std::size_t size = kHeader;
  if (!header_ && rest_.size() >= 4) {
    size = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      size = size << 8U | static_cast<unsigned char>(rest_[i]);
    }
    fault_ = fault_ || size < kHeader || size > most_;
  }
  if (fault_) {
    return std::nullopt;
  }
  if (rest_.size() < size) {
    if (!rest_.empty() && rest_.data() != held_.data()) {
      std::string copy(rest_);
      held_ = std::move(copy);
      rest_ = held_;
    }
    return std::nullopt;
  }
  const std::string_view whole = rest_.substr(0, size);
  rest_.remove_prefix(size);
  header_ = false;
  return whole;
}

std::optional<AmqpFrame> parse_frame(std::string_view frame) noexcept {
  const std::size_t head = 4U * static_cast<unsigned char>(frame[4]);
  const auto type = static_cast<unsigned char>(frame[5]);
  if (head < AmqpFrames::kHeader || head > frame.size() || type > 1) {
    return std::nullopt;
  }
  return AmqpFrame{type == 1, frame.substr(head)};
}

bool is_shallow(const AmqpFrame& frame) noexcept {
  return frame.body.empty() || AmqpReader(frame.body).check();
}

}  // namespace kintsugi::workers
