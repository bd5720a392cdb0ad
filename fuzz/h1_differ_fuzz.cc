// HTTP/1.x messages, read by what the product has and by what it had (h1_old_parser.h). First byte:
// bit 0 responses, bit 1 to HEAD, bit 2 an upgrade was asked for, bit 3 a chunked body is first,
// bit 4 small limits; second byte: where the bytes are cut. However they are cut, both take the
// same messages for the same, and refuse the same.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/h1_old_parser.h"
#include "fuzz/pieces.h"

namespace {

using namespace kintsugi;
using namespace kintsugi::http;

struct New {
  using Scanner = H1HeadScanner;
  using Body = H1BodyReader;
  static constexpr auto kRequest = parse_h1_request;
  static constexpr auto kResponse = parse_h1_response;
};
struct Old {
  using Scanner = fuzz::OldHeadScanner;
  using Body = fuzz::OldBodyReader;
  static constexpr auto kRequest = fuzz::parse_old_request;
  static constexpr auto kResponse = fuzz::parse_old_response;
};

struct Mode {
  bool responses, head_request, upgrade, body_first;
  SessionLimits limits;
};

void tell(std::string& log, const HeaderList& fields) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    log.append(fields[i].name).append(": ").append(fields[i].value).append("\n");
  }
}

void tell(std::string& log, const H1Framing& framing) {
  log.append("framing ").append(std::to_string(static_cast<int>(framing.kind)));
  log.append(" ").append(std::to_string(framing.length)).append("\n");
}

/// One connection as an engine reads it, and what it saw.
template <class Side>
class Connection {
 public:
  explicit Connection(const Mode& mode) : mode_(mode) {
    if (mode.body_first) {
      begin_body({H1Framing::Kind::kChunked, 0});
    }
  }
  void feed(std::string_view bytes) {
    in_.append(bytes);
    while (status_ == 0 && (in_body_ ? read_body() : read_head())) {
    }
  }
  [[nodiscard]] const std::string& log() const { return log_; }
  /// The answer of the first refusal, 0: none yet.
  [[nodiscard]] int status() const { return status_; }

 private:
  bool refuse(const H1Fault& fault) {
    status_ = fault.status;
    return false;
  }
  void begin_body(const H1Framing& framing) {
    tell(log_, framing);
    body_.start(framing, mode_.limits);
    in_body_ = !body_.done();
  }
  bool read_head() {
    const std::size_t limit = mode_.limits.max_header_list;
    const auto length = scanner_.scan(std::string_view(in_).substr(0, limit));
    if (!length) {
      return refuse(length.error());
    }
    if (*length == 0) {
      return in_.size() < limit ? false : refuse({431, ""});
    }
    scanner_.reset();
    const std::string text = in_.substr(0, *length);
    in_.erase(0, *length);
    return mode_.responses ? on_response(text) : on_request(text);
  }
  bool on_request(const std::string& text) {
    const auto parsed = Side::kRequest(text, mode_.limits);
    if (!parsed) {
      return refuse(parsed.error());
    }
    const RequestHead& head = parsed->head;
    log_.append(head.method).append(" ").append(head.authority).append(" ").append(head.target);
    log_.append(" ").append(head.protocol).append(" ").append(std::to_string(head.version));
    log_ += parsed->http10 ? " http10" : "";
    log_ += parsed->keep_alive ? " keep" : "";
    log_ += parsed->expects_continue ? " continue" : "";
    log_ += head.end_stream ? " end\n" : "\n";
    tell(log_, head.headers);
    begin_body(parsed->framing);
    return true;
  }
  bool on_response(const std::string& text) {
    const auto parsed = Side::kResponse(text, mode_.limits, mode_.head_request, mode_.upgrade);
    if (!parsed) {
      return refuse(parsed.error());
    }
    log_.append(std::to_string(parsed->head.status)).append(parsed->keep_alive ? " keep\n" : "\n");
    tell(log_, parsed->head.headers);
    begin_body(parsed->framing);
    return true;
  }
  bool read_body() {
    const auto piece = body_.next(in_, 7);
    if (!piece) {
      return refuse(piece.error());
    }
    log_.append(piece->data);
    in_.erase(0, piece->consumed);
    if (body_.done()) {
      log_ += "\n";
      tell(log_, body_.trailers());
      in_body_ = false;
      return true;
    }
    return piece->consumed > 0;
  }

  const Mode& mode_;
  typename Side::Scanner scanner_;
  typename Side::Body body_;
  std::string in_, log_;
  int status_ = 0;
  bool in_body_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) {
    return 0;
  }
  const unsigned flags = data[0];
  Mode mode{(flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0, (flags & 8) != 0, {}};
  if ((flags & 16) != 0) {
    mode.limits.max_header_list = 160;
    mode.limits.max_header = 40;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(data + 2), size - 2);
  Connection<New> whole(mode), cut(mode);
  Connection<Old> old(mode);
  whole.feed(bytes);
  std::uint32_t random = data[1] + 1U;
  for (std::size_t at = 0; at < bytes.size();) {
    random = random * 1'664'525U + 1'013'904'223U;
    const std::size_t part = data[1] == 0 ? 1 : 1 + (random >> 24) % (1U + data[1] % 40U);
    cut.feed(bytes.substr(at, part));
    old.feed(bytes.substr(at, part));
    at += part;
  }
  fuzz::check(whole.log() == cut.log() && whole.status() == cut.status());
  fuzz::check(cut.log() == old.log() && (cut.status() == 0) == (old.status() == 0));
  // Of several faults any may be told.
  fuzz::check(cut.status() == old.status() || fuzz::old_faults().contains(cut.status()));
  return 0;
}
