#include "store/etcd/internal/keys.h"

#include <vector>

#include "base/strings.h"
#include "store/duty.h"

namespace kintsugi::store::etcd {
namespace {

constexpr char kSeparator = '\0';
constexpr std::string_view kDigits = "0123456789ABCDEF";
constexpr std::string_view kNoGroup = "-";

void encode_part(std::string& out, std::string_view part) {
  for (const char c : part) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '%' || c == '/' || byte < 0x21) {
      out += '%';
      out += kDigits[byte >> 4U];
      out += kDigits[byte & 0xFU];
    } else {
      out += c;
    }
  }
}

/// nullopt: the key is not that of an object.
std::optional<std::string> encode_object(std::string_view key) {
  const std::vector<std::string_view> parts = split(key, kSeparator);
  if (parts.size() < 3 || parts.size() > 4) {
    return std::nullopt;
  }
  const std::string_view resource = parts[0];
  const std::size_t colon = resource.find(':');
  const std::string_view name = resource.substr(0, colon);
  const std::size_t dot = name.find('.');
  const std::string_view plural = name.substr(0, dot);
  const std::string_view group = dot == std::string_view::npos ? kNoGroup : name.substr(dot + 1);
  if (plural.empty() || group.empty() || (dot != std::string_view::npos && group == kNoGroup)) {
    return std::nullopt;
  }
  std::string out = "o/";
  encode_part(out, group);
  out += '/';
  encode_part(out, plural);
  if (colon != std::string_view::npos) {
    encode_part(out, resource.substr(colon));
  }
  for (std::size_t i = 1; i < parts.size(); ++i) {
    out += '/';
    encode_part(out, parts[i]);
  }
  return out;
}

std::optional<std::string> decode_object(std::string_view path) {
  const std::vector<std::string_view> parts = split(path, '/');
  if (parts.size() < 4 || parts.size() > 5) {
    return std::nullopt;
  }
  std::vector<std::string> plain;
  for (const std::string_view part : parts) {
    auto decoded = percent_decode(part);
    if (!decoded) {
      return std::nullopt;
    }
    plain.push_back(std::move(*decoded));
  }
  const std::size_t colon = plain[1].find(':');
  std::string out = plain[1].substr(0, colon);
  if (plain[0] != kNoGroup) {
    out += '.' + plain[0];
  }
  if (colon != std::string::npos) {
    out += plain[1].substr(colon);
  }
  for (std::size_t i = 2; i < plain.size(); ++i) {
    out += kSeparator;
    out += plain[i];
  }
  return out;
}

}  // namespace

std::string Keys::row(std::string_view store_key) const {
  if (store_key.starts_with(kFencePrefix)) {
    return epoch(store_key.substr(kFencePrefix.size()));
  }
  if (auto path = encode_object(store_key)) {
    return prefix_ + *path;
  }
  std::string out = prefix_ + "x/";
  encode_part(out, store_key);
  return out;
}

KeyKind Keys::kind(std::string_view etcd_key) const {
  if (!etcd_key.starts_with(prefix_)) {
    return KeyKind::kOther;
  }
  const std::string_view rest = etcd_key.substr(prefix_.size());
  if (rest.starts_with("o/") || rest.starts_with("x/")) {
    return KeyKind::kRow;
  }
  return rest == "d" ? KeyKind::kDeletions : KeyKind::kOther;
}

std::optional<std::string> Keys::store_key(std::string_view etcd_key) const {
  if (kind(etcd_key) != KeyKind::kRow) {
    return std::nullopt;
  }
  const std::string_view rest = etcd_key.substr(prefix_.size());
  auto key =
      rest.starts_with("o/") ? decode_object(rest.substr(2)) : percent_decode(rest.substr(2));
  // What a stranger wrote in another way is no row.
  if (!key || key->empty() || row(*key) != etcd_key) {
    return std::nullopt;
  }
  return key;
}

}  // namespace kintsugi::store::etcd
