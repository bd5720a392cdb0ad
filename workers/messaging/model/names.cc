#include "workers/messaging/model/names.h"

#include <algorithm>
#include <array>

#include "base/digest.h"
#include "krm/path_prefixes.h"

namespace kintsugi::workers {

namespace {

constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz234567";
constexpr std::size_t kMostNameBytes = 40;

bool is_plain(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

void append_hash(std::string& out, std::string_view text, std::size_t letters) {
  const std::array<unsigned char, 32> digest = sha256(text);
  letters = std::min<std::size_t>(letters, 51);
  for (std::size_t i = 0; i < letters; ++i) {
    const std::size_t bit = i * 5;
    const auto high = static_cast<unsigned>(digest[bit / 8]) << 8U;
    const unsigned low = bit / 8 + 1 < digest.size() ? digest[bit / 8 + 1] : 0U;
    out += kLetters[((high | low) >> (11U - bit % 8)) & 31U];
  }
}

}  // namespace

std::string hash_letters(std::string_view text, std::size_t letters) {
  std::string out;
  append_hash(out, text, letters);
  return out;
}

std::string space_id(std::string_view cluster, std::string_view ns, std::string_view name) {
  std::string out;
  for (const char c : name.substr(0, kMostNameBytes)) {
    out += is_plain(c) ? c : '-';
  }
  if (out.empty() || out.front() == '-') {
    out.insert(out.begin(), 'x');  // no name of Kubernetes
    out.resize(std::min(out.size(), kMostNameBytes));
  }
  std::string hashed(cluster);
  hashed.append("|").append(ns).append("|").append(name);
  out += '-';
  append_hash(out, hashed, 13);
  return out;
}

std::string qualified_address(std::string_view space_id, std::string_view address) {
  std::string out;
  out.reserve(space_id.size() + 1 + address.size());
  out.append(space_id).append("/").append(address);
  return out;
}

std::string conflict_key(std::string_view qualified) {
  std::string out(qualified);
  std::replace(out.begin(), out.end(), '/', '.');
  return out;
}

std::string broker_name(std::string_view settings_class, std::string_view qualified) {
  std::string out;
  out.reserve(settings_class.size() + 1 + qualified.size());
  if (!settings_class.empty()) {
    out.append(settings_class).append(".");
  }
  out.append(qualified);
  return out;
}

std::string full_queue_name(std::string_view address, std::string_view queue) {
  std::string out;
  out.reserve(address.size() + 2 + queue.size());
  out.append(address).append("::").append(queue);
  return out;
}

std::string settings_class_name(std::string_view plan_uid, std::string_view space_id) {
  std::string hashed(plan_uid);
  if (!space_id.empty()) {
    hashed.append("|").append(space_id);
  }
  return "c" + hash_letters(hashed, 9);
}

std::string_view class_of(std::string_view broker_name) noexcept {
  // A space's id has no dot and is longer than a class: nothing else has a dot there.
  if (broker_name.size() < 11 || broker_name[0] != 'c' || broker_name[10] != '.') {
    return {};
  }
  const std::string_view letters = broker_name.substr(1, 9);
  return letters.find_first_not_of(kLetters) == std::string_view::npos ? broker_name.substr(0, 10)
                                                                       : std::string_view();
}

std::string owner_name(std::string_view shard) {
  if (!shard.empty() && shard.size() <= kMostNameBytes &&
      std::all_of(shard.begin(), shard.end(), is_plain)) {
    return std::string(shard);
  }
  return "x" + hash_letters(shard, 12);
}

std::string_view shard_of_endpoint(std::string_view url) noexcept {
  constexpr std::string_view kScheme = "://";
  const std::size_t scheme = url.find(kScheme);
  const std::size_t path = url.find('/', scheme == url.npos ? 0 : scheme + kScheme.size());
  if (path == url.npos || !url.substr(path).starts_with(krm::kShardsPrefix)) {
    return url;
  }
  const std::string_view rest = url.substr(path + krm::kShardsPrefix.size());
  const std::string_view shard = rest.substr(0, rest.find('/'));
  return shard.empty() ? url : shard;
}

std::string_view entity_kind_text(EntityKind kind) noexcept {
  switch (kind) {
    case EntityKind::kAddress:
      return "addr";
    case EntityKind::kAutoLink:
      return "al";
    case EntityKind::kLinkRoute:
      return "lr";
    case EntityKind::kConnector:
      return "con";
    case EntityKind::kListener:
      return "lis";
    case EntityKind::kSslProfile:
      return "ssl";
    case EntityKind::kVhost:
      return "vh";
    case EntityKind::kBrokerAddress:
    case EntityKind::kQueue:
    case EntityKind::kAddressSettings:
    case EntityKind::kDivert:
      return "";
  }
  return "";
}

std::string entity_identity(const ObjectIdentity& id) {
  return id.uid.empty() ? id.cluster + "|" + id.ns + "|" + id.name : id.uid;
}

std::string entity_name(std::string_view owner, EntityKind kind, std::string_view identity,
                        std::string_view host, std::string_view direction) {
  std::string hashed;
  hashed.reserve(identity.size() + host.size() + direction.size() + 2);
  hashed.append(identity).append("|").append(host).append("|").append(direction);
  std::string out;
  out.reserve(4 + owner.size() + 1 + 4 + 1 + 26);
  out.append("ktg.").append(owner).append(".").append(entity_kind_text(kind)).append(".");
  append_hash(out, hashed, 26);
  return out;
}

bool is_own_entity(std::string_view owner, std::string_view name) noexcept {
  return name.starts_with("ktg.") && name.substr(4).starts_with(owner) &&
         name.size() > 4 + owner.size() && name[4 + owner.size()] == '.';
}

}  // namespace kintsugi::workers
