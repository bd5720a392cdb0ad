#include "http/internal/stream_order.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <limits>

namespace kintsugi::http {
namespace {

std::uint32_t word_at(const unsigned char* at) noexcept {
  return std::uint32_t{at[0]} << 24 | std::uint32_t{at[1]} << 16 | std::uint32_t{at[2]} << 8 |
         at[3];
}

std::int32_t stream_at(const unsigned char* at) noexcept {
  return static_cast<std::int32_t>(word_at(at) & 0x7fffffffU);
}

}  // namespace

std::size_t StreamOrder::scan(std::string_view bytes) noexcept {
  pending_ = false;
  std::size_t at = 0;
  while (true) {
    const std::size_t skip = std::min(rest_, bytes.size() - at);
    rest_ -= skip;
    at += skip;
    if (at == bytes.size()) {
      return at;
    }
    const auto* head = reinterpret_cast<const unsigned char*>(bytes.data()) + at;
    const std::size_t left = bytes.size() - at;
    std::size_t size = kHead, part = kHead;  // of the head, and of it among these bytes
    if (have_ > 0 || left < kHead || head[kType] == NGHTTP2_PRIORITY) {
      part = gather(head, left);
      size = head_size();
      if (have_ < size) {
        return bytes.size();
      }
      have_ = 0;
      head = head_.data();
    }
    const std::uint32_t length = word_at(head) >> 8;
    const std::size_t whole = kHead + length;
    if (whole < size) {  // nghttp2 ends the connection
      rest_ = std::numeric_limits<std::size_t>::max();
      continue;
    }
    rest_ = whole - size + part;
    if (suspicious(head)) {
      look_ = {stream_at(head + 5), length, head[kType], head[kType + 1]};
      pending_ = true;
      // The last byte of the head that nghttp2 lacks is among these, if it looks at the frame.
      return at;
    }
  }
}

std::size_t StreamOrder::head_size() const noexcept {
  return have_ > kType && head_[kType] == NGHTTP2_PRIORITY ? kPriorityHead : kHead;
}

std::size_t StreamOrder::gather(const unsigned char* from, std::size_t count) noexcept {
  std::size_t taken = 0;
  while (taken < count && have_ < head_size()) {
    head_[have_++] = from[taken++];
  }
  return taken;
}

bool StreamOrder::suspicious(const unsigned char* head) noexcept {
  const std::int32_t id = stream_at(head + 5);
  const std::uint8_t flags = head[4];
  switch (head[kType]) {
    case NGHTTP2_HEADERS:
      if (id > highest_ && id % 2 == 1) {
        begin(id, (flags & NGHTTP2_FLAG_END_STREAM) != 0);
        return false;
      }
      [[fallthrough]];
    case NGHTTP2_DATA: {
      const bool known = id == sending_;
      if (known && (flags & NGHTTP2_FLAG_END_STREAM) != 0) {
        sending_ = 0;
      }
      return !known && id <= highest_ && id % 2 == 1;
    }
    case NGHTTP2_RST_STREAM:
      if (id == sending_) {
        sending_ = 0;
      }
      return false;
    case NGHTTP2_PRIORITY:
      return id == 0 || id == stream_at(head + kHead);
    default:
      unknown_ += head[3] > NGHTTP2_CONTINUATION ? 1U : 0U;
      return false;
  }
}

void StreamOrder::begin(std::int32_t id, bool ends) noexcept {
  if (id - highest_ > 2) {
    skipped_[next_skipped_] = {highest_ + 1, id - 1};
    next_skipped_ = static_cast<std::uint8_t>((next_skipped_ + 1U) % skipped_.size());
  }
  highest_ = id;
  ++begun_;
  if (!ends) {
    sending_ = id;
  }
}

StreamOrder::Fault StreamOrder::judge(bool open) noexcept {
  pending_ = false;
  const std::int32_t id = look_.stream;
  if (look_.type == NGHTTP2_PRIORITY) {
    if (id == 0 || id > highest_) {
      return Fault::kConnection;  // nobody may reset a stream that was never begun
    }
    return open ? Fault::kStream : Fault::kLate;
  }
  if (open) {
    if ((look_.flags & NGHTTP2_FLAG_END_STREAM) == 0) {
      sending_ = id;
    }
    return Fault::kNone;
  }
  const auto number = static_cast<std::uint32_t>(id);
  const auto over = std::find_if(over_.begin(), over_.end(),
                                 [number](std::uint32_t one) { return one >> 1 == number; });
  if (over != over_.end()) {
    const bool reset = *over % 2 == 1;
    return reset || look_.type == NGHTTP2_DATA ? Fault::kClosedStream : Fault::kClosed;
  }
  const bool skipped = std::any_of(skipped_.begin(), skipped_.end(), [id](const Skipped& one) {
    return one.first <= id && id <= one.last;
  });
  return skipped ? Fault::kConnection : Fault::kLate;
}

void StreamOrder::on_over(std::int32_t id, bool reset) noexcept {
  over_[next_over_] = static_cast<std::uint32_t>(id) << 1 | (reset ? 1U : 0U);
  next_over_ = static_cast<std::uint8_t>((next_over_ + 1U) % over_.size());
}

}  // namespace kintsugi::http
