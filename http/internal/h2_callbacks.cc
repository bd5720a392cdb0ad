#include "http/internal/h2_callbacks.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/recycled_memory.h"
#include "http/internal/h2_engine.h"
#include "http/internal/head_limits.h"

namespace kintsugi::http {
namespace {

constexpr std::size_t kLowMark = 32 * 1024;
constexpr std::int32_t kDefaultWindow = 65'535;

void check(int result) noexcept {
  if (result != 0) {
    std::abort();  // out of memory, or a constant of ours that nghttp2 refuses
  }
}

/// What a session says of itself.
struct H2Settings {
  H2Settings(const SessionLimits& limits, bool server, bool tell_streams) noexcept {
    const auto set = [&](std::int32_t id, std::uint32_t value) { entries[count++] = {id, value}; };
    set(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<std::uint32_t>(limits.max_header_list));
    set(NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1);
    if (server) {
      set(NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 4'096);
      set(NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1);
    } else {
      set(NGHTTP2_SETTINGS_ENABLE_PUSH, 0);
    }
    if (tell_streams) {
      set(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits.max_streams);
    }
    if (limits.stream_window < kDefaultWindow) {
      set(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits.stream_window);
    }
  }
  std::array<nghttp2_settings_entry, 6> entries{};
  std::size_t count = 0;
};

}  // namespace

// The C callbacks. All are noexcept; nghttp2 may only be told things (submit_*, consume_*), never
// run.
struct H2Callbacks {
  static H2Engine& engine(void* user) noexcept { return *static_cast<H2Engine*>(user); }
  static H2Stream* stream(nghttp2_session* session, std::int32_t id) noexcept {
    return static_cast<H2Stream*>(nghttp2_session_get_stream_user_data(session, id));
  }

  static int begin_frame(nghttp2_session*, const nghttp2_frame_hd* header, void* user) noexcept {
    H2Engine& self = engine(user);
    if (header->type == NGHTTP2_HEADERS) {
      self.block_wire_ = header->length;
    } else if (header->type == NGHTTP2_CONTINUATION) {
      self.block_wire_ += header->length;
    }
    self.count_frame(*header);
    self.explained_ += header->length + 9;
    return self.is_abused() ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
  }

  static int begin_headers(nghttp2_session* session, const nghttp2_frame* frame,
                           void* user) noexcept {
    H2Engine& self = engine(user);
    if (self.server_ && self.open_ >= self.limits_.max_streams &&
        frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
      self.watch_.take(ProtocolLimits::Kind::kRefused);
      (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                      NGHTTP2_REFUSED_STREAM);
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;  // nghttp2 leaves it at that reset
    }
    self.fields_.clear();
    self.block_size_ = 0;
    self.oversized_ = false;
    self.on_block_begin();
    return 0;
  }

  static int header(nghttp2_session*, const nghttp2_frame*, const std::uint8_t* name,
                    std::size_t name_length, const std::uint8_t* value, std::size_t value_length,
                    std::uint8_t, void* user) noexcept {
    H2Engine& self = engine(user);
    const std::size_t size = name_length + value_length;
    self.block_size_ += size + 32;
    if (size > self.limits_.max_header || self.block_size_ > self.limits_.max_header_list ||
        self.fields_.size() >= self.most_fields_) {
      self.oversized_ = true;
      if (self.block_size_ > 4 * self.limits_.max_header_list) {
        self.watch_.count(Abuse::kHead);
        return NGHTTP2_ERR_CALLBACK_FAILURE;
      }
    }
    const std::string_view key(reinterpret_cast<const char*>(name), name_length);
    const std::string_view text(reinterpret_cast<const char*>(value), value_length);
    if (!key.empty() && key.front() == ':') {
      self.on_pseudo(key, text);
    } else if (!self.oversized_) {
      self.fields_.add(key, text);
    }
    return 0;
  }

  // Without it nghttp2 drops malformed fields silently; a smuggled byte is a reason to refuse the
  // whole message.
  static int invalid_header(nghttp2_session*, const nghttp2_frame*, const std::uint8_t*,
                            std::size_t, const std::uint8_t*, std::size_t, std::uint8_t,
                            void* user) noexcept {
    engine(user).watch_.glitch(Abuse::kField);
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  }

  static int invalid_frame(nghttp2_session* session, const nghttp2_frame* frame, int code,
                           void* user) noexcept {
    if (code != NGHTTP2_ERR_REFUSED_STREAM) {
      engine(user).watch_.glitch(Abuse::kMadeReset);
    }
    if (H2Stream* s = stream(session, frame->hd.stream_id)) {
      s->invalid = true;
    }
    return 0;
  }

  static int frame_received(nghttp2_session* session, const nghttp2_frame* frame,
                            void* user) noexcept {
    H2Engine& self = engine(user);
    const bool end = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    switch (frame->hd.type) {
      case NGHTTP2_HEADERS: {
        if (self.server_) {
          self.watch_.on_block(self.block_wire_, self.block_size_);
        }
        const bool first = frame->headers.cat == NGHTTP2_HCAT_REQUEST;
        self.on_block_end(frame->hd.stream_id,
                          first ? nullptr : stream(session, frame->hd.stream_id), first, end);
        break;
      }
      case NGHTTP2_DATA:
        if (self.server_) {
          self.count_data(frame->data, stream(session, frame->hd.stream_id));
        }
        if (end) {
          if (self.requests_wait_) {
            self.serve_waiting();
          }
          if (H2Stream* s = stream(session, frame->hd.stream_id)) {
            self.deliver_end(*s);
          }
        }
        break;
      case NGHTTP2_RST_STREAM:
        self.watch_.on_reset(frame->hd.stream_id);
        if (H2Stream* s = stream(session, frame->hd.stream_id)) {
          s->peer_reset = true;
        }
        break;
      case NGHTTP2_GOAWAY:
        self.on_goaway();
        break;
      case NGHTTP2_PING:
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0) {
          self.on_ping_ack();
        }
        break;
      default:
        break;
    }
    return 0;
  }

  static int data_chunk(nghttp2_session* session, std::uint8_t, std::int32_t id,
                        const std::uint8_t* data, std::size_t length, void* user) noexcept {
    (void)nghttp2_session_consume_connection(session, length);
    if (engine(user).requests_wait_) {
      engine(user).serve_waiting();
    }
    H2Stream* s = stream(session, id);
    if (s != nullptr && s->lingers) {
      engine(user).take_late(*s, length);
    }
    if (s == nullptr || s->handler == nullptr || s->closed) {
      (void)nghttp2_session_consume_stream(session, id, length);
      return 0;
    }
    s->unconsumed += length;
    s->handler->on_data({reinterpret_cast<const char*>(data), length}, false);
    return 0;
  }

  static int stream_closed(nghttp2_session* session, std::int32_t id, std::uint32_t code,
                           void* user) noexcept {
    H2Engine& self = engine(user);
    if (self.server_) {
      self.order_->on_closed(id);
    }
    self.explained_ += self.limits_.stream_window;
    if (H2Stream* s = stream(session, id)) {
      (void)nghttp2_session_set_stream_user_data(session, id, nullptr);
      if (self.server_ && (s->peer_reset || (s->local_ended && s->remote_ended && !s->stopped))) {
        self.order_->on_over(id, s->peer_reset);
      }
      const bool refused_by_us =
          code == NGHTTP2_PROTOCOL_ERROR || code == NGHTTP2_FLOW_CONTROL_ERROR;
      const bool invalid = s->invalid || (refused_by_us && !s->peer_reset);
      self.finish(*s, invalid ? Errc::kProtocol : self.cause_of(*s, code));
    }
    return 0;
  }

  static int frame_sent(nghttp2_session* session, const nghttp2_frame* frame, void* user) noexcept {
    H2Engine& self = engine(user);
    if (frame->hd.type == NGHTTP2_GOAWAY) {
      self.on_goaway_sent();
    }
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) {
      return 0;
    }
    if (frame->hd.type == NGHTTP2_DATA) {
      // Clients written in Go give back 4 KiB at a time, to the stream and to the connection.
      const auto explained = static_cast<std::uint32_t>(4 + frame->hd.length / 1024);
      self.window_updates_due_ = std::min(self.window_updates_due_ + explained, 10'000U);
    }
    const bool sending = frame->hd.type == NGHTTP2_DATA && self.sending_ != nullptr;
    H2Stream* s =
        sending ? std::exchange(self.sending_, nullptr) : stream(session, frame->hd.stream_id);
    if (s == nullptr) {
      return 0;
    }
    if (!self.server_ && !s->head_sent && self.limits_.stream_window > kDefaultWindow) {
      (void)nghttp2_session_set_local_window_size(
          session, NGHTTP2_FLAG_NONE, s->id, static_cast<std::int32_t>(self.limits_.stream_window));
    }
    s->head_sent = true;
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
      s->local_ended = true;
      self.on_local_end(*s);
    }
    return 0;
  }

  static ssize_t read_length(nghttp2_session* session, std::int32_t id, std::uint8_t*,
                             std::size_t length, std::uint32_t* flags, nghttp2_data_source*,
                             void* user) noexcept {
    H2Engine& self = engine(user);
    H2Stream* s = stream(session, id);
    if (s == nullptr) {
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    const std::size_t queued = s->queue.size();
    if (queued == 0 && !s->ended) {
      s->offered = false;
      *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
      return 0;  // no frame
    }
    constexpr std::size_t kFrameHeader = 9;
    constexpr std::size_t kRunt = 512;
    const std::size_t room = self.room_ > kFrameHeader ? self.room_ - kFrameHeader : 0;
    const std::size_t wanted = std::min(queued, length);
    const std::size_t part = std::min(wanted, room);
    if (self.room_ < kFrameHeader || (part == 0 && wanted > 0) ||
        (part < std::min(wanted, kRunt) && self.filled_ > 0)) {
      self.paused_ = true;
      self.crowded_ = queued > kLowMark;
      return NGHTTP2_ERR_PAUSE;  // the next span has room
    }
    self.sending_ = s;
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (part == queued && !s->ended) {
      // Nothing waits in nghttp2 for what comes later: it is offered anew.
      s->offered = false;
      *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    }
    if (part == queued && s->ended) {
      *flags |= NGHTTP2_DATA_FLAG_EOF;
      if (s->trailers != nullptr) {
        NameValues fields;
        fields.add_fields(*s->trailers);
        if (fields.size() > 0) {
          *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
          if (nghttp2_submit_trailer(session, id, fields.data(), fields.size()) != 0) {
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
          }
        }
        s->trailers.reset();
      }
    }
    return static_cast<ssize_t>(part);
  }

  static int send_data(nghttp2_session*, nghttp2_frame* frame, const std::uint8_t* frame_header,
                       std::size_t length, nghttp2_data_source*, void* user) noexcept {
    constexpr std::size_t kFrameHeader = 9;
    H2Engine& self = engine(user);
    H2Stream* s = self.sending_;
    if (s == nullptr || s->id != frame->hd.stream_id || self.room_ < kFrameHeader + length) {
      self.sending_ = nullptr;
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    std::memcpy(self.out_, frame_header, kFrameHeader);
    const std::size_t moved = s->queue.read(self.out_ + kFrameHeader, length) + kFrameHeader;
    self.out_ += moved;
    self.room_ -= moved;
    self.filled_ += moved;
    s->moved = true;
    if (s->above_mark && s->queue.size() < kLowMark) {
      s->above_mark = false;
      s->drained_due = true;
      self.make_due(*s);
    }
    return 0;
  }

  static void install(nghttp2_session_callbacks* callbacks) noexcept {
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, header);
    nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, invalid_header);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, invalid_frame);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frame_received);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, data_chunk);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, stream_closed);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, frame_sent);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, send_data);
  }
};

std::string_view take_greeting(nghttp2_session* session, const SessionLimits& limits,
                               std::span<char> out) noexcept {
  constexpr std::size_t kFrameHeader = 9;
  const std::uint8_t* own = nullptr;
  const auto length = nghttp2_session_mem_send(session, &own);
  check(length > 0 && own[3] == NGHTTP2_SETTINGS ? 0 : 1);
  const H2Settings settings(limits, true, true);
  const auto size = nghttp2_pack_settings_payload(
      reinterpret_cast<std::uint8_t*>(out.data()) + kFrameHeader, out.size() - kFrameHeader,
      settings.entries.data(), settings.count);
  check(size > 0 ? 0 : 1);
  constexpr std::array<char, kFrameHeader> kHead = {0, 0, 0, NGHTTP2_SETTINGS};
  std::copy(kHead.begin(), kHead.end(), out.begin());
  out[2] = static_cast<char>(size);
  return {out.data(), kFrameHeader + static_cast<std::size_t>(size)};
}

nghttp2_data_provider body_provider() noexcept {
  nghttp2_data_provider provider{};
  provider.read_callback = H2Callbacks::read_length;
  return provider;
}

nghttp2_session* make_nghttp2_session(H2Engine& engine, const SessionLimits& limits,
                                      bool server) noexcept {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_option* options = nullptr;
  check(nghttp2_session_callbacks_new(&callbacks));
  check(nghttp2_option_new(&options));
  H2Callbacks::install(callbacks);
  nghttp2_option_set_no_auto_window_update(options, 1);
  nghttp2_option_set_no_closed_streams(options, 1);
  nghttp2_option_set_max_outbound_ack(options, 1'000);
  nghttp2_option_set_stream_reset_rate_limit(options, 1'000, 33);
  nghttp2_option_set_max_continuations(options, 8);
  nghttp2_option_set_max_deflate_dynamic_table_size(options, server ? 0 : 4'096);
  nghttp2_mem memory = {
      nullptr, [](std::size_t size, void*) { return recycled_malloc(size); },
      [](void* block, void*) { recycled_free(block); },
      [](std::size_t count, std::size_t size, void*) { return recycled_calloc(count, size); },
      [](void* block, std::size_t size, void*) { return recycled_realloc(block, size); }};
  nghttp2_session* session = nullptr;
  check(server ? nghttp2_session_server_new3(&session, callbacks, &engine, options, &memory)
               : nghttp2_session_client_new3(&session, callbacks, &engine, options, &memory));
  nghttp2_option_del(options);
  nghttp2_session_callbacks_del(callbacks);

  const H2Settings settings(limits, server, false);
  check(
      nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings.entries.data(), settings.count));
  check(nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0,
                                              static_cast<std::int32_t>(limits.connection_window)));
  return session;
}

}  // namespace kintsugi::http
