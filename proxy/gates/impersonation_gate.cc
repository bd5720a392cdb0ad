#include "proxy/gates/impersonation_gate.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "serving/fair_seats.h"

namespace kintsugi::proxy {
namespace {

constexpr std::array<std::string_view, 4> kInternal = {
    "x-kcp-internal-deep-subjectaccessreview", "x-kubernetes-sharded-request",
    "x-kcp-api-v1-discovery-passthrough", serving::kWaitedHeader};

constexpr char folded(char c) noexcept {
  return c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_internal(std::string_view name) noexcept {
  return std::any_of(kInternal.begin(), kInternal.end(), [&](std::string_view known) {
    return std::equal(known.begin(), known.end(), name.begin(), name.end(),
                      [](char a, char b) { return a == folded(b); });
  });
}

/// As the words stand there.
bool is_shared(const krm::RequestTarget& target, std::string_view text) {
  using krm::TargetForm;
  if (target.form == TargetForm::kCluster) {
    return target.cluster == "*";
  }
  const bool bare = target.scope != krm::TargetScope::kNone &&
                    text.substr(target.inner, target.query - target.inner) == "/services";
  return bare || target.word == krm::TargetWord::kServices || target.form == TargetForm::kService ||
         target.form == TargetForm::kNoService;
}

}  // namespace

auth::ImpersonationPlace place_of(const krm::RequestTarget& target, std::string_view text) {
  bool shared = is_shared(target, text);
  if (!shared && target.fault == krm::TargetFault::kUnclean) {
    shared = is_shared(krm::parse_target("GET", target.reason), target.reason);
  } else if (!shared && text.substr(0, target.query).find('%') != std::string_view::npos) {
    const std::string plain = krm::shown_path(text);
    shared = is_shared(krm::parse_target("GET", plain), plain);
  }
  return shared ? auth::ImpersonationPlace::kShared : auth::ImpersonationPlace::kCluster;
}

auth::ImpersonationPlace place_of(std::string_view text) {
  return place_of(krm::parse_target("GET", text), text);
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
    place = place_of(request.target, request.head.target);
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
