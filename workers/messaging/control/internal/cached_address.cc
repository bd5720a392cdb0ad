#include "workers/messaging/control/internal/cached_address.h"

#include <initializer_list>
#include <utility>

#include "base/strings.h"
#include "workers/messaging/control/internal/kinds.h"
#include "workers/messaging/control/internal/packed_text.h"

namespace kintsugi::workers {

namespace {

constexpr std::string_view kUuidForm = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
constexpr std::size_t kUuidBytes = 16;
constexpr std::string_view kDigits = "0123456789abcdef";

/// The 16 bytes of a UUID as servers write it; "": it is none.
std::string pack_uuid(std::string_view text) {
  if (text.size() != kUuidForm.size()) {
    return {};
  }
  std::string out;
  int half = -1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (kUuidForm[i] == '-') {
      if (text[i] != '-') {
        return {};
      }
      continue;
    }
    const std::size_t digit = kDigits.find(text[i]);
    if (digit == std::string_view::npos) {
      return {};
    }
    if (half < 0) {
      half = static_cast<int>(digit);
    } else {
      out.push_back(static_cast<char>(half * 16 + static_cast<int>(digit)));
      half = -1;
    }
  }
  return out;
}

std::string unpack_uuid(std::string_view bytes) {
  std::string out;
  out.reserve(kUuidForm.size());
  std::size_t at = 0;
  for (const char byte : bytes) {
    for (const unsigned digit :
         {static_cast<unsigned char>(byte) / 16U, static_cast<unsigned char>(byte) % 16U}) {
      if (kUuidForm[at] == '-') {
        out.push_back('-');
        ++at;
      }
      out.push_back(kDigits[digit]);
      ++at;
    }
  }
  return out;
}

std::string_view space_of_name(std::string_view name) noexcept {
  const std::size_t dot = name.find('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

std::string_view address_of_name(std::string_view name) noexcept {
  return name.substr(name.find('.') + 1);  // all without a dot
}

std::size_t length_bytes(std::size_t length) noexcept {
  std::size_t out = 1;
  for (; length >= 0x80; length >>= 7) {
    ++out;
  }
  return out;
}

/// Seven bits a byte, the least first.
char* put_length(char* at, std::size_t length) noexcept {
  for (; length >= 0x80; length >>= 7) {
    *at++ = static_cast<char>(length | 0x80);
  }
  *at++ = static_cast<char>(length);
  return at;
}

const char* get_length(const char* at, std::size_t& length) noexcept {
  length = 0;
  for (unsigned shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(*at++);
    length |= std::size_t{byte & 0x7fU} << shift;
    if (byte < 0x80) {
      return at;
    }
  }
}

std::unique_ptr<char[]> block_of(std::initializer_list<std::string_view> texts) {
  std::size_t size = 0;
  for (const std::string_view text : texts) {
    size += length_bytes(text.size()) + text.size();
  }
  auto out = std::make_unique<char[]>(size);
  char* at = out.get();
  for (const std::string_view text : texts) {
    at = put_length(at, text.size());
    at += text.copy(at, text.size());
  }
  return out;
}

}  // namespace

CachedAddress::CachedAddress(const shards::ObjectKey& key, const krm::Json& object) {
  Parsed<MessagingAddress> parsed = parse_address(object);
  MessagingAddress& address = parsed.object;
  const CachedMeta meta = cached_meta(object);
  const krm::Json* const status = object.find("status");
  created_ = address.id.created;
  generation_ = address.id.generation;
  max_consumers_ = address.max_consumers;
  type_ = address.type;
  valid_ = parsed.valid;
  deleting_ = meta.deleting;
  reschedule_ = address.reschedule;
  if (address.extras != nullptr || !parsed.conditions.empty()) {
    auto rare = std::make_unique<Rare>();
    rare->has_extras = address.extras != nullptr;
    if (rare->has_extras) {
      rare->extras = std::move(*address.extras);
    }
    rare->conditions = std::move(parsed.conditions);
    rare_ = std::move(rare);
  }
  const std::string uuid = pack_uuid(address.id.uid);
  uid_is_packed_ = !uuid.empty();
  finalizer_is_ours_ = meta.finalizers == kMessagingFinalizer;
  space_is_of_name_ = address.space == space_of_name(key.name);
  address_is_of_name_ = address.address == address_of_name(key.name);
  const auto unless = [](bool known, const std::string& text) {
    return known ? std::string_view() : std::string_view(text);
  };
  const std::string packed = status == nullptr ? std::string() : packed_status(*status);
  block_ = block_of(
      {uid_is_packed_ ? uuid : address.id.uid, meta.resource_version,
       unless(finalizer_is_ours_, meta.finalizers), unless(space_is_of_name_, address.space),
       unless(address_is_of_name_, address.address), address.plan, address.topic, packed});
}

std::string_view CachedAddress::text(Text which) const noexcept {
  if (block_ == nullptr) {
    return {};
  }
  const char* at = block_.get();
  std::size_t length = 0;
  for (int i = 0; i <= static_cast<int>(which); ++i) {
    at = get_length(at + length, length);
  }
  return {at, length};
}

std::string CachedAddress::uid() const {
  const std::string_view kept = text(Text::kUid);
  return uid_is_packed_ ? unpack_uuid(kept) : std::string(kept);
}

std::string CachedAddress::space(std::string_view name) const {
  return std::string(space_is_of_name_ ? space_of_name(name) : text(Text::kSpace));
}

std::string CachedAddress::plan() const { return std::string(text(Text::kPlan)); }

bool CachedAddress::has_finalizer(std::string_view finalizer) const {
  return finalizer_is_ours_ ? finalizer == kMessagingFinalizer : meta().has_finalizer(finalizer);
}

ObjectIdentity CachedAddress::id(const QueueKey& key) const {
  ObjectIdentity out;
  out.cluster = key.cluster;
  out.ns = key.ns;
  out.name = key.name;
  out.uid = uid();
  out.created = created_;
  out.generation = generation_;
  return out;
}

CachedMeta CachedAddress::meta() const {
  CachedMeta out;
  out.resource_version = text(Text::kVersion);
  out.finalizers = finalizer_is_ours_ ? kMessagingFinalizer : text(Text::kFinalizers);
  out.deleting = deleting_;
  return out;
}

krm::Json CachedAddress::status_json() const { return parsed_status(text(Text::kStatus)); }

Parsed<MessagingAddress> CachedAddress::parsed(const QueueKey& key) const {
  Parsed<MessagingAddress> out;
  MessagingAddress& address = out.object;
  address.id = id(key);
  address.space = space(key.name);
  address.address = address_is_of_name_ ? address_of_name(key.name) : text(Text::kAddress);
  address.plan = plan();
  address.topic = text(Text::kTopic);
  address.max_consumers = max_consumers_;
  address.type = type_;
  address.reschedule = reschedule_;
  address.deleting = deleting_;
  out.valid = valid_;
  if (rare_ != nullptr) {
    out.conditions = rare_->conditions;
    if (rare_->has_extras) {
      address.extras = std::make_unique<AddressExtras>(rare_->extras);
    }
  }
  return out;
}

}  // namespace kintsugi::workers
