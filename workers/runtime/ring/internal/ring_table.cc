#include "workers/runtime/ring/internal/ring_table.h"

#include <algorithm>
#include <optional>

#include "base/strings.h"
#include "workers/runtime/lease/lease_record.h"

namespace kintsugi::workers {
namespace {

constexpr std::int64_t kTableVersion = 1;
constexpr std::size_t kSlotBytes = 8;
constexpr std::size_t kMaxMemberText = 253;

constexpr std::array<std::string_view, 3> kStateNames{"active", "leaving", "unconfirmed"};

void put(std::string& out, std::uint32_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    out.push_back(static_cast<char>((value >> (8 * i)) & 0xFFU));
  }
}

std::uint32_t take(std::string_view bytes) noexcept {
  std::uint32_t out = 0;
  for (std::size_t i = bytes.size(); i > 0; --i) {
    out = (out << 8U) | static_cast<unsigned char>(bytes[i - 1]);
  }
  return out;
}

tl::unexpected<Error> corrupt(std::string_view what) {
  return fail(Errc::kCorrupt, "ring table: " + std::string(what));
}

std::optional<RingTableMember::State> state_of(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kStateNames.size(); ++i) {
    if (kStateNames[i] == name) {
      return static_cast<RingTableMember::State>(i);
    }
  }
  return std::nullopt;
}

Expected<void> parse_members(const krm::Json& root, RingTable& out) {
  const krm::Json* members = root.find("members");
  if (members == nullptr || !members->is_array()) {
    return corrupt("members is no array");
  }
  if (members->size() > kMaxRingMembers) {
    return corrupt("more than 1024 members");
  }
  std::vector<std::string_view> uids;
  for (const krm::Json& item : members->items()) {
    const std::string_view id = item.text({"id"});
    const std::string_view uid = item.text({"uid"});
    const auto state = state_of(item.text({"state"}));
    if (id.empty() || uid.empty() || id.size() > kMaxMemberText || uid.size() > kMaxMemberText) {
      return corrupt("a member lacks id or uid, or they are too long");
    }
    if (!state) {
      return corrupt("a member's state is unknown");
    }
    uids.push_back(uid);
    out.members.push_back({std::string(id), std::string(uid), *state});
  }
  std::sort(uids.begin(), uids.end());
  if (std::adjacent_find(uids.begin(), uids.end()) != uids.end()) {
    return corrupt("a member stands there twice");
  }
  return {};
}

Expected<void> parse_slots(const krm::Json& root, RingTable& out) {
  const auto bytes = base64_decode(root.text({"partitions"}));
  if (!bytes) {
    return corrupt("partitions is no base64");
  }
  if (bytes->size() != kRingPartitions * kSlotBytes) {
    return corrupt("partitions has " + std::to_string(bytes->size()) + " bytes, not 8192");
  }
  const std::string_view all = *bytes;
  for (std::size_t p = 0; p < kRingPartitions; ++p) {
    const std::string_view entry = all.substr(p * kSlotBytes, kSlotBytes);
    RingSlot& slot = out.slots[p];
    slot.owner = static_cast<std::uint16_t>(take(entry.substr(0, 2)));
    slot.next = static_cast<std::uint16_t>(take(entry.substr(2, 2)));
    slot.epoch = take(entry.substr(4, 4));
    for (const std::uint16_t index : {slot.owner, slot.next}) {
      if (index != kNoMember && index >= out.members.size()) {
        return corrupt("partition " + std::to_string(p) + " names a member that is not there");
      }
    }
    if (slot.epoch > kMaxRingEpoch) {
      return corrupt("partition " + std::to_string(p) + " has the last epoch");
    }
  }
  return {};
}

}  // namespace

std::uint16_t RingTable::find(std::string_view id, std::string_view uid) const noexcept {
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i].id == id && members[i].uid == uid) {
      return static_cast<std::uint16_t>(i);
    }
  }
  return kNoMember;
}

std::uint32_t RingTable::highest_epoch() const noexcept {
  std::uint32_t out = 0;
  for (const RingSlot& slot : slots) {
    out = std::max(out, slot.epoch);
  }
  return out;
}

std::size_t RingTable::moving() const noexcept {
  return static_cast<std::size_t>(std::count_if(
      slots.begin(), slots.end(), [](const RingSlot& slot) { return slot.next != kNoMember; }));
}

bool RingTable::has_ownerless() const noexcept {
  return std::any_of(slots.begin(), slots.end(),
                     [](const RingSlot& slot) { return slot.owner == kNoMember; });
}

std::string RingTable::encode() const {
  std::string bytes;
  bytes.reserve(kRingPartitions * kSlotBytes);
  for (const RingSlot& slot : slots) {
    put(bytes, slot.owner, 2);
    put(bytes, slot.next, 2);
    put(bytes, slot.epoch, 4);
  }
  krm::Json list = krm::Json::array();
  for (const RingTableMember& member : members) {
    list.push_back(
        krm::Json::object({{"id", member.id},
                           {"uid", member.uid},
                           {"state", kStateNames[static_cast<std::size_t>(member.state)]}}));
  }
  krm::Json root = krm::Json::object({{"version", kTableVersion}, {"generation", generation}});
  root["members"] = std::move(list);
  root["partitions"] = base64_encode(bytes);
  return root.dump();
}

Expected<RingTable> RingTable::parse(std::string_view text) {
  krm::Json::ParseOptions options;
  options.max_depth = 16;
  const Expected<krm::Json> root = krm::Json::parse(text, options);
  if (!root || !root->is_object()) {
    return corrupt("no JSON object");
  }
  const krm::Json* version = root->find("version");
  if (version != nullptr && (!version->is_integer() || version->as_integer() != kTableVersion)) {
    return corrupt("unknown version");
  }
  const krm::Json* generation = root->find("generation");
  if (generation == nullptr || !generation->is_integer() || generation->as_integer() <= 0 ||
      static_cast<std::uint64_t>(generation->as_integer()) > kMaxRingGeneration) {
    return corrupt("the generation is no number from 1 to 2^53 - 1");
  }
  RingTable out;
  out.generation = static_cast<std::uint64_t>(generation->as_integer());
  if (Expected<void> read = parse_members(*root, out); !read) {
    return fail(std::move(read).error());
  }
  if (Expected<void> read = parse_slots(*root, out); !read) {
    return fail(std::move(read).error());
  }
  return out;
}

Expected<void> check_successor(const RingTable& before, const RingTable& next) {
  if (before.generation == 0) {
    return {};
  }
  if (next.generation <= before.generation) {
    return corrupt("generation " + std::to_string(next.generation) + " after " +
                   std::to_string(before.generation));
  }
  // Where the members of `before` stand in `next`.
  std::vector<std::uint16_t> places;
  places.reserve(before.members.size());
  for (const RingTableMember& member : before.members) {
    places.push_back(next.find(member.id, member.uid));
  }
  for (std::size_t p = 0; p < kRingPartitions; ++p) {
    const RingSlot& old = before.slots[p];
    const RingSlot& slot = next.slots[p];
    if (slot.epoch < old.epoch) {
      return corrupt("epoch of partition " + std::to_string(p) + " goes back");
    }
    const std::uint16_t same = old.owner == kNoMember ? kNoMember : places[old.owner];
    if (slot.epoch == old.epoch && slot.owner != same) {
      return corrupt("partition " + std::to_string(p) + " has another owner in the same epoch");
    }
  }
  return {};
}

krm::Json ring_config_map(std::string_view name, std::string_view rv, const RingTable& table) {
  krm::Json out = krm::Json::object({{"apiVersion", "v1"}, {"kind", "ConfigMap"}});
  out.make({"metadata", "name"}) = name;
  out.make({"metadata", "namespace"}) = kLeaseNamespace;
  if (!rv.empty()) {
    out.make({"metadata", "resourceVersion"}) = rv;
  }
  out.make({"data", "ring"}) = table.encode();
  return out;
}

std::string_view ring_text(const krm::Json& object) noexcept {
  return object.text({"data", "ring"});
}

std::string ring_name(std::string_view role) { return "ring-" + std::string(role); }

std::string coordinator_lease_name(std::string_view role) {
  return ring_name(role) + "-coordinator";
}

std::string member_lease_name(std::string_view role, std::string_view identity) {
  return ring_name(role) + '-' + std::string(identity);
}

std::string_view member_identity(std::string_view role, std::string_view lease_name) noexcept {
  constexpr std::string_view front = "ring-";
  if (!lease_name.starts_with(front)) {
    return {};
  }
  lease_name.remove_prefix(front.size());
  if (!lease_name.starts_with(role)) {
    return {};
  }
  lease_name.remove_prefix(role.size());
  if (lease_name.size() < 2 || lease_name.front() != '-' || lease_name == "-coordinator") {
    return {};
  }
  return lease_name.substr(1);
}

}  // namespace kintsugi::workers
