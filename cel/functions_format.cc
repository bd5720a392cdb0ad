#include <array>
#include <map>

#include "base/strings.h"
#include "cel/internal/functions.h"
#include "cel/internal/text.h"
#include "krm/formats.h"
#include "krm/go_text.h"
#include "krm/names.h"

namespace kintsugi::cel {

namespace {

using Faults = std::vector<std::string>;

Faults without_last_dash(Faults (*check)(std::string_view), std::string_view text) {
  // A generated name may end in dashes and dots: something is put behind it.
  std::string masked(text);
  if (masked.size() > 1 && masked.back() == '-') {
    masked.back() = 'a';
  }
  return check(masked);
}

Faults check(bool good, std::string_view fault) {
  return good ? Faults{} : Faults{std::string(fault)};
}

bool is_uuid(std::string_view text) {
  std::string digits;
  for (const char c : to_lower(text)) {
    if (c != '-') {
      digits += c;
    }
  }
  const bool dashed =
      text.size() == 36 && text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-';
  return digits.size() == 32 && (text.size() == 32 || dashed) &&
         digits.find_first_not_of("0123456789abcdef") == std::string::npos;
}

struct Named {
  std::string_view name;
  std::size_t regex_size;
  Faults (*validate)(std::string_view text);
};

constexpr std::array kFormats = {
    Named{"dns1123Label", 30, krm::check_dns1123_label},
    Named{"dns1123Subdomain", 60, krm::check_dns1123_subdomain},
    Named{"dns1035Label", 30, krm::check_dns1035_label},
    Named{"qualifiedName", 60, krm::check_qualified_name},
    Named{"dns1123LabelPrefix", 30,
          [](std::string_view text) { return without_last_dash(krm::check_dns1123_label, text); }},
    Named{"dns1123SubdomainPrefix", 60,
          [](std::string_view text) {
            return without_last_dash(krm::check_dns1123_subdomain, text);
          }},
    Named{"dns1035LabelPrefix", 30,
          [](std::string_view text) { return without_last_dash(krm::check_dns1035_label, text); }},
    Named{"labelValue", 40, krm::check_label_value},
    Named{"uri", 1103,
          [](std::string_view text) {
            return check(krm::is_request_uri(text),
                         "parse " + krm::go_quote(text) + ": invalid URI for request");
          }},
    Named{"uuid", 72,
          [](std::string_view text) {
            return check(is_uuid(text), "does not match the UUID format");
          }},
    Named{"byte", 84,
          [](std::string_view text) {
            return check(base64_decode(text).has_value() && !text.empty(), "invalid base64");
          }},
    Named{"date", 72,
          [](std::string_view text) {
            return check(parse_timestamp(std::string(text) + "T00:00:00Z").has_value(),
                         "invalid date");
          }},
    Named{"datetime", 72,
          [](std::string_view text) {
            return check(parse_timestamp(text).has_value(), "invalid datetime");
          }},
};

struct Format final : Opaque {
  explicit Format(const Named& row) : Opaque("kubernetes.NamedFormat"), named(row) {}
  [[nodiscard]] bool equals(const Opaque& other) const override {
    return &named == &static_cast<const Format&>(other).named;
  }
  const Named& named;
};

Value make(const Named& row) { return Value::opaque(std::make_shared<const Format>(row)); }

template <std::size_t kIndex>
Value constant(const Args& /*args*/) {
  return make(kFormats[kIndex]);
}

Value named(const Args& args) {
  for (const Named& each : kFormats) {
    if (each.name == args[0].text()) {
      return Value::optional(make(each));
    }
  }
  return Value::none();
}

Value validate(const Args& args) {
  const auto& format = static_cast<const Format&>(*args[0].opaque());
  std::vector<Value> faults;
  for (std::string& fault : format.named.validate(args[1].text())) {
    faults.push_back(Value::string(std::move(fault)));
  }
  return faults.empty() ? Value::none() : Value::optional(Value::list(std::move(faults)));
}

#define KIN_FORMAT(name, index) \
  OverloadRow { "format." name, "format." name, "() -> named_format", constant<index> }

constexpr auto kRows = std::array{
    KIN_FORMAT("dns1123Label", 0),
    KIN_FORMAT("dns1123Subdomain", 1),
    KIN_FORMAT("dns1035Label", 2),
    KIN_FORMAT("qualifiedName", 3),
    KIN_FORMAT("dns1123LabelPrefix", 4),
    KIN_FORMAT("dns1123SubdomainPrefix", 5),
    KIN_FORMAT("dns1035LabelPrefix", 6),
    KIN_FORMAT("labelValue", 7),
    KIN_FORMAT("uri", 8),
    KIN_FORMAT("uuid", 9),
    KIN_FORMAT("byte", 10),
    KIN_FORMAT("date", 11),
    KIN_FORMAT("datetime", 12),
    OverloadRow{"format.named", "format-named", "(string) -> optional(named_format)", named},
    OverloadRow{"validate", "format-validate", "named_format.(string) -> optional(list(string))",
                validate},
};
#undef KIN_FORMAT

}  // namespace

std::span<const OverloadRow> format_rows() { return kRows; }

std::size_t format_regex_size(const Value& format) {
  return format.is(Kind::kOpaque) && format.opaque()->type == "kubernetes.NamedFormat"
             ? static_cast<const Format&>(*format.opaque()).named.regex_size
             : 0;
}

}  // namespace kintsugi::cel
