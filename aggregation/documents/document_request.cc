#include "aggregation/documents/document_request.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "base/strings.h"
#include "krm/json.h"
#include "krm/protobuf.h"
#include "krm/request_info.h"
#include "krm/request_target.h"

namespace kintsugi::aggregation {
namespace {

using Kind = DocumentRequest::Kind;

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kYaml = "application/yaml";
constexpr std::string_view kAny = "*/*";
constexpr std::string_view kOpenApi = "/openapi/v3";

/// One alternative of an Accept header.
struct Clause {
  std::string type, as, group, version;
  double weight = 1;
};

Clause read_clause(std::string_view text) {
  Clause out;
  bool first = true;
  for (const std::string_view each : split(text, ';')) {
    const std::string_view part = trim(each);
    if (first) {
      out.type = to_lower(part);
      first = false;
      continue;
    }
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string_view name = trim(part.substr(0, equals));
    const std::string_view value = trim(part.substr(std::min(equals + 1, part.size())));
    if (name == "as") {
      out.as = value;
    } else if (name == "g") {
      out.group = value;
    } else if (name == "v") {
      out.version = value;
    } else if (name == "q") {
      out.weight =
          value.starts_with("0") && value.find_first_of("123456789") == value.npos ? 0 : out.weight;
      std::from_chars(value.data(), value.data() + value.size(), out.weight);
    }
  }
  if (out.type == "application/*") {
    out.type = kAny;
  }
  return out;
}

std::vector<Clause> read_accept(std::string_view accept) {
  std::vector<Clause> out;
  if (trim(accept).empty()) {
    out.push_back({std::string(kAny), {}, {}, {}, 1});
    return out;
  }
  for (const std::string_view each : split(accept, ',')) {
    if (Clause clause = read_clause(each); clause.weight > 0) {
      out.push_back(std::move(clause));
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Clause& a, const Clause& b) { return a.weight > b.weight; });
  return out;
}

bool is_aggregated(const Clause& clause) {
  return (clause.type == kJson || clause.type == kAny) && clause.as == "APIGroupDiscoveryList" &&
         clause.group == "apidiscovery.k8s.io" &&
         (clause.version == "v2" || clause.version == "v2beta1");
}

/// The type of an answer in its usual form; "": none.
std::string plain_type(const std::vector<Clause>& accept, bool json_only) {
  for (const Clause& clause : accept) {
    if (!clause.as.empty()) {
      continue;
    }
    if (clause.type == kAny || clause.type == kJson) {
      return std::string(kJson);
    }
    if (!json_only && (clause.type == kYaml || clause.type == krm::kProtobufMediaType)) {
      return clause.type;
    }
  }
  return {};
}

/// The first type of the client decides; the shards are asked for JSON and it is made of that.
void negotiate(DocumentRequest& request, const std::vector<Clause>& accept) {
  request.plain_type = plain_type(accept, request.kind == Kind::kOpenApiIndex);
  request.type = request.plain_type;
  request.accept = kJson;
  request.acceptable = !request.type.empty();
  if (request.kind != Kind::kGroups) {
    return;
  }
  for (const Clause& clause : accept) {
    if (clause.as.empty() && (clause.type == kAny || clause.type == request.type)) {
      return;
    }
    if (is_aggregated(clause)) {
      request.aggregated = request.acceptable = true;
      request.type = std::string(kJson) + ";g=apidiscovery.k8s.io;v=" + clause.version +
                     ";as=APIGroupDiscoveryList";
      request.accept = request.type + "," + std::string(kJson);
      return;
    }
  }
}

/// OpenAPI documents are passed on in the form that shards write.
void negotiate_openapi(DocumentRequest& request, const std::vector<Clause>& accept) {
  for (const Clause& clause : accept) {
    if (clause.type == kAny || clause.type == kJson ||
        clause.type.starts_with("application/com.github.proto-openapi")) {
      request.accept = clause.type == kAny ? std::string(kJson) : clause.type;
      return;
    }
  }
  request.acceptable = false;
}

Kind kind_of(std::string_view path) {
  if (path == "/api" || path == "/apis") {
    return Kind::kGroups;
  }
  if (path.starts_with("/api/") || path.starts_with("/apis/")) {
    return Kind::kDiscovery;
  }
  if (path == kOpenApi) {
    return Kind::kOpenApiIndex;
  }
  if (path.starts_with(std::string(kOpenApi) + '/')) {
    return Kind::kOpenApiDocument;
  }
  return path == "/openapi/v2" ? Kind::kOpenApiV2
         : path == "/version"  ? Kind::kVersion
                               : Kind::kOther;
}

/// "v1.36.0+kintsugi-0.1.0" as 1, 36, 0.
std::array<std::uint64_t, 3> numbers_of(std::string_view document) {
  std::array<std::uint64_t, 3> out{};
  const Expected<krm::Json> version = krm::Json::parse(document);
  const std::string text(version ? version->text({"gitVersion"}) : std::string_view());
  std::string_view rest = text;
  rest.remove_prefix(rest.starts_with('v') ? 1 : 0);
  for (std::uint64_t& number : out) {
    const char* end = rest.data() + rest.size();
    const auto [stop, code] = std::from_chars(rest.data(), end, number);
    if (code != std::errc() || stop == end || *stop != '.') {
      break;
    }
    rest.remove_prefix(static_cast<std::size_t>(stop - rest.data()) + 1);
  }
  return out;
}

}  // namespace

DocumentRequest read_document_request(std::string_view sent, std::string_view accept) {
  DocumentRequest out;
  const std::string canonical = krm::canonical_trail(sent);
  const std::string_view trail = canonical;
  const std::size_t question = std::min(trail.find('?'), trail.size());
  std::string_view path = trail.substr(0, question);
  while (path.size() > 1 && path.ends_with('/')) {
    path.remove_suffix(1);
  }
  out.path = path;
  out.kind = kind_of(path);
  switch (out.kind) {
    case Kind::kOpenApiDocument: {
      out.key = path.substr(kOpenApi.size() + 1);
      const krm::Query query(trail.substr(std::min(question + 1, trail.size())));
      if (const auto hash = query.get("hash")) {
        out.hash = std::string(*hash);
      }
      negotiate_openapi(out, read_accept(accept));
      break;
    }
    case Kind::kOpenApiV2:
      negotiate_openapi(out, read_accept(accept));
      break;
    case Kind::kVersion:
      out.accept = kJson;
      out.type = kJson;
      break;
    case Kind::kOther:
      break;
    default:
      negotiate(out, read_accept(accept));
  }
  return out;
}

bool names_tag(std::string_view if_none_match, std::string_view tag) noexcept {
  while (!if_none_match.empty()) {
    const std::size_t comma = std::min(if_none_match.find(','), if_none_match.size());
    const std::string_view one = trim(if_none_match.substr(0, comma));
    if (one == "*" || unquoted_tag(one) == tag) {
      return true;
    }
    if_none_match.remove_prefix(std::min(comma + 1, if_none_match.size()));
  }
  return false;
}

std::string_view unquoted_tag(std::string_view tag) noexcept {
  if (tag.starts_with("W/")) {
    tag.remove_prefix(2);
  }
  return tag.size() >= 2 && tag.front() == '"' && tag.back() == '"' ? tag.substr(1, tag.size() - 2)
                                                                    : std::string_view();
}

bool is_older_server(std::string_view a, std::string_view b) {
  return numbers_of(a) < numbers_of(b);
}

}  // namespace kintsugi::aggregation
