#include "proxy/gates/impersonation_gate.h"

#include <algorithm>
#include <array>
#include <utility>

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

}  // namespace

auth::ImpersonationPlace place_of(const krm::RequestTarget& target) noexcept {
  return target.is_shared ? auth::ImpersonationPlace::kShared : auth::ImpersonationPlace::kCluster;
}

auth::ImpersonationPlace place_of(std::string_view target) {
  return place_of(krm::parse_target("GET", target));
}

std::optional<Error> gate_impersonation(const http::HeaderList& headers,
                                        const serving::ConnectionIdentity* identity,
                                        auth::ImpersonationPlace place) {
  const auth::UserInfo* requester =
      identity != nullptr && identity->user ? &*identity->user : nullptr;
  auto wanted = auth::admit_impersonation(headers, requester, place);
  return wanted ? std::nullopt : std::optional<Error>(std::move(wanted.error()));
}

std::optional<Error> judge_impersonation_of(Request& request,
                                            const serving::ConnectionIdentity* identity,
                                            const topology::Snapshot& facts,
                                            std::string_view leads_to) {
  using auth::ImpersonationPlace;
  ImpersonationPlace place = ImpersonationPlace::kCluster;
  if (!leads_to.empty() || !has_plain_servers(facts)) {
    place = place_of(request.target);
    if (place == ImpersonationPlace::kCluster && !leads_to.empty()) {
      place = place_of(leads_to);
    }
  }
  if (request.judged && (*request.judged == place || place == ImpersonationPlace::kCluster)) {
    return std::nullopt;
  }
  std::optional<Error> error = gate_impersonation(request.head.headers, identity, place);
  if (!error) {
    request.judged = place;
  }
  return error;
}

void strip_internal_headers(http::HeaderList& headers) {
  headers.remove_if([](const http::HeaderView& field) { return is_internal(field.name); });
}

}  // namespace kintsugi::proxy
