#include "proxy/gates/impersonate.h"

#include <string>
#include <utility>

#include "auth/impersonation_gate.h"
#include "krm/status.h"
#include "serving/identity.h"

namespace kintsugi::proxy {
namespace {

constexpr std::string_view kFrom = "x-remote-";
constexpr std::string_view kTo = "impersonate-";

}  // namespace

std::optional<Error> judge_impersonation(const http::RequestHead& head,
                                         const http::PeerInfo& peer) {
  const serving::ConnectionIdentity* identity = serving::identity_of(peer);
  if (identity == nullptr || !identity->user) {
    return krm::unauthorized();
  }
  for (std::size_t i = 0; i < head.headers.size(); ++i) {
    if (auth::is_impersonation_header(head.headers[i].name)) {
      return Error(Errc::kForbidden, "impersonation is not offered for this logical cluster");
    }
  }
  return std::nullopt;
}

void impersonate(http::HeaderList& headers, std::string_view authorization) {
  http::HeaderList out;
  for (std::size_t i = 0; i < headers.size(); ++i) {
    const http::HeaderView field = headers[i];
    if (field.name.starts_with(kFrom)) {
      out.add(std::string(kTo) + std::string(field.name.substr(kFrom.size())), field.value);
    } else if (field.name != "authorization") {
      out.add(field.name, field.value);
    }
  }
  if (!authorization.empty()) {
    out.add("authorization", authorization);
  }
  headers = std::move(out);
}

}  // namespace kintsugi::proxy
