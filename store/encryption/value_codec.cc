#include "store/encryption/value_codec.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace kintsugi::store {
namespace {

/// "secrets/<cluster>/<namespace>/<name>".
std::string shown_key(std::string_view key) {
  std::string out(key);
  std::replace(out.begin(), out.end(), '\0', '/');
  return out;
}

Error unable(std::string_view key, const std::string& why) {
  return Error(Errc::kInternal, "unable to transform key \"" + shown_key(key) + "\": " + why);
}

/// The key's name in the mark of a value; for errors.
std::string name_in(std::string_view stored) {
  constexpr std::string_view kAesGcm = "k8s:enc:aesgcm:v1:";
  constexpr std::size_t kMostShown = 253;
  if (!stored.starts_with(kAesGcm)) {
    return "";
  }
  const std::string_view rest = stored.substr(kAesGcm.size(), kMostShown + 1);
  const std::size_t end = rest.find(':');
  const std::string_view name = rest.substr(0, end);
  const bool readable =
      std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7f && c != '"'; });
  return end == std::string_view::npos || !readable ? "" : std::string(name);
}

/// "widgets.ex.io" of a store's key: what stands before the identity and the first NUL; "" if none.
std::string_view resource_of(std::string_view key) noexcept {
  const std::size_t end = key.find('\0');
  if (end == std::string_view::npos) {
    return {};
  }
  const std::string_view resource = key.substr(0, end);
  return resource.substr(0, resource.find(':'));
}

bool rule_matches(std::string_view pattern, std::string_view resource) noexcept {
  if (pattern == resource || pattern == "*.*") {
    return true;
  }
  if (!pattern.starts_with("*.")) {
    return false;
  }
  const std::size_t dot = resource.find('.');
  const std::string_view group =
      dot == std::string_view::npos ? std::string_view() : resource.substr(dot + 1);
  return pattern.substr(2) == group;
}

}  // namespace

std::shared_ptr<const ValueCodec> ValueCodec::none() {
  static const auto empty = std::make_shared<const ValueCodec>();
  return empty;
}

const ValueCodec::Rule* ValueCodec::find(std::string_view key) const noexcept {
  if (rules_.empty()) {
    return nullptr;
  }
  const std::string_view resource = resource_of(key);
  if (resource.empty()) {
    return nullptr;
  }
  for (const Rule& rule : rules_) {
    for (const std::string& pattern : rule.resources) {
      if (rule_matches(pattern, resource)) {
        return &rule;
      }
    }
  }
  return nullptr;
}

void ValueCodec::count_write(const Key& key) noexcept {
  const std::uint64_t count = key.writes.fetch_add(1, std::memory_order_relaxed) + 1;
  if (count % kWritesPerKey == 0) {
    log_warn("an encryption key has written many values: put a new one in front of it",
             {{"key", key.name}, {"writes", std::to_string(count)}});
  }
}

std::string ValueCodec::seal(std::string_view key, std::string plain) const {
  const Rule* const rule = find(key);
  if (rule == nullptr || rule->readers.front().key == nullptr) {
    return plain;
  }
  const Key& with = *rule->readers.front().key;
  std::string out;
  out.reserve(with.mark.size() + kGcmNonce + plain.size() + kGcmTag);
  out = with.mark;
  gcm_seal(out, with.secret, key, plain);
  count_write(with);
  return out;
}

Expected<OpenedValue> ValueCodec::open(std::string_view key, std::string_view stored) const {
  const Rule* const rule = find(key);
  const bool is_sealed = stored.starts_with(kSealedMark);
  if (rule == nullptr) {
    if (!is_sealed) {
      return OpenedValue{};
    }
    const std::string name = name_in(stored);
    return fail(unable(key, "no encryption is configured for this resource" +
                                (name.empty() ? "" : ", it is written with key \"" + name + "\"")));
  }
  std::string refused;
  for (std::size_t i = 0; i < rule->readers.size(); ++i) {
    const Key* const with = rule->readers[i].key.get();
    if (with == nullptr) {
      if (!is_sealed) {
        return OpenedValue{false, {}, i != 0};
      }
      continue;
    }
    if (!stored.starts_with(with->mark)) {
      continue;
    }
    if (auto plain = gcm_open(with->secret, key, stored.substr(with->mark.size()))) {
      return OpenedValue{true, std::move(*plain), i != 0};
    }
    refused = with->name;  // two keys may have one name
  }
  if (!refused.empty()) {
    return fail(unable(key, "the value does not open with key \"" + refused + "\" of aesgcm"));
  }
  if (!is_sealed) {
    return fail(unable(key, "the value is not encrypted, and identity is no provider"));
  }
  const std::string name = name_in(stored);
  return fail(unable(key, name.empty() ? std::string("no matching prefix found")
                                       : "no key \"" + name + "\" of aesgcm is configured"));
}

std::vector<std::string> ValueCodec::describe() const {
  std::vector<std::string> out;
  out.reserve(rules_.size());
  for (const Rule& rule : rules_) {
    out.push_back(rule.about);
  }
  return out;
}

}  // namespace kintsugi::store
