#include "controlplane/moves/internal/move_rows.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "apiserver/keys.h"
#include "controlplane/catalog/bound_schema.h"
#include "controlplane/catalog/cached_resources.h"
#include "controlplane/internal/names.h"

namespace kintsugi::controlplane {

using krm::Json;

bool belongs_to_others(std::string_view resource) {
  return apiserver::parse_stored_resource(resource).group == kinds::kReplicaGroup ||
         !offered_by(resource).empty();
}

Expected<void> visit_rows(const store::Store& store, const std::string& cluster, std::string start,
                          store::Revision at, const store::Visitor& visit) {
  bool goes_on = true;
  while (goes_on) {
    std::string resource;
    store::RangeQuery first;
    first.start = start;
    first.at = at;
    const auto found = store.range(first, [&](const store::EntryView& entry) {
      resource = std::string(entry.key.substr(0, entry.key.find('\0')));
      return false;
    });
    if (!found) {
      return fail(found.error().clone());
    }
    if (resource.empty()) {
      return {};
    }
    if (!belongs_to_others(resource)) {
      store::RangeQuery rows;
      rows.prefix = apiserver::collection_prefix(resource, cluster, "");
      rows.start = std::max(rows.prefix, start);
      rows.at = at;
      const auto read = store.range(rows, [&](const store::EntryView& entry) {
        goes_on = visit(entry);
        return goes_on;
      });
      if (!read) {
        return fail(read.error().clone());
      }
    }
    start = resource + '\x01';  // behind every key of this resource
  }
  return {};
}

bool moves_with(std::string_view key, std::string_view cluster) {
  const auto parts = apiserver::parse_key(key);
  return parts && parts->cluster == cluster && !belongs_to_others(parts->resource);
}

std::string resource_of(std::string_view key) {
  const apiserver::StoredResource resource =
      apiserver::parse_stored_resource(key.substr(0, key.find('\0')));
  std::string out(resource.plural);
  return resource.group.empty() ? out : out + "." + std::string(resource.group);
}

void RowSum::add(std::string_view key, std::string_view value) noexcept {
  ++rows_;
  sum_ += XXH3_64bits_withSeed(value.data(), value.size(), XXH3_64bits(key.data(), key.size()));
}

void RowSum::put(Json& into) const {
  into["rows"] = rows_;
  into["digest"] = std::to_string(sum_);
}

bool RowSum::is(const Json& told) const {
  return integer_of(told, "rows") == rows_ && told.text({"digest"}) == std::to_string(sum_);
}

void note_deletion(Deletions& deletions, const std::string& resource, std::int64_t revision) {
  std::int64_t& last = deletions[resource];
  last = std::max(last, revision);
}

Json to_json(const Deletions& deletions) {
  Json out = Json::object();
  for (const auto& [resource, revision] : deletions) {
    out[resource] = revision;
  }
  return out;
}

void merge(Deletions& into, const Json* told) {
  for (const krm::JsonMember& one : told == nullptr ? Json::Object() : told->members()) {
    note_deletion(into, std::string(one.key), one.value.as_integer());
  }
}

std::int64_t integer_of(const Json& object, std::string_view member) {
  const Json* value = object.find(member);
  return value == nullptr ? 0 : value->as_integer();
}

}  // namespace kintsugi::controlplane
