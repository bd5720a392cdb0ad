#include "aggregation/documents/internal/document_build.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "aggregation/documents/openapi_merge.h"
#include "krm/json.h"
#include "krm/protobuf.h"
#include "krm/yaml.h"

namespace kintsugi::aggregation {
namespace {

using krm::Json;
using Kind = DocumentRequest::Kind;

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kYaml = "application/yaml";

bool is_json(const KnownDocument& document) { return document.type.starts_with(kJson); }

/// Parts with other bytes than those before them; equal ones say nothing new.
std::vector<DocumentParts::Part> different(const std::vector<DocumentParts::Part>& parts) {
  std::unordered_set<std::string_view> fresh, stale;
  std::vector<DocumentParts::Part> out;
  for (const DocumentParts::Part& part : parts) {
    if ((part.stale ? stale : fresh).insert(part.document->digest).second) {
      out.push_back(part);
    }
  }
  return out;
}

std::string written(const std::string& type, const Json& document) {
  if (type == krm::kProtobufMediaType) {
    return krm::encode_protobuf(document).value_or(std::string());
  }
  return type == kYaml ? krm::to_yaml(document) : document.dump() + "\n";
}

/// "g" of "/apis/g/v".
std::string_view group_of(std::string_view path) {
  constexpr std::string_view kApis = "/apis/";
  path.remove_prefix(path.starts_with(kApis) ? kApis.size() : path.size());
  return path.substr(0, path.find('/'));
}

/// Whether a list of groups, versions or resources has an entry; others have.
bool has_entries(const Json& document) {
  for (const std::string_view list : {"groups", "versions", "resources"}) {
    if (const Json* entries = document.find(list)) {
      return entries->size() > 0;
    }
  }
  return true;
}

std::optional<BuiltDocument> build_discovery(const DocumentRequest& request,
                                             const DocumentParts& parts) {
  std::optional<Json> all;
  for (const DocumentParts::Part& part : different(parts.shards)) {
    Expected<Json> one = Json::parse(part.document->bytes.view());
    if (!one) {
      continue;
    }
    if (part.stale) {
      mark_stale(*one);
    }
    if (!all) {
      all = std::move(*one);
    } else if (!join_discovery(*all, *one, parts.join)) {
      return std::nullopt;
    }
  }
  if (parts.exported != nullptr) {
    Expected<Json> one = Json::parse(parts.exported->bytes.view());
    if (one) {
      keep_resources(*one, group_of(request.path), parts.is_exported);
    }
    if (one && !all) {
      all = std::move(*one);
    } else if (one) {
      (void)join_discovery(*all, *one, Join::kUnion);
    }
  }
  if (parts.local != nullptr) {
    Expected<Json> own = Json::parse(parts.local->bytes.view());
    if (own && !all) {
      all = std::move(*own);
    } else if (own && !merge_discovery(*all, *own)) {
      return std::nullopt;
    }
  }
  if (!all) {
    return std::nullopt;
  }
  BuiltDocument out;
  if (!parts.verbs.empty()) {
    keep_verbs(*all, parts.verbs);
    if (!parts.empty_versions.empty()) {
      drop_versions(*all, parts.empty_versions);
    }
    if (request.kind == Kind::kDiscovery && !has_entries(*all)) {
      return out;
    }
  }
  order_versions(*all);
  out.type = request.type;
  out.body = written(request.type, *all);
  out.etag = content_digest(out.body);
  return out;
}

std::optional<BuiltDocument> build_openapi_index(const DocumentRequest& request,
                                                 const DocumentParts& parts) {
  BuiltDocument out;
  std::optional<Json> all;
  for (const DocumentParts::Part& part : different(parts.shards)) {
    Expected<Json> one = Json::parse(part.document->bytes.view());
    if (one && !all) {
      all = std::move(*one);
    } else if (one) {
      out.differences += unite_openapi_index(*all, *one).value_or(0);
    }
  }
  if (all) {
    pass_openapi_hashes(*all);
  }
  if (parts.local != nullptr) {
    Expected<Json> own = Json::parse(parts.local->bytes.view());
    if (own && !all) {
      all = std::move(*own);
    } else if (own) {
      (void)merge_openapi_index(*all, *own);
    }
  }
  if (!all || all->find("paths") == nullptr) {
    return std::nullopt;
  }
  root_openapi_index(*all, parts.root);
  out.type = request.type;
  out.body = written(request.type, *all);
  out.etag = content_digest(out.body);
  return out;
}

/// The hash of its link in the index, which is made without the document.
std::string document_hash(const DocumentParts& parts) {
  const std::string own = parts.local == nullptr ? std::string() : parts.local->etag;
  if (parts.shards.empty()) {
    return own;
  }
  const std::string passed = passed_openapi_hash(parts.shards.front().document->etag);
  return parts.local == nullptr ? passed : merged_openapi_hash(passed, own);
}

std::optional<BuiltDocument> build_openapi_document(const DocumentParts& parts) {
  BuiltDocument out;
  out.etag = document_hash(parts);
  if (parts.shards.empty() && parts.local == nullptr) {
    return std::nullopt;
  }
  const KnownDocument& one = parts.shards.empty() ? *parts.local : *parts.shards.front().document;
  out.type = one.type;
  if (parts.shards.empty() || parts.local == nullptr || !is_json(one)) {
    out.body = one.bytes.view();
    return out;
  }
  Expected<Json> theirs = Json::parse(one.bytes.view());
  const Expected<Json> ours = Json::parse(parts.local->bytes.view());
  if (!theirs || !ours || !merge_openapi_document(*theirs, *ours)) {
    return std::nullopt;
  }
  out.body = theirs->dump();
  return out;
}

std::optional<BuiltDocument> build_openapi_v2(const DocumentParts& parts) {
  BuiltDocument out;
  for (const DocumentParts::Part& part : different(parts.shards)) {
    const KnownDocument& one = *part.document;
    if (out.type.empty()) {
      out.type = one.type;
      out.body = one.bytes.view();
    } else if (one.type == out.type) {
      const auto more = is_json(one) ? unite_openapi_v2_json(out.body, one.bytes.view())
                                     : unite_openapi_v2_protobuf(out.body, one.bytes.view());
      out.body = more.value_or(std::move(out.body));
    }
  }
  if (parts.local != nullptr && out.type.empty()) {
    out.type = parts.local->type;
    out.body = parts.local->bytes.view();
  } else if (parts.local != nullptr && parts.local->type == out.type) {
    const auto both = is_json(*parts.local)
                          ? merge_openapi_v2_json(out.body, parts.local->bytes.view())
                          : merge_openapi_v2_protobuf(out.body, parts.local->bytes.view());
    out.body = both.value_or(std::move(out.body));
  }
  out.etag = content_digest(out.body);
  return out.type.empty() ? std::nullopt : std::optional<BuiltDocument>(std::move(out));
}

std::optional<BuiltDocument> build_version(const DocumentParts& parts) {
  const KnownDocument* oldest = nullptr;
  for (const DocumentParts::Part& part : parts.shards) {
    const KnownDocument& one = *part.document;
    if (oldest == nullptr || is_older_server(one.bytes.view(), oldest->bytes.view())) {
      oldest = &one;
    }
  }
  if (oldest == nullptr) {
    return std::nullopt;
  }
  return BuiltDocument{{}, oldest->type, std::string(oldest->bytes.view()), 0};
}

}  // namespace

std::optional<BuiltDocument> build_document(const DocumentRequest& request,
                                            const DocumentParts& parts) {
  switch (request.kind) {
    case Kind::kGroups:
    case Kind::kDiscovery:
      return build_discovery(request, parts);
    case Kind::kOpenApiIndex:
      return build_openapi_index(request, parts);
    case Kind::kOpenApiDocument:
      return build_openapi_document(parts);
    case Kind::kOpenApiV2:
      return build_openapi_v2(parts);
    case Kind::kVersion:
      return build_version(parts);
    case Kind::kOther:
      break;
  }
  return std::nullopt;
}

std::string built_key(const DocumentRequest& request, const DocumentParts& parts) {
  std::string text;
  const auto put = [&text](std::string_view part) {
    (text += std::to_string(part.size())) += ':';
    text += part;
  };
  put(request.path);
  put(request.type);
  put(parts.root);
  put(parts.join == Join::kUnion ? "union" : "intersection");
  for (const std::string_view verb : parts.verbs) {
    put(verb);
  }
  put("shards");
  for (const DocumentParts::Part& part : parts.shards) {
    put(part.document->digest);
    put(part.document->etag);
    put(part.stale ? "stale" : "");
  }
  put("own");
  put(parts.local == nullptr ? "" : parts.local->digest);
  put(parts.exported == nullptr ? "" : parts.exported->digest);
  for (const std::string& version : parts.empty_versions) {
    put(version);
  }
  return "built:" + content_digest(text);
}

}  // namespace kintsugi::aggregation
