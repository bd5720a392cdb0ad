#include "proxy/forwarding/internal/watch_tail.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "http/web_socket.h"
#include "krm/request_info.h"

namespace kintsugi::proxy {
namespace {

bool is_space(char c) noexcept { return c == ' ' || c == '\t' || c == '\r'; }

/// As rfind, which looks at one byte at a time.
std::size_t last_newline(std::string_view bytes) noexcept {
  const void* const found = ::memrchr(bytes.data(), '\n', bytes.size());
  return found == nullptr
             ? std::string_view::npos
             : static_cast<std::size_t>(static_cast<const char*>(found) - bytes.data());
}

/// Walks through JSON text that may end early; every function returns false there and at anything
/// unexpected.
class Walk {
 public:
  explicit Walk(std::string_view text) noexcept : text_(text) {}

  [[nodiscard]] bool enter() noexcept {
    skip_space();
    return take('{');
  }
  /// The next member's key, the cursor being at its value then. False also at the end of the
  /// object.
  [[nodiscard]] bool next_key(std::string_view& key) noexcept {
    skip_space();
    if (take(',')) {
      skip_space();
    }
    if (!read_string(key)) {
      (void)take('}');
      return false;
    }
    skip_space();
    return take(':');
  }
  /// The text between the quotes, escapes as they are.
  [[nodiscard]] bool read_string(std::string_view& raw) noexcept {
    skip_space();
    if (!take('"')) {
      return false;
    }
    const std::size_t begin = at_;
    while (true) {
      const std::size_t quote = text_.find('"', at_);
      if (quote == std::string_view::npos) {
        at_ = text_.size();
        return false;
      }
      std::size_t backslashes = 0;
      while (quote - backslashes > begin && text_.data()[quote - backslashes - 1] == '\\') {
        ++backslashes;
      }
      at_ = quote + 1;
      if (backslashes % 2 == 0) {
        raw = {text_.data() + begin, quote - begin};
        return true;
      }
    }
  }
  [[nodiscard]] bool skip_value() noexcept {
    skip_space();
    std::size_t depth = 0;
    while (at_ < text_.size()) {
      const char c = text_.data()[at_];
      if (c == '"') {
        std::string_view ignored;
        if (!read_string(ignored)) {
          return false;
        }
      } else if (c == '{' || c == '[') {
        ++depth;
        ++at_;
        continue;
      } else if (c == '}' || c == ']') {
        if (depth == 0) {
          return true;  // the end of a number or word, and of the object around it
        }
        --depth;
        ++at_;
      } else if (depth == 0 && c == ',') {
        return true;
      } else {
        ++at_;
        continue;
      }
      if (depth == 0) {
        return true;
      }
    }
    return false;
  }

 private:
  void skip_space() noexcept {
    while (at_ < text_.size() && is_space(text_.data()[at_])) {
      ++at_;
    }
  }
  [[nodiscard]] bool take(char c) noexcept {
    if (at_ < text_.size() && text_.data()[at_] == c) {
      ++at_;
      return true;
    }
    return false;
  }
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

bool WatchTail::allows_bookmarks(std::string_view target) {
  const std::size_t mark = std::min(target.find('?'), target.size());
  const krm::Query query(target.substr(std::min(mark + 1, target.size())));
  return krm::asks_for_watch(query.get("allowWatchBookmarks"));  // read as every flag
}

WatchTail::Form WatchTail::form_of(const http::HeaderList& response_headers) noexcept {
  const std::string_view type = response_headers.get("content-type");
  const std::string_view encoding = response_headers.get("content-encoding");
  if (!encoding.empty() && encoding != "identity") {
    return Form::kOpaque;
  }
  return type.starts_with("application/json")                      ? Form::kJsonLines
         : type.starts_with("application/vnd.kubernetes.protobuf") ? Form::kLengthDelimited
                                                                   : Form::kOpaque;
}

/// The head is complete.
void WatchTail::Frame::begin() noexcept {
  left = std::exchange(size, 0);
  header = 0;
}

void WatchTail::Frame::read_socket_head(unsigned char byte) noexcept {
  if (header == 1) {
    return;
  }
  if (header == 2) {
    const unsigned char length = byte & 0x7FU;
    whole = static_cast<std::uint8_t>(2 +
                                      (length == 126   ? 2
                                       : length == 127 ? 8
                                                       : 0) +
                                      ((byte & 0x80U) != 0 ? 4 : 0));
    size = length < 126 ? length : 0;
  } else if (whole >= 10 ? header <= 10 : whole != 6 && header <= 4) {
    size = (size << 8U) | byte;
  }
  if (header == whole) {
    begin();
  }
}

std::size_t WatchTail::Frame::step(Form form, std::string_view bytes) noexcept {
  if (left == 0) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    ++header;
    if (form == Form::kWebSocket) {
      read_socket_head(byte);
    } else {
      size = (size << 8U) | byte;
      if (header == 4) {
        begin();
      }
    }
    return 1;
  }
  const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(left, bytes.size()));
  left -= part;
  return part;
}

void WatchTail::feed(std::string_view bytes) {
  if (bytes.empty()) {
    return;
  }
  if (form_ == Form::kJsonLines) {
    feed_lines(bytes);
  } else if (form_ != Form::kOpaque) {
    while (!bytes.empty()) {
      bytes.remove_prefix(frame_.step(form_, bytes));
    }
  }
}

void WatchTail::feed_lines(std::string_view bytes) {
  const bool fresh = fresh_;
  fresh_ = bytes.back() == '\n';
  if (!bookmarks_) {
    return;
  }
  const std::size_t last = last_newline(bytes);
  if (last == std::string_view::npos) {
    if (fresh) {
      scan(bytes, begun_);
    }
    return;
  }
  const std::size_t before = last_newline({bytes.data(), last});
  if (before == std::string_view::npos && !fresh) {
    version_ = begun_;
  } else {
    const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
    scan(bytes.substr(begin, last - begin), version_);
  }
  begun_.clear();
  if (last + 1 < bytes.size()) {
    scan(bytes.substr(last + 1), begun_);
  }
}

void WatchTail::scan(std::string_view event, std::string& version) {
  version.clear();
  Walk walk(event);
  std::string_view key, text;
  if (!walk.enter()) {
    return;
  }
  while (walk.next_key(key)) {
    if (key != "object") {
      if (!walk.skip_value()) {
        return;
      }
      continue;
    }
    if (!walk.enter()) {
      return;
    }
    while (walk.next_key(key)) {
      if (key == "kind" || key == "apiVersion") {
        if (!walk.read_string(text)) {
          return;
        }
        std::string& target = key == "kind" ? kind_ : api_version_;
        if (target != text) {
          target = text;
        }
      } else if (key == "metadata") {
        if (!walk.enter()) {
          return;
        }
        while (walk.next_key(key)) {
          if (key == "resourceVersion") {
            if (!walk.read_string(text)) {
              return;
            }
            if (version.empty()) {
              version = text;
            }
            if (!kind_.empty() && !api_version_.empty()) {
              return;  // both are the same for every event of a stream
            }
          } else if (!walk.skip_value()) {
            return;
          }
        }
      } else if (!walk.skip_value()) {
        return;
      }
    }
    return;
  }
}

bool WatchTail::at_boundary() const noexcept {
  return form_ == Form::kOpaque || (form_ == Form::kJsonLines ? fresh_ : frame_.idle());
}

std::size_t WatchTail::first_boundary(std::string_view bytes) const noexcept {
  if (at_boundary()) {
    return 0;
  }
  if (form_ == Form::kJsonLines) {
    const std::size_t end = bytes.find('\n');
    return end == std::string_view::npos ? end : end + 1;
  }
  Frame frame = frame_;
  std::size_t used = 0;
  while (used < bytes.size()) {
    used += frame.step(form_, bytes.substr(used));
    if (frame.idle()) {
      return used;
    }
  }
  return std::string_view::npos;
}

std::string WatchTail::last_words() const {
  return form_ == Form::kWebSocket ? http::web_socket_close(http::kWebSocketPolicy) : bookmark();
}

std::string WatchTail::bookmark() const {
  if (!bookmarks_ || !fresh_ || version_.empty() || kind_.empty() || api_version_.empty()) {
    return {};
  }
  return R"({"type":"BOOKMARK","object":{"kind":")" + kind_ + R"(","apiVersion":")" + api_version_ +
         R"(","metadata":{"resourceVersion":")" + version_ + "\"}}}\n";
}

}  // namespace kintsugi::proxy
