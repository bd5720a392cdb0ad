#include <array>

#include "base/strings.h"
#include "cel/internal/functions.h"
#include "krm/formats.h"
#include "krm/go_text.h"

namespace kintsugi::cel {

namespace {

struct Url final : Opaque {
  Url() : Opaque("kubernetes.URL") {}
  [[nodiscard]] bool equals(const Opaque& other) const override {
    return text == static_cast<const Url&>(other).text;
  }
  std::string text, scheme, host, path, query;
};

const Url& url(const Value& value) { return static_cast<const Url&>(*value.opaque()); }

Value parse(const Args& args) {
  const std::string_view text = args[0].text();
  if (!krm::is_request_uri(text)) {
    return Value::error("URL parse error during conversion from string: parse " +
                        krm::go_quote(text) + ": invalid URI for request");
  }
  auto out = std::make_shared<Url>();
  out->text = text;
  std::string_view rest = text.substr(0, text.find('#'));
  if (const std::size_t mark = rest.find('?'); mark != std::string_view::npos) {
    out->query = rest.substr(mark + 1);
    rest = rest.substr(0, mark);
  }
  const std::size_t colon = rest.find(':');
  if (rest[0] != '/' && colon != std::string_view::npos) {
    out->scheme = to_lower(rest.substr(0, colon));
    rest.remove_prefix(colon + 1);
  }
  if (rest.starts_with("//")) {
    rest.remove_prefix(2);
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    std::string_view authority = rest.substr(0, slash);
    authority.remove_prefix(authority.rfind('@') + 1);
    out->host = authority;
    rest.remove_prefix(slash);
  }
  if (rest.starts_with('/') || rest.empty()) {
    out->path = rest;
  }
  return Value::opaque(std::move(out));
}

Value is_url(const Args& args) { return Value::boolean(krm::is_request_uri(args[0].text())); }

std::size_t port_mark(std::string_view host) {
  const std::size_t colon = host.rfind(':');
  const std::size_t bracket = host.rfind(']');
  return colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)
             ? colon
             : host.size();
}

Value host_name(const Args& args) {
  std::string_view host = url(args[0]).host;
  host = host.substr(0, port_mark(host));
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  return Value::string(std::string(host));
}

Value port(const Args& args) {
  const std::string_view host = url(args[0]).host;
  const std::size_t mark = port_mark(host);
  return Value::string(std::string(mark < host.size() ? host.substr(mark + 1) : ""));
}

/// What may stand in a path stays, escapes too; the rest is escaped.
Value escaped_path(const Args& args) {
  constexpr std::string_view kKept =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~$&+,/:;=@!'()*[]%";
  std::string out;
  for (const char c : url(args[0]).path) {
    out += kKept.find(c) != std::string_view::npos ? std::string(1, c)
                                                   : percent_encode(std::string_view(&c, 1));
  }
  return Value::string(std::move(out));
}

template <std::string Url::*kPart>
Value part(const Args& args) {
  return Value::string(url(args[0]).*kPart);
}

Value query(const Args& args) {
  std::map<std::string, std::vector<Value>> found;
  for (const std::string_view pair : split(url(args[0]).query, '&')) {
    if (pair.empty() || pair.find(';') != std::string_view::npos) {
      continue;
    }
    const std::size_t mark = std::min(pair.find('='), pair.size());
    auto key = percent_decode(pair.substr(0, mark), true);
    auto value = percent_decode(mark < pair.size() ? pair.substr(mark + 1) : "", true);
    if (key && value) {
      found[*key].push_back(Value::string(std::move(*value)));
    }
  }
  auto data = std::make_shared<MapData>();
  for (auto& [name, values] : found) {
    Value key = Value::string(name);
    std::string identity;
    map_key(key, identity);
    data->entries.emplace(std::move(identity),
                          std::pair(std::move(key), Value::list(std::move(values))));
  }
  return Value::map(std::move(data));
}

constexpr auto kRows = std::array{
    OverloadRow{"url", "string_to_url", "(string) -> url", parse},
    OverloadRow{"getScheme", "url_get_scheme", "url.() -> string", part<&Url::scheme>},
    OverloadRow{"getHost", "url_get_host", "url.() -> string", part<&Url::host>},
    OverloadRow{"getHostname", "url_get_hostname", "url.() -> string", host_name},
    OverloadRow{"getPort", "url_get_port", "url.() -> string", port},
    OverloadRow{"getEscapedPath", "url_get_escaped_path", "url.() -> string", escaped_path},
    OverloadRow{"getQuery", "url_get_query", "url.() -> map(string, list(string))", query},
    OverloadRow{"isURL", "is_url_string", "(string) -> bool", is_url},
};

}  // namespace

std::span<const OverloadRow> url_rows() { return kRows; }

}  // namespace kintsugi::cel
