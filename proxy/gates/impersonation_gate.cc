#include "proxy/gates/impersonation_gate.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"

namespace kintsugi::proxy {
namespace {

constexpr std::array<std::string_view, 3> kInternal = {"x-kcp-internal-deep-subjectaccessreview",
                                                       "x-kubernetes-sharded-request",
                                                       "x-kcp-api-v1-discovery-passthrough"};

constexpr char folded(char c) noexcept {
  return c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_internal(std::string_view name) noexcept {
  return std::any_of(kInternal.begin(), kInternal.end(), [&](std::string_view known) {
    return std::equal(known.begin(), known.end(), name.begin(), name.end(),
                      [](char a, char b) { return a == folded(b); });
  });
}

/// Segments that are not empty, decoded once before they are split.
std::vector<std::string> segments_of(std::string_view target) {
  const std::string_view raw = target.substr(0, target.find('?'));
  const std::string path = percent_decode(raw).value_or(std::string(raw));
  std::vector<std::string> out;
  for (const std::string_view one : split(path, '/')) {
    if (!one.empty()) {
      out.emplace_back(one);
    }
  }
  return out;
}

}  // namespace

auth::ImpersonationPlace place_of(std::string_view target) {
  const std::vector<std::string> segments = segments_of(target);
  const auto at = [&](std::size_t i) {
    return i < segments.size() ? std::string_view(segments[i]) : std::string_view();
  };
  std::size_t i = 0;
  if (at(i) == "shards") {
    i += 2;
  } else if (at(i) == "partitions") {
    i += 3;
  }
  const bool shared = at(i) == "services" || (at(i) == "clusters" && at(i + 1) == "*");
  return shared ? auth::ImpersonationPlace::kShared : auth::ImpersonationPlace::kCluster;
}

std::optional<Error> gate_impersonation(const http::HeaderList& headers,
                                        const serving::ConnectionIdentity* identity,
                                        auth::ImpersonationPlace place) {
  const auth::UserInfo* requester =
      identity != nullptr && identity->user ? &*identity->user : nullptr;
  auto wanted = auth::admit_impersonation(headers, requester, place);
  return wanted ? std::nullopt : std::optional<Error>(std::move(wanted.error()));
}

void strip_internal_headers(http::HeaderList& headers) {
  headers.remove_if([](const http::HeaderView& field) { return is_internal(field.name); });
}

}  // namespace kintsugi::proxy
