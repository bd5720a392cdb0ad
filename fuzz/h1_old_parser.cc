#include "fuzz/h1_old_parser.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "fuzz/h1_grammar.h"
#include "http/internal/head_limits.h"
#include "http/wire.h"

namespace kintsugi::fuzz {

using namespace http;

namespace {

constexpr std::size_t kMaxChunkDigits = 16;
constexpr std::size_t kMaxExtension = 256, kMaxExtensions = 16 * 1024;  ///< [bytes]

std::set<int> found;

tl::unexpected<H1Fault> bad(std::string_view message, int status = 400) {
  found.insert(status);
  return tl::unexpected<H1Fault>(H1Fault{status, message});
}

/// The first fault stays; the others are only among old_faults().
template <class T>
void also(H1Result<void>& first, const H1Result<T>& next) {
  if (first && !next) {
    first = tl::unexpected<H1Fault>(next.error());
  }
}

/// Takes the next line without its CR LF; `text` has one.
std::string_view take_line(std::string_view& text) noexcept {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end - 1);
  text.remove_prefix(end + 1);
  return line;
}

/// What the fields say about framing and connection, gathered while they are read.
struct FieldFacts {
  std::string_view host;
  std::string_view length;
  std::string_view coding;
  std::string_view upgrade;
  int hosts = 0;
  int lengths = 0;
  int codings = 0;
  bool close = false;
  bool keep_alive = false;
  bool wants_upgrade = false;
  bool nominates = false;  // Connection names further fields
  bool expects_continue = false;
  bool expects_more = false;
};

H1Result<void> note_field(FieldFacts& facts, std::string_view name, std::string_view value) {
  switch (name.size()) {
    case 4:
      if (equals_ignore_case(name, "host")) {
        facts.host = value;
        ++facts.hosts;
      }
      break;
    case 6:
      if (equals_ignore_case(name, "expect")) {
        (equals_ignore_case(value, "100-continue") ? facts.expects_continue : facts.expects_more) =
            true;
      }
      break;
    case 7:
      if (equals_ignore_case(name, "upgrade")) {
        facts.upgrade = value;
      }
      break;
    case 10:
      if (equals_ignore_case(name, "connection")) {
        facts.close = facts.close || list_contains(value, "close");
        facts.keep_alive = facts.keep_alive || list_contains(value, "keep-alive");
        facts.wants_upgrade = facts.wants_upgrade || list_contains(value, "upgrade");
        facts.nominates = true;
        if (!is_token_list(value)) {
          return bad("forbidden character in a header field");
        }
      }
      break;
    case 14:
      if (equals_ignore_case(name, "content-length")) {
        if (facts.lengths > 0) {
          return bad("more than one Content-Length field");
        }
        facts.length = value;
        ++facts.lengths;
      }
      break;
    case 17:
      if (equals_ignore_case(name, "transfer-encoding")) {
        facts.coding = value;
        ++facts.codings;
      }
      break;
    case 16:
      if (equals_ignore_case(name, "proxy-connection") && !is_token_list(value)) {
        return bad("forbidden character in a header field");
      }
      break;
    default:
      break;
  }
  return {};
}

/// Reads field lines up to the empty one. Host does not go to the list.
H1Result<void> parse_fields(std::string_view text, const SessionLimits& limits, HeaderList& out,
                            FieldFacts& facts) {
  H1Result<void> first;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    if (line.empty()) {
      break;
    }
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
      also(first, H1Result<void>(bad("malformed header field")));  // also blanks before the colon
      continue;
    }
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = trim(line.substr(colon + 1));
    if (name.size() + value.size() > limits.max_header) {
      also(first, H1Result<void>(bad("a header field is too large", 431)));
    }
    if (out.size() >= kMaxFields) {
      also(first, H1Result<void>(bad("too many header fields", 431)));
    }
    if (!is_field_value(value)) {
      also(first, H1Result<void>(bad("forbidden character in a header field")));
    }
    also(first, note_field(facts, name, value));
    if (name.size() != 4 || !equals_ignore_case(name, "host")) {
      out.add(name, value);
    }
  }
  return first;
}

/// Removes the fields that `Connection` names.
H1Result<void> drop_nominated(HeaderList& fields) {
  std::vector<std::string_view> lists;  // their bytes stay where they are
  std::size_t options = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name == "connection") {
      const std::string_view list = fields[i].value;
      options += 1 + static_cast<std::size_t>(std::count(list.begin(), list.end(), ','));
      lists.push_back(list);
    }
  }
  if (options > kMaxConnectionOptions) {
    return bad("too many connection options");
  }
  fields.remove_if([&lists](const HeaderView& field) {
    return !is_hop_by_hop(field.name) && field.name != "content-length" &&
           std::any_of(lists.begin(), lists.end(),
                       [&field](std::string_view list) { return list_contains(list, field.name); });
  });
  return {};
}

H1Result<H1Framing> framing_of(const FieldFacts& facts, bool http10) {
  H1Framing framing;
  if (facts.codings > 0) {
    H1Result<void> first;
    if (facts.lengths > 0) {
      also(first, H1Result<void>(bad("both Transfer-Encoding and Content-Length")));
    }
    if (http10) {
      also(first, H1Result<void>(bad("Transfer-Encoding in an HTTP/1.0 message")));
    }
    if (facts.codings > 1 || !equals_ignore_case(facts.coding, "chunked")) {
      also(first, H1Result<void>(bad("unknown Transfer-Encoding", 501)));
    }
    if (!first) {
      return tl::unexpected<H1Fault>(first.error());
    }
    framing.kind = H1Framing::Kind::kChunked;
  } else if (facts.lengths > 0) {
    const auto length = parse_decimal<std::uint64_t>(facts.length);
    if (!length || *length > (std::uint64_t{1} << 62)) {
      return bad("malformed Content-Length");
    }
    framing.kind = *length > 0 ? H1Framing::Kind::kLength : H1Framing::Kind::kNone;
    framing.length = *length;
  }
  return framing;
}

/// "HTTP/1.1" → false, "HTTP/1.0" → true.
H1Result<bool> parse_version(std::string_view text) {
  if (text == "HTTP/1.1") {
    return false;
  }
  if (text == "HTTP/1.0") {
    return true;
  }
  const bool shaped = text.size() == 8 && text.substr(0, 5) == "HTTP/" && text[5] >= '0' &&
                      text[5] <= '9' && text[6] == '.' && text[7] >= '0' && text[7] <= '9';
  return shaped ? bad("HTTP version not supported", 505) : bad("malformed request line");
}

/// Splits the target into authority and origin form.
H1Result<void> set_target(RequestHead& head, std::string_view target, const FieldFacts& facts) {
  head.authority = facts.host;
  if (target.front() == '/') {
    head.target = target;
    return {};
  }
  if (target == "*" && head.method == "OPTIONS") {
    head.target = target;
    return {};
  }
  if (head.method == "CONNECT") {
    return bad("CONNECT is not supported", 405);
  }
  std::string_view rest = target;
  const std::size_t colon = rest.find("://");
  const std::string scheme =
      colon == std::string_view::npos ? std::string() : to_lower(rest.substr(0, colon));
  if (scheme != "http" && scheme != "https") {
    return bad("malformed request target");
  }
  rest.remove_prefix(colon + 3);
  const std::size_t path = std::min(rest.find_first_of("/?"), rest.size());
  const std::string_view authority = rest.substr(0, path);
  if (!is_authority(authority)) {
    return bad("malformed authority");
  }
  rest.remove_prefix(path);
  head.authority = authority;
  if (rest.empty() || rest.front() == '?') {
    head.target = "/";
  }
  head.target.append(rest);
  return {};
}

}  // namespace

const std::set<int>& old_faults() { return found; }

H1Result<std::size_t> OldHeadScanner::scan(std::string_view text) noexcept {
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
      return bad("malformed header field");
    }
    line_ = scanned_;
  }
  return std::size_t{0};
}

H1Result<H1Request> parse_old_request(std::string_view text, const SessionLimits& limits) {
  found.clear();
  H1Request request;
  RequestHead& head = request.head;
  std::string_view line = take_line(text);
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) {
    return bad("malformed request line");
  }
  const std::string_view target = line.substr(first + 1, last - first - 1);
  if (!is_token(line.substr(0, first)) || !is_target(target)) {
    return bad("malformed request line");
  }
  const auto http10 = parse_version(line.substr(last + 1));
  if (!http10) {
    return tl::unexpected<H1Fault>(http10.error());
  }
  request.http10 = *http10;
  head.method = line.substr(0, first);
  head.version = 1;
  FieldFacts facts;
  H1Result<void> wrong = parse_fields(text, limits, head.headers, facts);
  if (head.headers.list_size() > limits.max_header_list) {
    also(wrong, H1Result<void>(bad("request header fields are too large", 431)));
  }
  if (facts.hosts > 1 || (facts.hosts == 0 && !request.http10)) {
    also(wrong, H1Result<void>(bad("a request needs exactly one Host field")));
  }
  if (facts.hosts != 0 && !is_authority(facts.host)) {
    also(wrong, H1Result<void>(bad("malformed authority")));
  }
  if (facts.expects_more) {
    also(wrong, H1Result<void>(bad("unknown expectation", 417)));
  }
  also(wrong, set_target(head, target, facts));
  const auto framing = framing_of(facts, request.http10);
  also(wrong, framing);
  if (!wrong) {
    return tl::unexpected<H1Fault>(wrong.error());
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

H1Result<H1Response> parse_old_response(std::string_view text, const SessionLimits& limits,
                                        bool head_request, bool upgrade) {
  found.clear();
  H1Response response;
  const std::string_view line = take_line(text);
  if (line.size() < 12 || line[8] != ' ' || (line.size() > 12 && line[12] != ' ')) {
    return bad("malformed status line");
  }
  const auto http10 = parse_version(line.substr(0, 8));
  const auto status = parse_decimal<int>(line.substr(9, 3));
  if (!http10 || !status || *status < 100 || !is_field_value(line.substr(12))) {
    return bad("malformed status line");
  }
  response.head.status = *status;
  FieldFacts facts;
  H1Result<void> wrong = parse_fields(text, limits, response.head.headers, facts);
  if (response.head.headers.list_size() > limits.max_header_list) {
    also(wrong, H1Result<void>(bad("response header fields are too large", 431)));
  }
  if (*status == 101 && !upgrade) {
    also(wrong, H1Result<void>(bad("101 without a request for it")));
  }
  const auto framing = framing_of(facts, *http10);
  also(wrong, framing);
  if (!wrong) {
    return tl::unexpected<H1Fault>(wrong.error());
  }
  const bool bodiless = head_request || *status < 200 || *status == 204 || *status == 304;
  if (!bodiless) {
    response.framing = *framing;
    if (facts.lengths == 0 && facts.codings == 0) {
      response.framing.kind = H1Framing::Kind::kUntilClose;
    }
  }
  response.keep_alive = response.framing.kind != H1Framing::Kind::kUntilClose && !facts.close &&
                        (!*http10 || facts.keep_alive);
  if (facts.nominates && *status != 101) {
    if (auto dropped = drop_nominated(response.head.headers); !dropped) {
      return tl::unexpected<H1Fault>(dropped.error());
    }
  }
  return response;
}

void OldBodyReader::start(const H1Framing& framing, const SessionLimits& limits) {
  limits_ = &limits;
  extensions_ = 0;
  extension_.clear();
  extended_ = false;
  bad_end_ = false;
  found.clear();
  left_ = framing.length;
  line_ = 0;
  carriage_return_ = false;
  trailer_text_ = std::string();
  trailers_ = HeaderList();
  switch (framing.kind) {
    case H1Framing::Kind::kNone:
      state_ = State::kDone;
      break;
    case H1Framing::Kind::kLength:
      state_ = State::kLength;
      break;
    case H1Framing::Kind::kChunked:
      state_ = State::kChunkSize;
      left_ = 0;
      break;
    case H1Framing::Kind::kUntilClose:
      state_ = State::kUntilClose;
      break;
  }
}

// One line "size[;extension]" CR LF, byte by byte, or the CR LF after a chunk's data.
H1Result<std::size_t> OldBodyReader::read_chunk_line(std::string_view in) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    const char c = in[i];
    if (carriage_return_) {
      if (c != '\n') {
        return bad("malformed chunk");
      }
      carriage_return_ = false;
      line_ = 0;
      if (std::exchange(extended_, false) && !is_extension(std::exchange(extension_, {}))) {
        if (left_ > 0) {
          return bad("malformed chunk extension");
        }
        bad_end_ = true;  // the last chunk is judged together with the trailers
      }
      if (state_ == State::kChunkEnd) {
        state_ = State::kChunkSize;
      } else {
        state_ = left_ > 0 ? State::kChunkData : State::kTrailers;
      }
      return i + 1;
    }
    if (c == '\r') {
      if (state_ == State::kChunkSize && line_ == 0) {
        return bad("malformed chunk size");
      }
      carriage_return_ = true;
      continue;
    }
    ++line_;
    if (state_ == State::kChunkExtension) {
      if (line_ > kMaxExtension || ++extensions_ > kMaxExtensions) {
        return bad("chunk extensions are too long");
      }
      if (!is_field_value({&c, 1})) {
        return bad("malformed chunk extension");
      }
      extension_ += c;
      continue;
    }
    if (state_ != State::kChunkSize) {
      return bad("malformed chunk");
    }
    if (c == ';' && line_ > 1) {
      state_ = State::kChunkExtension;
      extended_ = true;
      line_ = 0;
      continue;
    }
    unsigned digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<unsigned>(c - '0');
    } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
      digit = static_cast<unsigned>((c | 0x20) - 'a') + 10;
    } else {
      return bad("malformed chunk size");
    }
    if (line_ > kMaxChunkDigits || left_ >> 58 != 0) {
      return bad("chunk size out of range");
    }
    left_ = left_ * 16 + digit;
  }
  return in.size();
}

H1Result<std::size_t> OldBodyReader::read_trailers(std::string_view in) {
  const std::size_t end = in.find('\n');
  const std::size_t used = end == std::string_view::npos ? in.size() : end + 1;
  if (trailer_text_.size() + used > limits_->max_header_list) {
    return bad("trailer fields are too large", 431);
  }
  trailer_text_.append(in.substr(0, used));
  line_ += used;
  if (end == std::string_view::npos) {
    return used;
  }
  if (line_ < 2 || trailer_text_[trailer_text_.size() - 2] != '\r') {
    return bad("a line does not end with CR LF");
  }
  const char begin = trailer_text_[trailer_text_.size() - line_];
  if (begin == ' ' || begin == '\t') {
    return bad("malformed header field");
  }
  if (line_ == 2) {
    FieldFacts facts;
    H1Result<void> wrong = parse_fields(trailer_text_, *limits_, trailers_, facts);
    if (facts.lengths > 0 || facts.codings > 0 || bad_end_) {
      also(wrong, H1Result<void>(bad("malformed trailer field")));
    }
    if (!wrong) {
      return tl::unexpected<H1Fault>(wrong.error());
    }
    // A trailer must not change what was decided with the head (RFC 9110, section 6.5.1).
    trailers_.remove_if([](const HeaderView& field) {
      return is_hop_by_hop(field.name) || field.name == "content-length" ||
             field.name == "authorization" || field.name == "trailer";
    });
    trailer_text_ = std::string();
    state_ = State::kDone;
  }
  line_ = 0;
  return used;
}

H1Result<OldBodyReader::Piece> OldBodyReader::next(std::string_view in, std::size_t budget) {
  Piece piece;
  if (in.empty()) {
    return piece;
  }
  switch (state_) {
    case State::kDone:
      return piece;
    case State::kUntilClose:
      piece.data = in.substr(0, budget);
      piece.consumed = piece.data.size();
      return piece;
    case State::kLength:
    case State::kChunkData: {
      const auto limit = static_cast<std::size_t>(std::min<std::uint64_t>(budget, left_));
      piece.data = in.substr(0, limit);
      piece.consumed = piece.data.size();
      left_ -= piece.consumed;
      if (left_ == 0) {
        state_ = state_ == State::kLength ? State::kDone : State::kChunkEnd;
      }
      return piece;
    }
    case State::kTrailers: {
      const auto used = read_trailers(in);
      if (!used) {
        return tl::unexpected<H1Fault>(used.error());
      }
      piece.consumed = *used;
      return piece;
    }
    default: {
      const auto used = read_chunk_line(in);
      if (!used) {
        return tl::unexpected<H1Fault>(used.error());
      }
      piece.consumed = *used;
      return piece;
    }
  }
}

}  // namespace kintsugi::fuzz
