#include "base/masked_text.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/strings.h"

namespace kintsugi {
namespace {

constexpr std::string_view kInstead = "***";
constexpr std::array<std::string_view, 17> kSecretFields = {
    "authorization", "cookie",       "set-cookie",   "password",        "passwd",
    "token",         "secret",       "access_token", "refresh_token",   "id_token",
    "client_secret", "clientsecret", "private_key",  "client-key-data", "api_key",
    "apikey",        "secret_key"};
constexpr std::array<std::string_view, 9> kShownQueries = {"watch",
                                                           "limit",
                                                           "fieldSelector",
                                                           "labelSelector",
                                                           "timeoutSeconds",
                                                           "resourceVersion",
                                                           "resourceVersionMatch",
                                                           "sendInitialEvents",
                                                           "allowWatchBookmarks"};

bool is_letter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

/// What a credential may be made of.
bool is_credential(char c) noexcept {
  return is_letter(c) || c == '.' || c == '~' || c == '+' || c == '/' || c == '=' || c == '*';
}

bool ends_value(char c) noexcept {
  return static_cast<unsigned char>(c) <= ' ' || c == '"' || c == '\'' || c == ',' || c == '&' ||
         c == ';' || c == ')' || c == '}' || c == ']' || c == '<' || c == '>' || c == '`' ||
         c == '\\';
}

template <class Is>
std::size_t run(std::string_view text, std::size_t at, Is is) {
  std::size_t end = at;
  while (end < text.size() && is(text[end])) {
    ++end;
  }
  return end;
}

bool starts_word(std::string_view text, std::size_t at) {
  return at == 0 || !is_letter(text[at - 1]);
}

/// What is found at a place: from where to where it is replaced; nullopt: nothing begins here.
using Range = std::optional<std::pair<std::size_t, std::size_t>>;

/// To the end of the text where the block has none.
Range key_in_pem(std::string_view text, std::size_t at) {
  constexpr std::string_view kBegin = "-----BEGIN ", kEnd = "-----END ", kKey = "PRIVATE KEY";
  if (!text.substr(at).starts_with(kBegin)) {
    return std::nullopt;
  }
  const std::string_view rest = text.substr(at + kBegin.size());
  const std::string_view label = rest.substr(0, rest.find('-'));
  if (label.find(kKey) == std::string_view::npos) {
    return std::nullopt;
  }
  const std::size_t end = text.find(kEnd, at);
  if (end == std::string_view::npos) {
    return std::pair(at, text.size());
  }
  const std::size_t label_at = end + kEnd.size();
  const std::size_t closing = text.find("-----", label_at);
  return std::pair(at, closing == std::string_view::npos ? text.size() : closing + 5);
}

Range web_token(std::string_view text, std::size_t at) {
  if (!text.substr(at).starts_with("eyJ") || !starts_word(text, at)) {
    return std::nullopt;
  }
  const std::size_t end = run(text, at, [](char c) { return is_letter(c) || c == '.'; });
  const std::string_view token = text.substr(at, end - at);
  return std::count(token.begin(), token.end(), '.') >= 1 ? Range(std::pair(at, end))
                                                          : std::nullopt;
}

Range scheme(std::string_view text, std::size_t at) {
  constexpr std::size_t kLongest = 6;
  if (!starts_word(text, at) || text.size() - at < kLongest ||
      (text[at] != 'b' && text[at] != 'B')) {
    return std::nullopt;
  }
  for (const std::string_view name : {"bearer", "basic"}) {
    const std::size_t blank = at + name.size();
    if (blank < text.size() && text[blank] == ' ' &&
        equals_ignore_case(text.substr(at, name.size()), name)) {
      const std::size_t end = run(text, blank + 1, is_credential);
      constexpr std::size_t kLeast = 6;  // else it is a word of a sentence
      return end - blank - 1 >= kLeast ? Range(std::pair(blank + 1, end)) : std::nullopt;
    }
  }
  return std::nullopt;
}

Range user_in_url(std::string_view text, std::size_t at) {
  constexpr std::string_view kMark = "://";
  if (!text.substr(at).starts_with(kMark)) {
    return std::nullopt;
  }
  const std::size_t begin = at + kMark.size();
  const std::size_t end = run(text, begin, [](char c) {
    return static_cast<unsigned char>(c) > ' ' && c != '/' && c != '?' && c != '#' && c != '"';
  });
  const std::size_t mark = text.substr(begin, end - begin).rfind('@');
  return mark == std::string_view::npos ? std::nullopt : Range(std::pair(begin, begin + mark));
}

/// `name=value`, `name: value`, `"name": "value"`, with quotes escaped once as well.
Range field(std::string_view text, std::size_t at) {
  if (!is_letter(text[at]) || !starts_word(text, at)) {
    return std::nullopt;
  }
  std::size_t end = run(text, at, is_letter);
  const std::string name = to_lower(text.substr(at, std::min<std::size_t>(end - at, 32)));
  if (std::find(kSecretFields.begin(), kSecretFields.end(), name) == kSecretFields.end()) {
    return std::nullopt;
  }
  const auto skip = [&](std::string_view what) {
    end = run(text, end, [what](char c) { return what.find(c) != std::string_view::npos; });
  };
  skip("\\\"'");
  skip(" ");
  if (end >= text.size() || (text[end] != ':' && text[end] != '=')) {
    return std::nullopt;
  }
  ++end;
  skip(" ");
  skip("\\");
  if (end < text.size() && (text[end] == '"' || text[end] == '\'')) {
    const char quote = text[end];
    const bool is_escaped = text[end - 1] == '\\';  // JSON in JSON: it ends with one that is, too
    const std::size_t begin = end + 1;
    std::size_t close = begin;
    while (close < text.size() && text[close] != '\n' && text[close] != quote) {
      const bool is_pair = text[close] == '\\' && close + 1 < text.size();
      if (is_pair && is_escaped && text[close + 1] == quote) {
        break;
      }
      close += is_pair ? 2 : 1;
    }
    return std::pair(begin, std::min(close, text.size()));
  }
  return std::pair(end, run(text, end, [](char c) { return !ends_value(c); }));
}

/// The value of the pair that begins at `at` in a query.
Range pair_in_query(std::string_view text, std::size_t at) {
  if (text[at] != '?' && text[at] != '&') {
    return std::nullopt;
  }
  const std::size_t end = run(text, at + 1, is_letter);
  if (end == at + 1 || end >= text.size() || text[end] != '=') {
    return std::nullopt;
  }
  const std::string_view name = text.substr(at + 1, end - at - 1);
  if (std::find(kShownQueries.begin(), kShownQueries.end(), name) != kShownQueries.end()) {
    return std::nullopt;
  }
  return std::pair(end + 1, run(text, end + 1, [](char c) { return c == ',' || !ends_value(c); }));
}

template <class Find>
std::string replaced(std::string_view text, Find find) {
  std::string out;
  out.reserve(text.size());
  std::size_t copied = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const Range range = find(text, at);
    if (!range || range->first == range->second) {
      continue;
    }
    out.append(text.substr(copied, range->first - copied)).append(kInstead);
    copied = range->second;
    at = std::max(at, copied - 1);
  }
  return out.append(text.substr(copied));
}

}  // namespace

std::string masked_text(std::string_view text) {
  std::string out = replaced(text, key_in_pem);
  for (Range (*find)(std::string_view, std::size_t) :
       {web_token, scheme, user_in_url, field, pair_in_query}) {
    out = replaced(out, find);
  }
  return out;
}

}  // namespace kintsugi
