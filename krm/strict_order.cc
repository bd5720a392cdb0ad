#include "krm/strict_order.h"

#include <set>

#include "krm/go_text.h"
#include "krm/json.h"

namespace kintsugi::krm {
namespace {

constexpr int kMaxDepth = 400;  // as deep as typed decoding goes

class Walker {
 public:
  Walker(std::string_view text, const std::vector<std::string>& unknown)
      : text_(text), unknown_(unknown.begin(), unknown.end()) {}

  std::vector<std::string> run() {
    value({}, 0);
    return std::move(found_);
  }

 private:
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void space() {
    while (at_ < text_.size() &&
           std::string_view(" \t\r\n").find(peek()) != std::string_view::npos) {
      ++at_;
    }
  }
  /// The next character behind blanks, if it is `c`.
  bool take(char c) {
    space();
    if (peek() != c) {
      return false;
    }
    ++at_;
    return true;
  }

  /// A string with its quotes.
  std::string_view quoted() {
    const std::size_t begin = at_;
    for (++at_; at_ < text_.size() && peek() != '"'; ++at_) {
      if (peek() == '\\') {
        ++at_;
      }
    }
    at_ = at_ < text_.size() ? at_ + 1 : text_.size();
    return text_.substr(begin, at_ - begin);
  }

  std::string key() {
    const std::string_view text = quoted();
    if (text.find('\\') == std::string_view::npos) {
      return std::string(text.size() < 2 ? std::string_view() : text.substr(1, text.size() - 2));
    }
    const Expected<Json> parsed = Json::parse(text);
    return parsed ? std::string(parsed->as_string()) : std::string(text);
  }

  void skip() {
    std::size_t open = 0;
    space();
    do {
      const char c = peek();
      if (c == '"') {
        quoted();
      } else {
        open += c == '{' || c == '[' ? 1 : 0;
        open -= (c == '}' || c == ']') && open > 0 ? 1 : 0;
        ++at_;
        const bool scalar = open == 0 && c != '}' && c != ']';
        while (scalar && at_ < text_.size() &&
               std::string_view(",]} \t\r\n").find(peek()) == std::string_view::npos) {
          ++at_;
        }
      }
    } while (open > 0 && at_ < text_.size());
  }

  void value(const std::string& path, int depth) {
    space();
    if (depth > kMaxDepth || (peek() != '{' && peek() != '[')) {
      skip();
    } else if (take('{')) {
      object(path, depth);
    } else {
      ++at_;
      for (std::size_t index = 0; at_ < text_.size() && !take(']'); ++index) {
        value(path + '[' + std::to_string(index) + ']', depth + 1);
        take(',');
      }
    }
  }

  void object(const std::string& path, int depth) {
    std::set<std::string> seen;
    while (at_ < text_.size() && !take('}')) {
      std::string name = key();
      take(':');
      const std::string here = path.empty() ? name : path + '.' + name;
      if (unknown_.count(here) != 0) {
        report("unknown field " + go_quote(here));
        skip();
      } else {
        if (!seen.insert(std::move(name)).second) {
          report("duplicate field " + go_quote(here));
        }
        value(here, depth + 1);
      }
      take(',');
    }
  }

  void report(std::string text) {
    if (reported_.insert(text).second) {
      found_.push_back(std::move(text));
    }
  }

  const std::string_view text_;
  const std::set<std::string> unknown_;
  std::set<std::string> reported_;
  std::vector<std::string> found_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<std::string> strict_findings(std::string_view json,
                                         const std::vector<std::string>& unknown) {
  return Walker(json, unknown).run();
}

}  // namespace kintsugi::krm
