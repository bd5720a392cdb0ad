#include "krm/names.h"

#include <algorithm>

namespace kintsugi::krm {
namespace {

constexpr std::string_view kQualifiedSuffix =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
constexpr std::string_view kSubdomainText =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
constexpr std::string_view kLabelText =
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
constexpr std::string_view kLabel1035Text =
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
constexpr std::string_view kLabelValueText =
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value', "
    " or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
constexpr std::string_view kConfigKeyText =
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
    "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

constexpr std::size_t kMaxSubdomain = 253;
constexpr std::size_t kMaxLabel = 63;

bool is_lower_alnum(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool is_alnum(char c) { return is_lower_alnum(c) || (c >= 'A' && c <= 'Z'); }

bool is_dns_label(std::string_view text) {
  return !text.empty() && is_lower_alnum(text.front()) && is_lower_alnum(text.back()) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return is_lower_alnum(c) || c == '-'; });
}

bool is_subdomain(std::string_view text) {
  for (;;) {
    const std::size_t dot = text.find('.');
    if (!is_dns_label(text.substr(0, dot))) {
      return false;
    }
    if (dot == std::string_view::npos) {
      return true;
    }
    text.remove_prefix(dot + 1);
  }
}

/// ([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]
bool is_name_part(std::string_view text) {
  return !text.empty() && is_alnum(text.front()) && is_alnum(text.back()) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return is_alnum(c) || c == '-' || c == '_' || c == '.'; });
}

std::string too_long(std::size_t limit, std::string_view unit) {
  return "must be no more than " + std::to_string(limit) + " " + std::string(unit);
}

}  // namespace

Messages check_dns1123_subdomain(std::string_view text) {
  Messages out;
  if (text.size() > kMaxSubdomain) {
    out.push_back(too_long(kMaxSubdomain, "characters"));
  }
  if (!is_subdomain(text)) {
    out.emplace_back(kSubdomainText);
  }
  return out;
}

Messages check_dns1123_label(std::string_view text) {
  Messages out;
  if (text.size() > kMaxLabel) {
    out.push_back(too_long(kMaxLabel, "characters"));
  }
  if (!is_dns_label(text)) {
    out.emplace_back(is_subdomain(text) ? "must not contain dots" : kLabelText);
  }
  return out;
}

Messages check_dns1035_label(std::string_view text) {
  Messages out;
  if (text.size() > kMaxLabel) {
    out.push_back(too_long(kMaxLabel, "characters"));
  }
  if (!is_dns_label(text) || text.front() < 'a') {
    out.emplace_back(kLabel1035Text);
  }
  return out;
}

Messages check_path_segment(std::string_view text) {
  if (text == "." || text == "..") {
    return {"may not be '" + std::string(text) + "'"};
  }
  Messages out;
  for (const char c : {'/', '%'}) {
    if (text.find(c) != std::string_view::npos) {
      out.push_back(std::string("may not contain '") + c + "'");
    }
  }
  return out;
}

bool is_path_segment_name(std::string_view text) noexcept {
  return text != "." && text != ".." && text.find_first_of("/%") == std::string_view::npos;
}

Messages check_qualified_name(std::string_view text) {
  Messages out;
  const std::size_t slash = text.find('/');
  std::string_view name = text;
  if (slash != std::string_view::npos) {
    const std::string_view prefix = text.substr(0, slash);
    name = text.substr(slash + 1);
    if (name.find('/') != std::string_view::npos) {
      return {"a valid label key " + std::string(kQualifiedSuffix) +
              " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"};
    }
    if (prefix.empty()) {
      out.emplace_back("prefix part must be non-empty");
    } else {
      for (const std::string& message : check_dns1123_subdomain(prefix)) {
        const bool is_long = message == too_long(kMaxSubdomain, "characters");
        out.push_back("prefix part " + (is_long ? too_long(kMaxSubdomain, "bytes") : message));
      }
    }
  }
  if (name.empty()) {
    out.emplace_back("name part must be non-empty");
  } else if (name.size() > kMaxLabel) {
    out.push_back("name part " + too_long(kMaxLabel, "bytes"));
  }
  if (!is_name_part(name)) {
    out.push_back("name part " + std::string(kQualifiedSuffix));
  }
  return out;
}

Messages check_label_value(std::string_view text) {
  Messages out;
  if (text.size() > kMaxLabel) {
    out.push_back(too_long(kMaxLabel, "bytes"));
  }
  if (!text.empty() && !is_name_part(text)) {
    out.emplace_back(kLabelValueText);
  }
  return out;
}

Messages check_config_key(std::string_view text) {
  Messages out;
  if (text.size() > kMaxSubdomain) {
    out.push_back(too_long(kMaxSubdomain, "characters"));
  }
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return is_alnum(c) || c == '-' || c == '_' || c == '.';
  });
  if (!plain) {
    out.emplace_back(kConfigKeyText);
  }
  if (text == ".") {
    out.emplace_back("must not be '.'");
  } else if (text == "..") {
    out.emplace_back("must not be '..'");
  } else if (text.substr(0, 2) == "..") {
    out.emplace_back("must not start with '..'");
  }
  return out;
}

Messages check_name(NameRule rule, std::string_view text, bool prefix) {
  if (rule == NameRule::kAny) {
    return {};
  }
  if (rule == NameRule::kPathSegment) {
    if (prefix && (text == "." || text == "..")) {
      return {};
    }
    return check_path_segment(text);
  }
  std::string masked(text);
  if (prefix && masked.size() > 1 && masked.back() == '-') {
    masked.resize(masked.size() - 2);
    masked.push_back('a');
  }
  switch (rule) {
    case NameRule::kLabel:
      return check_dns1123_label(masked);
    case NameRule::kLabel1035:
      return check_dns1035_label(masked);
    default:
      return check_dns1123_subdomain(masked);
  }
}

}  // namespace kintsugi::krm
