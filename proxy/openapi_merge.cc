#include "proxy/openapi_merge.h"

#include <algorithm>

#include "base/sha512.h"
#include "base/strings.h"
#include "krm/request_info.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;

constexpr std::string_view kOwnGroup = "apis/topology.kcp.io";
constexpr std::string_view kOpenApi = "/openapi/v3";
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

}  // namespace

std::optional<OpenApiTarget> split_openapi_target(std::string_view target) {
  OpenApiTarget out;
  const std::size_t question = target.find('?');
  out.path = target.substr(0, question);
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

bool merge_openapi_document(Json& theirs, const Json& ours) {
  if (!theirs.text({"openapi"}).starts_with("3.") || !ours.text({"openapi"}).starts_with("3.")) {
    return false;
  }
  put_members(theirs["paths"], ours.find("paths"));
  put_members(theirs.make({"components", "schemas"}), ours.at({"components", "schemas"}));
  return true;
}

}  // namespace kintsugi::proxy
