#include "workers/messaging/pipeline/internal/entity_names.h"

namespace kintsugi::workers {

namespace {

std::size_t prefix_length(std::string_view name) noexcept {
  const std::size_t slash = name.find('/');
  const std::size_t end = slash == std::string_view::npos ? name.rfind('.') : slash;
  return end + 1;  // 0 without either
}

}  // namespace

/// Beyond the most there are, names are kept whole.
std::uint16_t EntityNames::prefix_of(std::string_view text) {
  if (text.empty()) {
    return 0;
  }
  if (const auto found = by_text_.find(text); found != by_text_.end()) {
    return found->second;
  }
  std::uint16_t out = 0;
  if (!free_.empty()) {
    out = free_.back();
    free_.pop_back();
  } else if (prefixes_.size() <= kMostPrefixes) {
    out = static_cast<std::uint16_t>(prefixes_.size());
    prefixes_.emplace_back();
    free_.reserve(prefixes_.size());  // drop() may not fail
  } else {
    return 0;
  }
  prefixes_[out].text = text;
  by_text_.emplace(text, out);
  return out;
}

EntityName EntityNames::put(std::string_view name) {
  EntityName out;
  out.prefix = prefix_of(name.substr(0, prefix_length(name)));
  ++prefixes_[out.prefix].uses;
  name.remove_prefix(prefixes_[out.prefix].text.size());
  out.length = static_cast<std::uint16_t>(name.size());
  out.rest = rests_.put(name);
  return out;
}

void EntityNames::drop(const EntityName& name) noexcept {
  rests_.give_back(name.rest, name.length);
  Prefix& prefix = prefixes_[name.prefix];
  if (--prefix.uses == 0 && name.prefix != 0) {
    by_text_.erase(by_text_.find(prefix.text));
    prefix.text.clear();
    free_.push_back(name.prefix);
  }
}

bool EntityNames::is(const EntityName& name, std::string_view text) const noexcept {
  const std::string& prefix = prefixes_[name.prefix].text;
  return text.size() == prefix.size() + name.length &&
         text.ends_with(rests_.text(name.rest, name.length)) && text.starts_with(prefix);
}

std::string EntityNames::text(const EntityName& name) const {
  const std::string& prefix = prefixes_[name.prefix].text;
  std::string out;
  out.reserve(prefix.size() + name.length);
  out.append(prefix).append(rests_.text(name.rest, name.length));
  return out;
}

}  // namespace kintsugi::workers
