#include "apiserver/stored_object.h"

#include <charconv>
#include <utility>

namespace kintsugi::apiserver {
namespace {

constexpr std::size_t kOffsetBytes = 4;
constexpr unsigned char kStamped = 1;
constexpr std::size_t kStampBytes = 9;  ///< digest and length
constexpr std::size_t kMaxVersionName = 63;
constexpr std::string_view kStart = "{\"metadata\":{";

std::size_t skip_string(std::string_view text, std::size_t begin) noexcept {
  std::size_t at = begin + 1;
  while (at < text.size()) {
    const std::size_t quote = text.find('"', at);
    if (quote == std::string_view::npos) {
      return text.size();
    }
    std::size_t slashes = 0;
    while (quote > begin + 1 + slashes && text[quote - 1 - slashes] == '\\') {
      ++slashes;
    }
    if (slashes % 2 == 0) {
      return quote + 1;
    }
    at = quote + 1;
  }
  return text.size();
}

void append_number(std::string& out, store::Revision value) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, static_cast<std::size_t>(end - digits));
}

void append_member(std::string& out, std::string_view key, const krm::Json& value) {
  if (out.back() != '{') {
    out += ',';
  }
  krm::append_json_string(out, key);
  out += ':';
  value.dump_to(out);
}

std::uint64_t read_number(std::string_view bytes) noexcept {
  std::uint64_t value = 0;
  for (const char c : bytes) {
    value = value << 8 | static_cast<unsigned char>(c);
  }
  return value;
}

void append_stamp(std::string& out, const StoredStamp& stamp) {
  const std::string_view version = stamp.version.substr(0, kMaxVersionName);
  for (int shift = 56; shift >= 0; shift -= 8) {
    out += static_cast<char>(stamp.schema_digest >> shift & 0xff);
  }
  out += static_cast<char>(version.size());
  out += version;
}

}  // namespace

std::size_t skip_json_value(std::string_view text, std::size_t begin) noexcept {
  if (begin >= text.size()) {
    return text.size();
  }
  if (text[begin] == '"') {
    return skip_string(text, begin);
  }
  if (text[begin] != '{' && text[begin] != '[') {
    const std::size_t end = text.find_first_of(",]}", begin);
    return end == std::string_view::npos ? text.size() : end;
  }
  std::size_t depth = 0;
  std::size_t at = begin;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = skip_string(text, at);
      continue;
    }
    if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      return at + 1;
    }
    ++at;
  }
  return text.size();
}

Expected<StoredView> StoredView::parse(std::string_view value) {
  if (value.size() < kOffsetBytes + kStart.size() + 2) {
    return fail(Errc::kCorrupt, "stored object is too short");
  }
  const auto flag = static_cast<unsigned char>(value.front());
  const auto offset = static_cast<std::size_t>(read_number(value.substr(1, kOffsetBytes - 1)));
  StoredStamp stamp;
  std::string_view text = value.substr(kOffsetBytes);
  if (flag == kStamped) {
    const auto length = static_cast<unsigned char>(text[kStampBytes - 1]);
    if (text.size() < kStampBytes + length + kStart.size() + 2) {
      return fail(Errc::kCorrupt, "stored object is too short");
    }
    stamp = {text.substr(kStampBytes, length), read_number(text.substr(0, kStampBytes - 1))};
    text = text.substr(kStampBytes + length);
  }
  if (flag > kStamped || offset == 0 || offset >= text.size() || text[offset] != '"' ||
      text[offset - 1] != '"' || text.substr(0, kStart.size()) != kStart || text.back() != '}') {
    return fail(Errc::kCorrupt, "stored object has no place for its resourceVersion");
  }
  return StoredView{text.substr(0, offset), text.substr(offset), stamp};
}

std::string encode_stored(const krm::Json& object, const StoredStamp& stamp) {
  std::string out(kOffsetBytes, '\0');
  if (!stamp.version.empty()) {
    out[0] = static_cast<char>(kStamped);
    append_stamp(out, stamp);
  }
  const std::size_t text = out.size();
  out += kStart;
  std::size_t offset = 0;
  const auto put_version = [&] {
    if (out.back() != '{') {
      out += ',';
    }
    out += "\"resourceVersion\":\"";
    offset = out.size() - text;
    out += '"';
  };
  if (const krm::Json* metadata = object.find("metadata"); metadata != nullptr) {
    for (const krm::JsonMember& member : metadata->members()) {
      if (member.key == "resourceVersion") {
        continue;
      }
      if (offset == 0 && member.key > "resourceVersion") {
        put_version();
      }
      append_member(out, member.key, member.value);
    }
  }
  if (offset == 0) {
    put_version();
  }
  out += '}';
  for (const krm::JsonMember& member : object.members()) {
    if (member.key != "metadata" && member.key != "apiVersion" && member.key != "kind") {
      append_member(out, member.key, member.value);
    }
  }
  out += '}';
  for (std::size_t i = 1; i < kOffsetBytes; ++i) {
    out[i] = static_cast<char>(offset >> (8 * (kOffsetBytes - 1 - i)) & 0xff);
  }
  return out;
}

Expected<krm::Json> decode_stored(std::string_view value, std::string_view api_version,
                                  std::string_view kind, store::Revision revision) {
  const Expected<StoredView> stored = StoredView::parse(value);
  if (!stored) {
    return fail(stored.error().clone());
  }
  Expected<krm::Json> object = krm::Json::parse(stored->text());
  if (!object) {
    return fail(Errc::kCorrupt,
                "stored object is no JSON: " + std::string(object.error().message()));
  }
  krm::Json& root = *object;
  if (!api_version.empty()) {
    root["apiVersion"] = api_version;
  }
  if (!kind.empty()) {
    root["kind"] = kind;
  }
  krm::Json& metadata = root["metadata"];
  if (revision == 0) {
    metadata.erase("resourceVersion");
  } else {
    metadata["resourceVersion"] = std::to_string(revision);
  }
  return object;
}

std::string kind_prefix(std::string_view api_version, std::string_view kind) {
  std::string prefix = "\"apiVersion\":";
  krm::append_json_string(prefix, api_version);
  prefix += ",\"kind\":";
  krm::append_json_string(prefix, kind);
  prefix += ',';
  return prefix;
}

void append_object(std::string& out, const StoredView& stored, std::string_view prefix,
                   store::Revision revision) {
  out += '{';
  out += prefix;
  out += stored.before.substr(1);
  append_number(out, revision);
  out += stored.after;
}

MetadataView metadata_of(const StoredView& stored) noexcept {
  constexpr std::size_t kBrace = kStart.size() - 1;
  // `after` begins with the closing quote: find the end of the object that it is inside of.
  std::size_t at = 1;
  while (at < stored.after.size() && stored.after[at] != '}') {
    const char c = stored.after[at];
    at = c == '"' || c == '{' || c == '[' ? skip_json_value(stored.after, at) : at + 1;
  }
  return {stored.before.substr(kBrace), stored.after.substr(0, at + 1)};
}

std::string_view metadata_member(const StoredView& stored, std::string_view name) noexcept {
  std::size_t at = kStart.size();
  const std::string_view text = stored.before;
  while (at < text.size() && text[at] == '"') {
    const std::size_t key_end = skip_string(text, at);
    const std::string_view key = text.substr(at + 1, key_end - at - 2);
    const std::size_t begin = key_end + 1;
    if (begin >= text.size()) {
      return {};
    }
    const std::size_t end = skip_json_value(text, begin);
    if (key == name) {
      return text.substr(begin, end - begin);
    }
    if (key > name) {
      return {};
    }
    at = end + 1;
  }
  return {};
}

}  // namespace kintsugi::apiserver
