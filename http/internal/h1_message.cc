#include "http/internal/h1_message.h"

#include <algorithm>
#include <array>
#include <boost/beast/http/basic_parser.hpp>
#include <limits>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "http/internal/h1_rules.h"
#include "http/internal/head_limits.h"
#include "http/wire.h"

namespace kintsugi::http {
namespace {

namespace beast = boost::beast;
using beast::http::field;

constexpr std::size_t kMaxChunkDigits = 16;
constexpr std::size_t kMaxExtension = 256, kMaxExtensions = 16 * 1024;  ///< [bytes]
constexpr std::size_t kMaxChunkLine = 512;  ///< more than any good one with CR LF twice [bytes]

H1Fault fault(std::string_view message, int status = 400) { return {status, message}; }

/// Beast's parser of one message. It hears everything, and a subclass what it asks for.
template <bool kRequest>
class Parser : public beast::http::basic_parser<kRequest> {
 public:
  Parser() {
    this->header_limit(std::numeric_limits<std::uint32_t>::max());  // callers know better limits
    this->body_limit(boost::none);
  }
  /// @returns how many bytes were used
  std::size_t put_text(std::string_view text, beast::error_code& ec) {
    return this->put(beast::net::const_buffer(text.data(), text.size()), ec);
  }

 protected:
  using View = beast::string_view;
  void on_request_impl(beast::http::verb, View, View, int, beast::error_code&) override {}
  void on_response_impl(int, View, int, beast::error_code&) override {}
  void on_field_impl(field, View, View, beast::error_code&) override {}
  void on_header_impl(beast::error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, beast::error_code&) override {}
  std::size_t on_body_impl(View body, beast::error_code&) override { return body.size(); }
  void on_chunk_header_impl(std::uint64_t, View, beast::error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, View body, beast::error_code&) override {
    return body.size();
  }
  void on_finish_impl(beast::error_code&) override {}
};

/// Takes fields as Beast finds them, of a head or of trailers. Host does not go to the list.
struct FieldSink {
  const SessionLimits& limits;
  HeaderList& out;
  FieldFacts facts;
  std::optional<H1Fault> refused;  ///< by a rule of ours

  void take(field known, std::string_view name, std::string_view value, beast::error_code& ec) {
    if (name.size() + value.size() > limits.max_header) {
      refuse(fault("a header field is too large", 431), ec);
    } else if (out.size() >= kMaxFields) {
      refuse(fault("too many header fields", 431), ec);
    } else if (known == field::content_length && facts.lengths > 0) {
      refuse(fault("more than one Content-Length field"), ec);
    } else {
      note(known, value);
      if (known != field::host) {
        out.add(name, value);
      }
    }
  }
  void refuse(H1Fault why, beast::error_code& ec) {
    refused = why;
    ec = beast::http::error::bad_field;
  }

 private:
  void note(field known, std::string_view value) {
    switch (known) {
      case field::host:
        facts.host = value;
        ++facts.hosts;
        break;
      case field::expect:
        (equals_ignore_case(value, "100-continue") ? facts.expects_continue : facts.expects_more) =
            true;
        break;
      case field::upgrade:
        facts.upgrade = value;
        break;
      case field::connection:
        facts.close = facts.close || list_contains(value, "close");
        facts.keep_alive = facts.keep_alive || list_contains(value, "keep-alive");
        facts.wants_upgrade = facts.wants_upgrade || list_contains(value, "upgrade");
        facts.nominates = true;
        break;
      case field::content_length:
        facts.length = value;
        ++facts.lengths;
        break;
      case field::transfer_encoding:
        facts.coding = value;
        ++facts.codings;
        break;
      default:
        break;
    }
  }
};

/// A head by itself: bodies have a reader of their own.
template <bool kRequest>
class HeadParser final : public Parser<kRequest> {
 public:
  HeadParser(const SessionLimits& limits, HeaderList& out) : fields_{limits, out, {}, {}} {
    this->skip(true);
  }
  /// @param text  a whole head
  H1Result<void> read(std::string_view text) {
    beast::error_code ec;
    const std::size_t line = text.find("\r\n");
    std::string_view rest = text;
    if (!kRequest && line == kShortLine) {
      // Some leave out the blank before an empty reason, which Beast insists on.
      std::array<char, kShortLine + 3> first{};
      std::copy_n(text.data(), kShortLine, first.data());
      std::copy_n(" \r\n", 3, first.data() + kShortLine);
      (void)this->put_text({first.data(), first.size()}, ec);
      rest.remove_prefix(kShortLine + 2);
    }
    if (!ec || ec == beast::http::error::need_more) {
      const std::size_t used = this->put_text(rest, ec);
      if (!ec && used == rest.size() && this->is_done()) {
        return {};
      }
    }
    return tl::unexpected<H1Fault>(fields_.refused ? *fields_.refused
                                                   : fault_of(ec, text.substr(0, line)));
  }
  [[nodiscard]] const FieldFacts& facts() const noexcept { return fields_.facts; }
  [[nodiscard]] bool http10() const noexcept { return version_ == 10; }
  [[nodiscard]] std::string_view method() const noexcept { return method_; }
  [[nodiscard]] std::string_view target() const noexcept { return target_; }
  [[nodiscard]] int status() const noexcept { return status_; }

 private:
  static constexpr std::size_t kShortLine = 12;  // "HTTP/1.1 200"
  static constexpr std::string_view kBadLine =
      kRequest ? "malformed request line" : "malformed status line";
  using View = typename Parser<kRequest>::View;

  void on_request_impl(beast::http::verb, View method, View target, int version,
                       beast::error_code& ec) override {
    method_ = method;
    target_ = target;
    version_ = version;
    if (!is_target(target_)) {  // Beast takes bytes from 0x80
      fields_.refuse(fault(kBadLine), ec);
    }
  }
  void on_response_impl(int status, View, int version, beast::error_code& ec) override {
    status_ = status;
    version_ = version;
    if (status < 100) {
      fields_.refuse(fault(kBadLine), ec);
    }
  }
  void on_field_impl(field known, View name, View value, beast::error_code& ec) override {
    fields_.take(known, name, value, ec);
  }
  /// What Beast refused, told as our own rules tell it.
  [[nodiscard]] H1Fault fault_of(const beast::error_code& ec, std::string_view line) const {
    using beast::http::error;
    if (version_ == 0) {
      return kRequest && ec == error::bad_version ? version_fault(line) : fault(kBadLine);
    }
    const bool length = ec == error::bad_content_length || ec == error::multiple_content_length;
    const FieldFacts& seen = facts();
    if (length ? seen.codings > 0 : ec == error::bad_transfer_encoding && seen.lengths > 0) {
      return fault("both Transfer-Encoding and Content-Length");
    }
    if (length) {
      return fault(seen.lengths > 0 ? "more than one Content-Length field"
                                    : "malformed Content-Length");
    }
    if (ec == error::bad_transfer_encoding) {
      return http10() ? fault("Transfer-Encoding in an HTTP/1.0 message")
                      : fault("unknown Transfer-Encoding", 501);
    }
    return fault(ec == error::bad_value || ec == error::bad_line_ending
                     ? "forbidden character in a header field"
                     : "malformed header field");
  }

  FieldSink fields_;
  std::string_view method_, target_;
  int status_ = 0;
  int version_ = 0;  // 10, 11; 0 until the first line was read
};

bool is_hex(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

}  // namespace

H1Result<std::size_t> H1HeadScanner::scan(std::string_view text) noexcept {
  while (scanned_ < text.size()) {
    const std::size_t end = text.find('\n', scanned_);
    if (end == std::string_view::npos) {
      scanned_ = text.size();
      break;
    }
    if (end == 0 || text[end - 1] != '\r') {
      return bad("a line does not end with CR LF");
    }
    scanned_ = end + 1;
    if (end - line_ == 1 && line_ > 0) {
      return scanned_;
    }
    if (line_ > 0 && (text[line_] == ' ' || text[line_] == '\t')) {
      return bad("malformed header field");  // Beast would unfold it
    }
    line_ = scanned_;
  }
  return std::size_t{0};
}

H1Result<H1Request> parse_h1_request(std::string_view text, const SessionLimits& limits) {
  H1Request request;
  RequestHead& head = request.head;
  HeadParser<true> parser(limits, head.headers);
  if (auto read = parser.read(text); !read) {
    return tl::unexpected<H1Fault>(read.error());
  }
  const FieldFacts& facts = parser.facts();
  request.http10 = parser.http10();
  head.method = parser.method();
  head.version = 1;
  if (head.headers.list_size() > limits.max_header_list) {
    return bad("request header fields are too large", 431);
  }
  if (auto fine = check_request_fields(facts, request.http10); !fine) {
    return tl::unexpected<H1Fault>(fine.error());
  }
  if (auto set = set_target(head, parser.target(), facts); !set) {
    return tl::unexpected<H1Fault>(set.error());
  }
  const auto framing = framing_of(facts, request.http10);
  if (!framing) {
    return tl::unexpected<H1Fault>(framing.error());
  }
  request.framing = *framing;
  request.keep_alive = !request.http10 && !facts.close;
  const bool has_body = framing->kind != H1Framing::Kind::kNone;
  request.expects_continue = facts.expects_continue && has_body && !request.http10;
  if (facts.wants_upgrade && !facts.upgrade.empty() && !has_body && !request.http10 &&
      !list_contains(facts.upgrade, "h2c")) {
    head.protocol = facts.upgrade;
  }
  head.end_stream = !has_body && head.protocol.empty();
  if (facts.nominates) {
    if (auto dropped = drop_nominated(head.headers); !dropped) {
      return tl::unexpected<H1Fault>(dropped.error());
    }
  }
  return request;
}

H1Result<H1Response> parse_h1_response(std::string_view text, const SessionLimits& limits,
                                       bool head_request, bool upgrade) {
  H1Response response;
  HeadParser<false> parser(limits, response.head.headers);
  if (auto read = parser.read(text); !read) {
    return tl::unexpected<H1Fault>(read.error());
  }
  const FieldFacts& facts = parser.facts();
  const int status = parser.status();
  response.head.status = status;
  if (response.head.headers.list_size() > limits.max_header_list) {
    return bad("response header fields are too large", 431);
  }
  if (status == 101 && !upgrade) {
    return bad("101 without a request for it");
  }
  const auto framing = framing_of(facts, parser.http10());
  if (!framing) {
    return tl::unexpected<H1Fault>(framing.error());
  }
  const bool bodiless = head_request || status < 200 || status == 204 || status == 304;
  if (!bodiless) {
    response.framing = *framing;
    if (facts.lengths == 0 && facts.codings == 0) {
      response.framing.kind = H1Framing::Kind::kUntilClose;
    }
  }
  response.keep_alive = response.framing.kind != H1Framing::Kind::kUntilClose && !facts.close &&
                        (!parser.http10() || facts.keep_alive);
  if (facts.nominates && status != 101) {
    if (auto dropped = drop_nominated(response.head.headers); !dropped) {
      return tl::unexpected<H1Fault>(dropped.error());
    }
  }
  return response;
}

/// A chunked body. Beast reads whole messages only, so each one begins with the same head: what the
/// real head said was judged by then.
struct H1BodyReader::Chunks {
  class Body final : public Parser<false> {
   public:
    Body(const SessionLimits& limits, HeaderList& trailers) : fields_{limits, trailers, {}, {}} {
      beast::error_code ec;
      (void)put_text("HTTP/1.1 200 \r\nTransfer-Encoding:chunked\r\n\r\n", ec);
    }
    /// Of the chunk that has begun.
    [[nodiscard]] std::uint64_t left() const noexcept { return left_; }
    /// Body bytes of the last put_text.
    [[nodiscard]] std::string_view data() const noexcept { return data_; }
    [[nodiscard]] std::optional<H1Fault> refused() const noexcept { return fields_.refused; }

   private:
    void on_chunk_header_impl(std::uint64_t size, View, beast::error_code&) override {
      left_ = size;
    }
    std::size_t on_chunk_body_impl(std::uint64_t, View bytes, beast::error_code&) override {
      data_ = bytes;
      left_ -= bytes.size();
      return bytes.size();
    }
    void on_field_impl(field known, View name, View value, beast::error_code& ec) override {
      if (begun_) {
        fields_.take(known, name, value, ec);
      }
    }
    void on_header_impl(beast::error_code&) override { begun_ = true; }

    FieldSink fields_;
    std::uint64_t left_ = 0;
    std::string_view data_;
    bool begun_ = false;
  };
  std::optional<Body> body;
};

namespace {

/// The line before a chunk, of which as much is there as came by now.
struct ChunkLine {
  std::size_t extension = 0;  ///< after its semicolon [bytes]
  bool whole = false;
  bool last = false;  ///< size 0
};

/// What Beast does not ask of "size[;extension]" CR LF, and of the CR LF that ends the chunk
/// before: 1 to 16 digits, at once the extension or the end, a bound, no control characters, and
/// all that as soon as it can be told.
H1Result<ChunkLine> judge_chunk_line(std::string_view text, bool after_chunk) {
  constexpr std::string_view kEnd = "\r\n";
  ChunkLine line;
  std::size_t at = after_chunk ? std::min(text.size(), kEnd.size()) : 0;
  if (text.substr(0, at) != kEnd.substr(0, at)) {
    return bad("malformed chunk");
  }
  const std::size_t begin = at;
  bool zero = true;
  for (; at < text.size() && is_hex(text[at]); ++at) {
    zero = zero && text[at] == '0';
  }
  const std::size_t digits = at - begin;
  if (digits > kMaxChunkDigits || (digits == kMaxChunkDigits && text[begin] > '3')) {  // 2^62
    return bad("chunk size out of range");
  }
  if (at == text.size()) {
    return line;
  }
  if (at == begin || (text[at] != ';' && text[at] != '\r')) {
    return bad("malformed chunk size");
  }
  if (text[at] == ';') {
    std::string_view extension = text;
    extension.remove_prefix(at + 1);
    extension = extension.substr(0, std::min(extension.find('\r'), kMaxExtension + 1));
    if (!is_field_value(extension)) {
      return bad("malformed chunk extension");
    }
    if (extension.size() > kMaxExtension) {
      return bad("chunk extensions are too long");
    }
    line.extension = extension.size();
    at += 1 + extension.size();
  }
  // What is left is nothing, or begins with a carriage return.
  line.last = zero;
  line.whole = at + 1 < text.size();
  return line.whole && text[at + 1] != '\n' ? bad("malformed chunk") : H1Result<ChunkLine>(line);
}

}  // namespace

H1BodyReader::H1BodyReader() noexcept = default;
H1BodyReader::~H1BodyReader() = default;

void H1BodyReader::start(const H1Framing& framing, const SessionLimits& limits) {
  limits_ = &limits;
  left_ = framing.length;
  text_ = std::string();
  extensions_ = 0;
  scanner_.reset();
  after_chunk_ = false;
  trailers_ = HeaderList();
  switch (framing.kind) {
    case H1Framing::Kind::kNone:
      state_ = State::kDone;
      break;
    case H1Framing::Kind::kLength:
      state_ = State::kLength;
      break;
    case H1Framing::Kind::kChunked:
      state_ = State::kChunkLine;
      if (chunks_ == nullptr) {
        chunks_ = std::make_unique<Chunks>();
      }
      chunks_->body.emplace(limits, trailers_);
      break;
    case H1Framing::Kind::kUntilClose:
      state_ = State::kUntilClose;
      break;
  }
}

// Takes the bytes up to the end of the line, together with the CR LF of the chunk before.
H1Result<std::size_t> H1BodyReader::read_chunk_line(std::string_view in) {
  in = in.substr(0, kMaxChunkLine);
  const std::size_t skip = after_chunk_ && text_.size() < 2 ? 2 - text_.size() : 0;
  const std::size_t end = in.find('\n', skip);
  const std::size_t used = end == std::string_view::npos ? in.size() : end + 1;
  std::string_view text = in.substr(0, used);
  if (!text_.empty()) {
    text = text_.append(text);
  }
  const auto line = judge_chunk_line(text, after_chunk_);
  if (!line) {
    return tl::unexpected<H1Fault>(line.error());
  }
  if (extensions_ + line->extension > kMaxExtensions) {
    return bad("chunk extensions are too long");
  }
  if (!line->whole || line->last) {  // Beast reads the last chunk and the trailers as one
    if (text_.empty()) {
      text_ = text;
    }
    line_ = text_.size();
    state_ = line->whole ? State::kTrailers : State::kChunkLine;
    return used;
  }
  extensions_ += line->extension;
  beast::error_code ec;
  Chunks::Body& body = *chunks_->body;
  if (body.put_text(text, ec) != text.size() || ec) {
    return bad("malformed chunk extension");
  }
  text_.clear();
  after_chunk_ = true;
  state_ = State::kChunkData;
  return used;
}

// Takes one line of the trailers, or a part of it.
H1Result<std::size_t> H1BodyReader::read_trailers(std::string_view in) {
  const std::size_t end = in.find('\n');
  const std::size_t used = end == std::string_view::npos ? in.size() : end + 1;
  if (text_.size() - line_ + used > limits_->max_header_list) {
    return bad("trailer fields are too large", 431);
  }
  text_.append(in.substr(0, used));
  std::string_view section = text_;
  section.remove_prefix(after_chunk_ ? 2 : 0);
  const auto scanned = scanner_.scan(section);
  if (!scanned || *scanned == 0) {
    return scanned ? H1Result<std::size_t>(used) : scanned;
  }
  beast::error_code ec;
  Chunks::Body& body = *chunks_->body;
  if (body.put_text(text_, ec) != text_.size() || ec || !body.is_done()) {
    return tl::unexpected<H1Fault>(body.refused().value_or(fault("malformed trailer field")));
  }
  drop_forbidden_trailers(trailers_);
  text_ = std::string();
  state_ = State::kDone;
  return used;
}

H1Result<H1BodyReader::Piece> H1BodyReader::next(std::string_view in, std::size_t budget) {
  Piece piece;
  if (in.empty()) {
    return piece;
  }
  switch (state_) {
    case State::kDone:
      break;
    case State::kUntilClose:
      piece.data = in.substr(0, budget);
      piece.consumed = piece.data.size();
      break;
    case State::kLength:
      piece.data = in.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(budget, left_)));
      piece.consumed = piece.data.size();
      left_ -= piece.consumed;
      state_ = left_ == 0 ? State::kDone : State::kLength;
      break;
    case State::kChunkData: {
      beast::error_code ec;
      Chunks::Body& body = *chunks_->body;
      piece.consumed = body.put_text(in.substr(0, budget), ec);
      piece.data = body.data();
      state_ = body.left() == 0 ? State::kChunkLine : State::kChunkData;
      break;
    }
    case State::kChunkLine:
    case State::kTrailers: {
      const auto used = state_ == State::kChunkLine ? read_chunk_line(in) : read_trailers(in);
      if (!used) {
        return tl::unexpected<H1Fault>(used.error());
      }
      piece.consumed = *used;
      break;
    }
  }
  return piece;
}

}  // namespace kintsugi::http
