#include "workers/runtime/status/redactor.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "krm/json.h"

namespace kintsugi::workers {
namespace {

constexpr std::size_t kWholeWord = 4;  // shorter values
constexpr std::size_t kLine = 16;

bool is_word(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

std::string_view trimmed(std::string_view text) noexcept {
  const auto blank = [](char c) { return static_cast<unsigned char>(c) <= ' '; };
  while (!text.empty() && blank(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && blank(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

std::string without_padding(std::string text) {
  while (!text.empty() && text.back() == '=') {
    text.pop_back();
  }
  return text;
}

std::string json_text(std::string_view value) {
  std::string quoted;
  krm::append_json_string(quoted, value);
  std::string inner = quoted.substr(1, quoted.size() - 2);
  wipe(quoted);
  return inner;
}

/// Values of which the text that is searched has a form.
std::vector<Secret> forms_of(std::string_view value) {
  std::vector<std::string> texts;
  const auto put = [&](std::string text) {
    if (!text.empty() && std::find(texts.begin(), texts.end(), text) == texts.end()) {
      texts.push_back(std::move(text));
    } else {
      wipe(text);
    }
  };
  const auto put_encoded = [&](std::string_view text) {
    put(std::string(text));
    put(printable(text));
    put(percent_encode(text));
    put(json_text(text));
    put(without_padding(base64_encode(text)));
    put(base64url_encode(text));
  };
  const std::string_view inner = trimmed(value);
  if (inner.empty()) {
    return {};
  }
  put_encoded(inner);
  if (inner.size() != value.size()) {
    put_encoded(value);
  }
  if (inner.find('\n') != std::string_view::npos) {
    for (const std::string_view line : split(inner, '\n')) {
      if (trimmed(line).size() >= kLine && !trimmed(line).starts_with("-----")) {
        put(std::string(trimmed(line)));
      }
    }
  }
  std::vector<Secret> out;
  for (std::string& text : texts) {
    out.emplace_back(std::move(text));
  }
  return out;
}

std::size_t pair_at(std::string_view text, std::size_t at) noexcept {
  return (static_cast<std::size_t>(static_cast<unsigned char>(text[at])) << 8U) |
         static_cast<unsigned char>(text[at + 1]);
}

/// Bytes of the character at `at`; 0: it is none.
std::size_t character(std::string_view text, std::size_t at) noexcept {
  const auto lead = static_cast<unsigned char>(text[at]);
  const std::size_t size = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  return at + size <= text.size() && is_valid_utf8(text.substr(at, size)) ? size : 0;
}

}  // namespace

bool Redactor::know(std::string_view owner, const Secret& value) {
  const auto known = forms_.find(owner);
  if (value.size() > kMaxValueBytes || (known == forms_.end() && forms_.size() >= kMaxValues)) {
    return false;
  }
  std::vector<Secret> forms = forms_of(value.view());
  if (forms.empty()) {
    forget(owner);
    return true;
  }
  sorted_.clear();
  forms_.insert_or_assign(std::string(owner), std::move(forms));
  index();
  return true;
}

void Redactor::forget(std::string_view owner) {
  if (const auto at = forms_.find(owner); at != forms_.end()) {
    sorted_.clear();
    forms_.erase(at);
    index();
  }
}

void Redactor::index() {
  sorted_.clear();
  starts_.reset();
  singles_.reset();
  for (const auto& [owner, forms] : forms_) {
    for (const Secret& form : forms) {
      if (form.size() == 1) {
        singles_.set(static_cast<unsigned char>(form.view()[0]));
      } else {
        sorted_.push_back(form.view());
        starts_.set(pair_at(form.view(), 0));
      }
    }
  }
  std::sort(sorted_.begin(), sorted_.end());
}

std::size_t Redactor::match(std::string_view text, std::size_t at) const noexcept {
  const auto alone = [&](std::size_t size) {
    return size >= kWholeWord || ((at == 0 || !is_word(text[at - 1])) &&
                                  (at + size == text.size() || !is_word(text[at + size])));
  };
  std::size_t longest =
      singles_.test(static_cast<unsigned char>(text[at])) && alone(1) ? std::size_t{1} : 0;
  if (at + 1 < text.size() && starts_.test(pair_at(text, at))) {
    const std::string_view rest = text.substr(at);
    auto form = std::lower_bound(sorted_.begin(), sorted_.end(), rest.substr(0, 2));
    for (; form != sorted_.end() && form->substr(0, 2) == rest.substr(0, 2); ++form) {
      if (form->size() > longest && rest.starts_with(*form) && alone(form->size())) {
        longest = form->size();
      }
    }
  }
  return longest;
}

std::string Redactor::redact(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    if (std::size_t size = match(text, at); size > 0) {
      // What begins inside of it and reaches further goes with it.
      for (std::size_t inside = at + 1; inside < at + size; ++inside) {
        size = std::max(size, inside - at + match(text, inside));
      }
      out += kInstead;
      at += size;
    } else {
      out += text[at++];
    }
  }
  return out;
}

std::string_view cut_utf8(std::string_view text, std::size_t limit) noexcept {
  if (text.size() <= limit) {
    return text;
  }
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0U) == 0x80U) {
    --limit;
  }
  return text.substr(0, limit);
}

std::string printable(std::string_view text) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7F; })) {
    return std::string(text);
  }
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = character(text, at);
    const auto first = static_cast<unsigned char>(text[at]);
    const bool is_c1 =
        size == 2 && first == 0xC2 && static_cast<unsigned char>(text[at + 1]) < 0xA0;
    if (size == 0) {
      out += '?';
    } else if (first == '\n' || first == '\r' || first == '\t') {
      out += ' ';
    } else if (first >= 0x20 && first != 0x7F && !is_c1) {
      out += text.substr(at, size);
    }
    at += std::max<std::size_t>(size, 1);
  }
  return out;
}

std::string peer_message(std::string_view text, const Redactor& redactor, std::size_t limit) {
  // Twice: taking characters out may join what was apart.
  const std::string shown = redactor.redact(printable(redactor.redact(text)));
  return std::string(cut_utf8(shown, limit));
}

}  // namespace kintsugi::workers
