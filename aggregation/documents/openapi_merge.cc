#include "aggregation/documents/openapi_merge.h"

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/strings.h"
#include "krm/protobuf_wire.h"
#include "krm/request_info.h"

namespace kintsugi::aggregation {
namespace {

using krm::Json;

constexpr std::string_view kOwnGroup = "apis/topology.kcp.io";
constexpr std::string_view kOpenApi = "/openapi/v3";
constexpr std::string_view kOpenApiV2 = "/openapi/v2";
/// Fields of openapi.v2.Document, and those of the entries in them.
constexpr std::uint32_t kPathsField = 8, kDefinitionsField = 9, kPathField = 2,
                        kDefinitionField = 1;
constexpr std::string_view kHash = "?hash=";
constexpr std::string_view kLink = "serverRelativeURL";

bool is_own(std::string_view key) {
  return key.starts_with(kOwnGroup) &&
         (key.size() == kOwnGroup.size() || key[kOwnGroup.size()] == '/');
}

std::string_view hash_of(std::string_view link) {
  const std::size_t at = link.find(kHash);
  return at == std::string_view::npos ? std::string_view() : link.substr(at + kHash.size());
}

void put_members(Json& target, const Json* source) {
  if (source != nullptr) {
    for (const krm::JsonMember& member : source->members()) {
      target[member.key] = member.value;
    }
  }
}

void put_missing(Json& target, const Json* source) {
  if (source != nullptr) {
    for (const krm::JsonMember& member : source->members()) {
      if (target.find(member.key) == nullptr) {
        target[member.key] = member.value;
      }
    }
  }
}

/// Entries of a map that is written as repeated {1: name, 2: value}.
using Named = std::vector<std::pair<std::string_view, std::string_view>>;

/// What both sides' documents consist of. Views into the bytes.
struct V2Document {
  Named paths, definitions;  ///< name and the whole entry
  std::vector<krm::WireField> rest;
};

bool read_entries(std::string_view bytes, std::uint32_t number, Named& out) {
  krm::WireReader reader(bytes);
  krm::WireField entry;
  while (reader.next(entry)) {
    if (entry.field != number || entry.type != krm::WireType::kBytes) {
      continue;
    }
    krm::WireReader inner(entry.bytes);
    krm::WireField name;
    while (inner.next(name) && name.field != 1) {
    }
    if (inner.malformed()) {
      return false;
    }
    out.emplace_back(name.bytes, entry.bytes);
  }
  return !reader.malformed();
}

std::optional<V2Document> read_v2(std::string_view bytes) {
  V2Document out;
  krm::WireReader reader(bytes);
  krm::WireField field;
  bool is_v2 = false;
  while (reader.next(field)) {
    if (field.type != krm::WireType::kBytes) {
      return std::nullopt;
    }
    is_v2 = is_v2 || (field.field == 1 && field.bytes == "2.0");
    if (field.field == kPathsField) {
      if (!read_entries(field.bytes, kPathField, out.paths)) {
        return std::nullopt;
      }
    } else if (field.field == kDefinitionsField) {
      if (!read_entries(field.bytes, kDefinitionField, out.definitions)) {
        return std::nullopt;
      }
    } else {
      out.rest.push_back(field);
    }
  }
  return is_v2 && !reader.malformed() ? std::optional<V2Document>(std::move(out)) : std::nullopt;
}

/// All of `first` and what only `second` has, as the field of a document.
void put_entries(std::string& out, std::uint32_t field, std::uint32_t entry_field,
                 const Named& first, const Named& second) {
  std::string all;
  std::unordered_set<std::string_view> seen;
  for (const Named* side : {&first, &second}) {
    for (const auto& [name, entry] : *side) {
      if (seen.insert(name).second) {
        krm::put_bytes(all, entry_field, entry);
      }
    }
  }
  krm::put_bytes(out, field, all);
}

}  // namespace

std::optional<OpenApiTarget> split_openapi_target(std::string_view target) {
  OpenApiTarget out;
  const std::size_t question = target.find('?');
  out.path = target.substr(0, question);
  std::string_view path = out.path;
  while (path.ends_with('/')) {
    path.remove_suffix(1);
  }
  if (path.ends_with(kOpenApiV2) && path.find("/apis") == std::string_view::npos) {
    out.is_v2 = true;
    return out;
  }
  const std::size_t begin = out.path.find(kOpenApi);
  // /apis/x/openapi/v3 is a resource.
  if (begin == std::string_view::npos || out.path.find("/apis") < begin) {
    return std::nullopt;
  }
  if (question != std::string_view::npos) {
    const krm::Query query(target.substr(question + 1));
    if (const auto hash = query.get("hash")) {
      out.hash = std::string(*hash);
    }
  }
  out.is_index = out.path.find("/apis", begin) == std::string_view::npos;
  return out;
}

std::string merged_openapi_hash(std::string_view theirs, std::string_view ours) {
  const auto digest = sha512(std::string(theirs) + "+" + std::string(ours));
  std::string hex = hex_encode({reinterpret_cast<const char*>(digest.data()), digest.size()});
  std::transform(hex.begin(), hex.end(), hex.begin(),
                 [](char c) { return c >= 'a' ? static_cast<char>(c - 'a' + 'A') : c; });
  return hex;
}

bool merge_openapi_index(Json& theirs, const Json& ours) {
  const Json* source = ours.find("paths");
  const Json* known = theirs.find("paths");
  if (source == nullptr || known == nullptr || ours.find("openapi") != nullptr ||
      theirs.find("openapi") != nullptr) {
    return false;
  }
  Json& target = theirs["paths"];
  for (const krm::JsonMember& member : source->members()) {
    const Json* entry = target.find(member.key);
    if (is_own(member.key)) {
      target[member.key] = member.value;
    } else if (member.key == kSharedOpenApiKey) {
      if (entry == nullptr) {
        target[member.key] = member.value;
        continue;
      }
      const std::string link(entry->text({kLink}));
      target[member.key][kLink] =
          link.substr(0, link.find('?')) + std::string(kHash) +
          merged_openapi_hash(hash_of(link), hash_of(member.value.text({kLink})));
    }
  }
  return true;
}

void root_openapi_index(Json& index, std::string_view root) {
  for (krm::JsonMember& member : index["paths"].edit_members()) {
    const std::string link(member.value.text({kLink}));
    const std::size_t begin = link.find(kOpenApi);
    if (begin != std::string::npos) {
      member.value[kLink] = std::string(root) + link.substr(begin);
    }
  }
}

bool merge_openapi_document(Json& theirs, const Json& ours) {
  if (!theirs.text({"openapi"}).starts_with("3.") || !ours.text({"openapi"}).starts_with("3.")) {
    return false;
  }
  put_members(theirs["paths"], ours.find("paths"));
  put_members(theirs.make({"components", "schemas"}), ours.at({"components", "schemas"}));
  return true;
}

std::optional<std::string> merge_openapi_v2_json(std::string_view theirs, std::string_view ours) {
  Expected<Json> merged = Json::parse(theirs);
  const Expected<Json> added = Json::parse(ours);
  if (!merged || !added || merged->text({"swagger"}) != "2.0" ||
      added->text({"swagger"}) != "2.0") {
    return std::nullopt;
  }
  put_members((*merged)["paths"], added->find("paths"));
  put_missing((*merged)["definitions"], added->find("definitions"));
  return merged->dump();
}

std::optional<std::string> merge_openapi_v2_protobuf(std::string_view theirs,
                                                     std::string_view ours) {
  const std::optional<V2Document> shard = read_v2(theirs);
  const std::optional<V2Document> own = read_v2(ours);
  if (!shard || !own) {
    return std::nullopt;
  }
  std::string out;
  out.reserve(theirs.size() + ours.size());
  for (const krm::WireField& field : shard->rest) {
    krm::put_bytes(out, field.field, field.bytes);
  }
  put_entries(out, kPathsField, kPathField, own->paths, shard->paths);
  put_entries(out, kDefinitionsField, kDefinitionField, shard->definitions, own->definitions);
  return out;
}

std::optional<std::size_t> unite_openapi_index(Json& into, const Json& more) {
  const Json* source = more.find("paths");
  if (source == nullptr || into.find("paths") == nullptr || more.find("openapi") != nullptr ||
      into.find("openapi") != nullptr) {
    return std::nullopt;
  }
  Json& target = into["paths"];
  std::size_t differ = 0;
  for (const krm::JsonMember& member : source->members()) {
    const Json* known = target.find(member.key);
    if (known == nullptr) {
      target[member.key] = member.value;
    } else if (hash_of(known->text({kLink})) != hash_of(member.value.text({kLink}))) {
      ++differ;
    }
  }
  return differ;
}

std::optional<std::string> unite_openapi_v2_json(std::string_view into, std::string_view more) {
  Expected<Json> united = Json::parse(into);
  const Expected<Json> added = Json::parse(more);
  if (!united || !added || united->text({"swagger"}) != "2.0" ||
      added->text({"swagger"}) != "2.0") {
    return std::nullopt;
  }
  for (const std::string_view part : {"paths", "definitions"}) {
    put_missing((*united)[part], added->find(part));
  }
  return united->dump();
}

std::optional<std::string> unite_openapi_v2_protobuf(std::string_view into, std::string_view more) {
  const std::optional<V2Document> first = read_v2(into);
  const std::optional<V2Document> second = read_v2(more);
  if (!first || !second) {
    return std::nullopt;
  }
  std::string out;
  out.reserve(into.size() + more.size());
  for (const krm::WireField& field : first->rest) {
    krm::put_bytes(out, field.field, field.bytes);
  }
  put_entries(out, kPathsField, kPathField, first->paths, second->paths);
  put_entries(out, kDefinitionsField, kDefinitionField, first->definitions, second->definitions);
  return out;
}

std::string passed_openapi_hash(std::string_view theirs) { return merged_openapi_hash(theirs, {}); }

void pass_openapi_hashes(Json& index) {
  for (krm::JsonMember& member : index["paths"].edit_members()) {
    const std::string link(member.value.text({kLink}));
    member.value[kLink] =
        link.substr(0, link.find('?')) + std::string(kHash) + passed_openapi_hash(hash_of(link));
  }
}

std::string merged_openapi_v2_tag(std::string_view theirs, std::string_view ours) {
  return std::string(theirs) + '.' + std::string(ours);
}

std::string_view their_openapi_v2_tag(std::string_view merged, std::string_view ours) noexcept {
  if (ours.empty() || merged.size() <= ours.size() + 1 || !merged.ends_with(ours)) {
    return {};
  }
  merged.remove_suffix(ours.size());
  if (merged.back() != '.') {
    return {};
  }
  merged.remove_suffix(1);
  return merged;
}

}  // namespace kintsugi::aggregation
