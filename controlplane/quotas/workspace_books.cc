#include "controlplane/quotas/workspace_books.h"

#include <array>
#include <optional>

#include "apiserver/keys.h"
#include "apiserver/stored_object.h"
#include "controlplane/catalog/bound_schema.h"
#include "controlplane/catalog/cached_resources.h"
#include "controlplane/clusters/server_facts.h"
#include "controlplane/internal/names.h"
#include "krm/annotations.h"
#include "store/encryption/value_codec.h"

namespace kintsugi::controlplane {
namespace {

constexpr std::uint32_t kVersion = 1;

struct QuotaText {
  std::string_view name, words;
};
constexpr std::array<QuotaText, kQuotas> kTexts{{
    {"bytes", "bytes"},
    {"objects", "objects"},
    {"definitions", "CustomResourceDefinitions and bound schemas"},
    {"exports", "APIExports"},
    {"bindings", "APIBindings"},
    {"namespaces", "namespaces"},
    {"serviceaccounts", "ServiceAccounts"},
    {"children", "workspaces"},
    {"owned", "workspaces"},
}};

struct Counted {
  std::string_view resource;
  Quota quota;
};
constexpr Counted kCounted[] = {
    {"customresourcedefinitions.apiextensions.k8s.io", Quota::kDefinitions},
    {"apiexports.apis.kcp.io", Quota::kExports},
    {"apibindings.apis.kcp.io", Quota::kBindings},
    {"namespaces", Quota::kNamespaces},
    {"serviceaccounts", Quota::kServiceAccounts},
    {"workspaces.tenancy.kcp.io", Quota::kChildren},
};

/// Rows of the server's own, under groups that nobody can define anything in.
bool is_own_row(std::string_view resource) noexcept {
  const std::size_t dot = resource.find('.');
  const std::string_view group =
      dot == std::string_view::npos ? std::string_view() : resource.substr(dot + 1);
  return group == kFactsGroup || group == kinds::kReplicaGroup || group == kBoundGroup ||
         !offered_by(resource).empty();
}

bool is_free_object(const apiserver::KeyParts& parts) noexcept {
  return parts.resource == "events" || parts.resource == "logicalclusters.core.kcp.io" ||
         (parts.name == "workspace-admin" &&
          parts.resource == "clusterrolebindings.rbac.authorization.k8s.io");
}

/// "" where it is encrypted.
std::string_view text_of(std::string_view value) noexcept {
  if (value.starts_with(store::kSealedMark)) {
    return {};
  }
  const Expected<apiserver::StoredView> stored = apiserver::StoredView::parse(value);
  return stored ? stored->text() : std::string_view();
}

/// Elements of status.boundResources.
std::int64_t bound_resources(std::string_view text) noexcept {
  constexpr std::string_view kMember = "\"boundResources\":[";
  const std::size_t found = text.rfind(kMember);
  std::int64_t count = 0;
  if (found == std::string_view::npos) {
    return count;
  }
  std::size_t at = found + kMember.size();
  while (at < text.size() && text[at] == '{') {
    ++count;
    at = apiserver::skip_json_value(text, at);
    at += at < text.size() && text[at] == ',' ? 1U : 0U;
  }
  return count;
}

/// The beginning of the annotation that says whose workspace it is, up to the end of his name;
/// "": it does not say.
std::string_view owner_of(std::string_view text) noexcept {
  constexpr std::string_view kBegin = "\":\"";
  constexpr std::string_view kName = R"({\"username\":\")";
  const std::size_t found = text.find(krm::kOwnerAnnotation);
  const std::size_t begin = found + krm::kOwnerAnnotation.size() + kBegin.size();
  if (found == std::string_view::npos || begin > text.size() ||
      text.substr(begin - kBegin.size(), kBegin.size()) != kBegin ||
      !text.substr(begin).starts_with(kName)) {
    return {};
  }
  // JSON in a string of JSON: a quotation mark that the inner text escapes has three backslashes.
  for (std::size_t at = begin + kName.size(); at + 1 < text.size(); ++at) {
    if (text[at] != '\\') {
      continue;
    }
    if (text[at + 1] == '"') {
      return text.substr(begin, at - begin);
    }
    const bool escapes = text[at + 1] == '\\';  // of the inner text: with what follows
    at += escapes && at + 2 < text.size() && text[at + 2] == '\\' ? 3U : 1U;
  }
  return {};
}

void measure(std::string_view key, std::string_view value, store::BookEntry& out) noexcept {
  const std::optional<apiserver::KeyParts> parts = apiserver::parse_key(key);
  if (!parts || is_own_row(parts->resource)) {
    return;
  }
  store::BookEntry::Part& own = out.parts[out.used++];
  own.account = parts->cluster;
  own.sums[column_of(Quota::kBytes)] = static_cast<std::int64_t>(value.size());
  own.sums[column_of(Quota::kObjects)] = is_free_object(*parts) ? 0 : 1;
  for (const Counted& counted : kCounted) {
    if (counted.resource == parts->resource) {
      own.sums[column_of(counted.quota)] = 1;
      if (counted.quota == Quota::kBindings) {
        own.sums[column_of(Quota::kDefinitions)] = bound_resources(text_of(value));
      } else if (counted.quota == Quota::kChildren) {
        if (const std::string_view owner = owner_of(text_of(value)); !owner.empty()) {
          store::BookEntry::Part& owned = out.parts[out.used++];
          owned.account = owner;
          owned.sums[column_of(Quota::kOwned)] = 1;
        }
      }
      return;
    }
  }
}

}  // namespace

std::string_view quota_name(Quota quota) noexcept { return kTexts[column_of(quota)].name; }

std::string_view quota_words(Quota quota) noexcept { return kTexts[column_of(quota)].words; }

store::BookRules workspace_books() noexcept { return {measure, kVersion}; }

}  // namespace kintsugi::controlplane
