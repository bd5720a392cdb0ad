#include "store/etcd/internal/meta.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "krm/other_members.h"
#include "store/etcd/etcd_prefix.h"
#include "store/etcd/internal/version.h"

namespace kintsugi::store::etcd {
namespace {

using krm::Json;

constexpr std::int64_t kFormat = 1;
constexpr std::int64_t kNotWhole = 0;  // what programs before states refuse

struct StateName {
  Meta::State state;
  std::string_view name;
};
/// Of those that are not whole.
constexpr StateName kStates[] = {{Meta::State::kCopying, "copying"},
                                 {Meta::State::kMoved, "moved"},
                                 {Meta::State::kMoving, "moving"}};

std::tuple<int, int, int> order(const Version& version) {
  return {version.major, version.minor, version.patch};
}

std::int64_t number_of(const Json& object, std::string_view member) {
  const Json* const found = object.find(member);
  return found == nullptr ? 0 : found->as_integer();
}

}  // namespace

std::string encode(const Meta& meta) {
  const bool whole = meta.state == Meta::State::kWhole;
  Json object = Json::object({{"format", whole ? kFormat : kNotWhole},
                              {"uid", meta.uid},
                              {"offset", static_cast<std::int64_t>(meta.offset)},
                              {"epoch", static_cast<std::int64_t>(meta.epoch)},
                              {"lowest", meta.lowest}});
  if (!whole) {
    for (const StateName& one : kStates) {
      if (one.state == meta.state) {
        object["state"] = std::string(one.name);
      }
    }
    object["place"] = meta.place;
  }
  krm::add_members(object, meta.others);
  return object.dump();
}

Expected<Meta> parse_meta(std::string_view text, std::string_view prefix) {
  const auto object = Json::parse(text);
  const std::int64_t format = object ? number_of(*object, "format") : -1;
  const std::string_view state = object ? object->text({"state"}) : std::string_view();
  const auto named = std::find_if(std::begin(kStates), std::end(kStates),
                                  [state](const StateName& one) { return one.name == state; });
  if (format != kFormat && (format != kNotWhole || named == std::end(kStates))) {
    return fail(Errc::kConfig, "what is under " + std::string(prefix) +
                                   " in etcd has no format that this program knows");
  }
  Meta meta;
  meta.uid = object->text({"uid"});
  meta.offset = static_cast<Revision>(number_of(*object, "offset"));
  meta.epoch = static_cast<std::uint64_t>(number_of(*object, "epoch"));
  if (const Json* const lowest = object->find("lowest")) {
    meta.lowest = lowest->as_string();
  }
  meta.place = object->text({"place"});
  meta.others =
      krm::other_members(*object, {"format", "uid", "offset", "epoch", "lowest", "state", "place"});
  meta.state = format == kFormat ? Meta::State::kWhole : named->state;
  return meta;
}

Expected<void> check_whole(const Meta& meta, std::string_view prefix, bool opens_moved) {
  if (meta.state == Meta::State::kCopying) {
    const bool is_restored = meta.place.starts_with(EtcdPrefix::kOfBackup);
    return fail(Errc::kConfig, std::string(prefix) + " in etcd is a copy of " + meta.place +
                                   " that has not ended: " +
                                   (is_restored ? "`kintsugi restore` again, to an empty folder"
                                                : "`kintsugi store copy` again"));
  }
  if (meta.state == Meta::State::kMoved && !opens_moved) {
    return fail(Errc::kConfig, std::string(prefix) + " in etcd has moved to " + meta.place +
                                   "; --force opens it nevertheless");
  }
  return {};
}

bool is_for_earlier(const Meta& meta, std::string_view program) {
  const auto lowest = Version::parse(meta.lowest);
  const auto own = Version::parse(program);
  return lowest && own && order(*lowest) < order(*own);
}

Expected<void> check_program(const Meta& meta, std::string_view prefix, std::string_view program) {
  const auto lowest = Version::parse(meta.lowest);
  const auto own = Version::parse(program);
  if (lowest && own && order(*own) >= order(*lowest)) {
    return {};
  }
  return fail(Errc::kConfig, std::string(prefix) + " in etcd is for kintsugi " + meta.lowest +
                                 " and later, since the upgrade to it was finished; this is " +
                                 std::string(program));
}

}  // namespace kintsugi::store::etcd
