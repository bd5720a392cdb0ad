#include "http/internal/h1_engine.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "http/wire.h"

namespace kintsugi::http {
namespace {

constexpr std::size_t kMaxUnread = 64 * 1024;     // then can_read() is false
constexpr std::size_t kMaxIgnored = 1024 * 1024;  // an owner that feeds on all the same
constexpr std::size_t kMaxDiscarded = 64 * 1024;  // of a request body that nobody wanted
constexpr std::size_t kChunkOverhead = 12;        // 8 hex digits, twice CR LF
constexpr std::size_t kRunt = 256;

}  // namespace

void H1Engine::changed() noexcept {
  if (!receiving_ && !transport_closed_) {
    host_.output_ready();
  }
}

void H1Engine::begin_exchange(StreamHandler* handler) noexcept {
  exchange_ = true;
  handler_ = handler;
  in_done_ = false;
  any_produced_ = false;
  head_out_ = false;
  hold_body_ = false;
  body_dropped_ = false;
  has_length_ = false;
  chunked_ = false;
  out_ended_ = false;
  out_done_ = false;
  above_mark_ = false;
  drained_due_ = false;
}

void H1Engine::finish(Errc cause) noexcept {
  if (exchange_ && !finished_due_) {
    finished_due_ = true;
    cause_ = cause;
    queue_.clear();
    trailers_.reset();
  }
}

void H1Engine::drop_output() noexcept {
  text_ = std::string();
  text_sent_ = 0;
  queue_.clear();
}

bool H1Engine::admit_body(std::size_t size) noexcept {
  if (!exchange_ || finished_due_ || out_ended_) {
    return false;
  }
  if (has_length_ && !body_dropped_) {
    if (size > length_left_) {
      abort(Errc::kInternal);  // more than was announced would be read as the next message
      return false;
    }
    length_left_ -= size;
  }
  return true;
}

void H1Engine::end_body() noexcept {
  out_ended_ = true;
  if (has_length_ && length_left_ > 0 && !body_dropped_) {
    abort(Errc::kInternal);
  }
}

void H1Engine::queue_trailers(const HeaderList& fields) noexcept {
  if (!exchange_ || finished_due_ || out_ended_) {
    return;
  }
  trailers_ = std::make_unique<HeaderList>(fields);  // used only when the body is chunked
  end_body();
  changed();
}

void H1Engine::abort(Errc cause) noexcept {
  if (!exchange_ || finished_due_) {
    return;
  }
  finish(cause);
  drop_output();
  closing_ = true;
  broken_ = true;
  input_ = Input::kIgnore;
  changed();
}

std::size_t H1Engine::abort_stalled(TimePoint now, Duration limit) noexcept {
  const bool waits = exchange_ && !finished_due_ && (!text_.empty() || !queue_.empty());
  if (!waits || (!out_ended_ && !above_mark_)) {
    stuck_since_ = TimePoint{};
  } else if (moved_ || stuck_since_ == TimePoint{}) {
    moved_ = false;
    stuck_since_ = now;
  } else if (now - stuck_since_ >= limit) {
    abort(Errc::kDeadline);
    return 1;
  }
  return 0;
}

void H1Engine::credit(std::size_t bytes) noexcept {
  unconsumed_ -= std::min(bytes, unconsumed_);
  if (blocked_ || !in_.empty()) {
    changed();
  }
}

void H1Engine::start_tunnel() noexcept {
  tunnel_ = true;
  closing_ = true;
  has_length_ = false;
  chunked_ = false;
  hold_body_ = false;
  input_ = Input::kTunnel;
}

void H1Engine::append_fields(const HeaderList& fields, bool keep_length) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const HeaderView field = fields[i];
    const bool wants_trailers = field.name == "te" && field.value == "trailers";  // FP-153
    if ((is_hop_by_hop(field.name) && !wants_trailers) || field.name == "host" ||
        (field.name == "content-length" && !keep_length) || !is_token(field.name) ||
        (client_ && field.name == "proxy-authorization") ||  // that of the connection counts
        !is_field_value(field.value)) {
      continue;
    }
    text_.append(field.name).append(": ").append(field.value).append("\r\n");
  }
}

// --- receiving

bool H1Engine::can_read() const noexcept {
  return unconsumed_ < kHighMark && in_.size() < kMaxUnread;
}

Expected<void> H1Engine::receive(std::string_view bytes) noexcept {
  if (transport_closed_) {
    return fail(Errc::kClosed);
  }
  if (input_ == Input::kIgnore) {
    return {};
  }
  receiving_ = true;
  H1Result<std::size_t> used = std::size_t{0};
  if (in_.empty()) {
    used = read_all(bytes);
    if (used) {
      in_.assign(bytes.substr(*used));
    }
  } else {
    in_.append(bytes);
    used = take_buffered() ? H1Result<std::size_t>(0) : tl::unexpected<H1Fault>(H1Fault{400, ""});
  }
  if (used) {
    run_due();
  }
  receiving_ = false;
  blocked_ = !can_read();
  if (!used || broken_) {
    return used ? Expected<void>() : fail(Errc::kProtocol, std::string(used.error().message));
  }
  if (in_.size() > kMaxIgnored) {
    return fail(Errc::kOverloaded, "bytes were fed although the session did not want to read");
  }
  return {};
}

// Reads on from the buffer. False: malformed, on_fault was called.
bool H1Engine::take_buffered() noexcept {
  std::string text = std::move(in_);
  in_.clear();
  const auto used = read_all(text);
  if (!used) {
    in_ = std::string();
    return false;
  }
  if (*used == text.size()) {
    in_ = std::string();
  } else {
    text.erase(0, *used);
    in_ = std::move(text);
  }
  return true;
}

// Reads until nothing moves. On a fault the connection ignores what follows.
H1Result<std::size_t> H1Engine::read_all(std::string_view in) noexcept {
  std::size_t total = 0;
  for (;;) {
    const auto used = read_some(in.substr(total));
    if (!used) {
      closing_ = true;
      broken_ = true;
      head_begun_ = false;
      on_fault(used.error());
      input_ = Input::kIgnore;
      return tl::unexpected<H1Fault>(used.error());
    }
    total += *used;
    if (*used == 0) {
      head_begun_ = input_ == Input::kHead && total < in.size();
      return total;
    }
  }
}

H1Result<std::size_t> H1Engine::read_some(std::string_view in) noexcept {
  switch (input_) {
    case Input::kHead:
      return read_head(in);
    case Input::kBody:
    case Input::kDiscard:
      return read_body(in);
    case Input::kTunnel: {
      if (handler_ == nullptr || in.empty() || unconsumed_ >= kHighMark) {
        return std::size_t{0};
      }
      const std::string_view part = in.substr(0, kHighMark - unconsumed_);
      deliver(part, false);
      return part.size();
    }
    case Input::kIgnore:
      return in.size();
    case Input::kWait:
      break;
  }
  return std::size_t{0};
}

H1Result<std::size_t> H1Engine::read_head(std::string_view in) noexcept {
  if (in.empty()) {
    return std::size_t{0};
  }
  if (closing_ && !exchange_) {
    input_ = Input::kIgnore;
    return in.size();
  }
  if (client_ && !exchange_) {
    return tl::unexpected<H1Fault>(H1Fault{400, "bytes that belong to no request"});
  }
  if (in.substr(0, 2) == "\r\n" && !exchange_) {
    scanner_.reset();
    return std::size_t{2};  // RFC 9112, section 2.2: empty lines before a request
  }
  const auto length = scanner_.scan(in.substr(0, limits_.max_header_list));
  if (!length) {
    return length;
  }
  if (*length == 0 && in.size() < limits_.max_header_list) {
    return std::size_t{0};
  }
  scanner_.reset();
  if (*length == 0) {
    return tl::unexpected<H1Fault>(H1Fault{431, "header fields are too large"});
  }
  if (auto parsed = on_head_text(in.substr(0, *length)); !parsed) {
    return tl::unexpected<H1Fault>(parsed.error());
  }
  return length;
}

H1Result<std::size_t> H1Engine::read_body(std::string_view in) noexcept {
  const bool discard = input_ == Input::kDiscard;
  if (!discard && unconsumed_ >= kHighMark) {
    return std::size_t{0};
  }
  const auto piece = reader_.next(in, discard ? in.size() + 1 : kHighMark - unconsumed_);
  if (!piece) {
    return tl::unexpected<H1Fault>(piece.error());
  }
  if (discard) {
    discarded_ += piece->consumed;
    if (discarded_ > kMaxDiscarded) {
      closing_ = true;
      input_ = Input::kIgnore;
    } else if (reader_.done()) {
      input_ = Input::kHead;
    }
    return piece->consumed;
  }
  if (!piece->data.empty()) {
    deliver(piece->data, false);
  }
  if (reader_.done() && input_ == Input::kBody) {
    in_done_ = true;
    input_ = Input::kWait;
    if (!reader_.trailers().empty() && handler_ != nullptr && !finished_due_) {
      handler_->on_trailers(std::move(reader_.trailers()));
    }
    deliver({}, true);
    on_body_end();
  }
  return piece->consumed;
}

void H1Engine::deliver(std::string_view bytes, bool end) noexcept {
  if (handler_ != nullptr && !finished_due_) {
    unconsumed_ += bytes.size();
    handler_->on_data(bytes, end);
  }
}

bool H1Engine::take_read_end() noexcept {
  if (!tunnel_ || !exchange_ || finished_due_ || transport_closed_) {
    return false;
  }
  read_ended_ = true;
  changed();  // settle() tells the handler, after what is buffered
  return !out_done_ || !in_.empty();
}

// --- sending

std::size_t H1Engine::copy_text(std::span<char> out) noexcept {
  const std::size_t part = std::min(out.size(), text_.size() - text_sent_);
  std::memcpy(out.data(), text_.data() + text_sent_, part);
  text_sent_ += part;
  if (text_sent_ == text_.size()) {
    text_ = std::string();
    text_sent_ = 0;
  }
  return part;
}

std::size_t H1Engine::copy_body(std::span<char> out, bool first) noexcept {
  std::size_t done = 0;
  if (!chunked_) {
    done = queue_.read(out.data(), out.size());
  } else if (out.size() > kChunkOverhead) {
    const std::size_t part =
        std::min<std::size_t>({queue_.size(), out.size() - kChunkOverhead, 0x7fff'ffff});
    if (part < std::min(queue_.size(), kRunt) && !first) {
      return 0;
    }
    char* end = std::to_chars(out.data(), out.data() + 8, part, 16).ptr;
    *end++ = '\r';
    *end++ = '\n';
    end += queue_.read(end, part);
    *end++ = '\r';
    *end++ = '\n';
    done = static_cast<std::size_t>(end - out.data());
  }
  if (above_mark_ && queue_.size() < kLowMark) {
    above_mark_ = false;
    drained_due_ = true;
  }
  return done;
}

std::size_t H1Engine::fill(std::span<char> out) noexcept {
  if (transport_closed_) {
    return 0;
  }
  std::size_t done = 0;
  while (done < out.size()) {
    const std::size_t before = done;
    if (!text_.empty()) {
      done += copy_text(out.subspan(done));
      any_produced_ = true;
      continue;
    }
    if (!exchange_ || finished_due_ || !head_out_ || hold_body_) {
      break;
    }
    if (!queue_.empty()) {
      done += copy_body(out.subspan(done), done == 0);
    } else if (out_ended_ && !out_done_) {
      if (chunked_) {
        text_ = "0\r\n";
        if (trailers_ != nullptr) {
          append_fields(*trailers_, false);
        }
        text_ += "\r\n";
        chunked_ = false;
        continue;
      }
      out_done_ = true;
    }
    if (done == before) {
      break;
    }
  }
  if (text_.empty() && queue_.empty() && exchange_ && head_out_ && !hold_body_ && out_ended_ &&
      !chunked_) {
    out_done_ = true;
  }
  moved_ = moved_ || done > 0;
  return done;
}

bool H1Engine::has_output() const noexcept {
  if (transport_closed_) {
    return false;
  }
  if (!text_.empty()) {
    return true;
  }
  return exchange_ && !finished_due_ && head_out_ && !hold_body_ &&
         (!queue_.empty() || (out_ended_ && !out_done_));
}

bool H1Engine::needs_shutdown() const noexcept {
  return tunnel_ && exchange_ && out_done_ && !in_done_;
}

// --- the end of exchanges

void H1Engine::check_complete() noexcept {
  if (!exchange_ || finished_due_ || !out_done_) {
    return;
  }
  if (in_done_) {
    finish(Errc::kOk);
  } else if (input_ == Input::kBody && head_out_) {
    on_body_end();
  }
}

void H1Engine::end_exchange() noexcept {
  finished_due_ = false;
  if (StreamHandler* handler = std::exchange(handler_, nullptr)) {
    handler->on_close(cause_);
  }
  exchange_ = false;
  unconsumed_ = 0;
  discarded_ = 0;
  tunnel_ = false;
  trailers_.reset();
  on_exchange_end();
}

void H1Engine::run_due() noexcept {
  if (running_) {
    return;
  }
  running_ = true;
  for (bool moved = true; moved && !transport_closed_;) {
    moved = false;
    if (std::exchange(drained_due_, false) && handler_ != nullptr && !finished_due_) {
      handler_->on_drained();
    }
    check_complete();
    if (finished_due_) {
      end_exchange();
      moved = true;
    }
    if (read_ended_ && tunnel_ && !in_done_ && in_.empty() && exchange_) {
      in_done_ = true;
      input_ = Input::kIgnore;
      deliver({}, true);
      moved = true;
    }
    if (!in_.empty()) {
      const std::size_t before = in_.size();
      const bool fine = take_buffered();
      if (!fine) {
        changed();
      }
      moved = moved || in_.size() != before;
    }
  }
  running_ = false;
  if (blocked_ && can_read()) {
    blocked_ = false;
    changed();
  }
}

bool H1Engine::is_finished() const noexcept {
  if (transport_closed_) {
    return true;
  }
  return text_.empty() && (broken_ || (closing_ && !exchange_));
}

void H1Engine::close_all(Errc cause) noexcept {
  if (transport_closed_) {
    return;
  }
  run_due();
  transport_closed_ = true;
  if (exchange_) {
    const bool in_order = cause == Errc::kClosed && !finished_due_ && in_.empty();
    if (in_order && tunnel_ && !in_done_) {
      in_done_ = true;
      deliver({}, true);
      cause = out_done_ ? Errc::kOk : Errc::kClosed;
    } else if (in_order && input_ == Input::kBody && reader_.until_close()) {
      in_done_ = true;
      deliver({}, true);
      cause = Errc::kOk;
    }
    finish(client_ && !any_produced_ ? Errc::kNotProcessed : cause);
    end_exchange();
  }
  drop_output();
  in_ = std::string();
}

}  // namespace kintsugi::http
