#include "proxy/admin/admin_gate.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "auth/user.h"
#include "auth/x509_identity.h"
#include "base/digest.h"
#include "base/strings.h"
#include "krm/status.h"
#include "proxy/console/console.h"
#include "proxy/console/console_answer.h"
#include "serving/answer.h"

namespace kintsugi::proxy {
namespace {

std::string digest_of(std::string_view text) {
  const auto digest = sha256(text);
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

/// Takes as long wherever they differ.
bool equal(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0U : 1U;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

bool is_administrator(const auth::CertificateIdentity& identity) {
  const auto has = [&identity](std::string_view group) {
    const auto& groups = identity.organizations;
    return std::find(groups.begin(), groups.end(), group) != groups.end();
  };
  return identity.valid && identity.from_client_ca &&
         (has(auth::kGroupKcpAdmin) || has(auth::kGroupMasters));
}

/// A name that no other site can give this machine (OP-703).
bool is_loopback(std::string_view authority) {
  if (authority.starts_with('[')) {
    const std::size_t end = authority.find(']');
    return authority.substr(0, end) == "[::1" &&
           (authority.size() == end + 1 || authority[end + 1] == ':');
  }
  const std::string_view host = authority.substr(0, authority.find(':'));
  return equals_ignore_case(host, "localhost") ||
         (host.starts_with("127.") &&
          host.find_first_not_of("0123456789.") == std::string_view::npos);
}

}  // namespace

AdminGate::AdminGate(std::string_view token, http::Handler& inner)
    : digest_(token.empty() ? std::string() : digest_of(token)), inner_(inner) {}

std::unique_ptr<http::RequestHandler> AdminGate::on_request(http::RequestHead head,
                                                            http::ResponseStream& stream) noexcept {
  const std::string_view path = std::string_view(head.target).substr(0, head.target.find('?'));
  if (Console::has(path)) {
    if (!is_loopback(head.authority)) {
      return console_error(head, stream, 421, "the console is at a loopback address only");
    }
    if (Console::is_public(path)) {
      return inner_.on_request(std::move(head), stream);
    }
  }
  constexpr std::string_view kBearer = "bearer ";
  const auth::CertificateIdentity* identity = auth::certificate_of(stream.peer());
  if (identity != nullptr && is_administrator(*identity)) {
    return inner_.on_request(std::move(head), stream);
  }
  const std::string_view given = head.headers.get("authorization");
  const bool bearer = equals_ignore_case(given.substr(0, kBearer.size()), kBearer);
  if (!digest_.empty() && bearer && equal(digest_of(given.substr(kBearer.size())), digest_)) {
    return inner_.on_request(std::move(head), stream);
  }
  const bool known = identity != nullptr && identity->valid;
  return serving::answer_error(
      head, stream, known ? Error(Errc::kForbidden, "administrators only") : krm::unauthorized());
}

}  // namespace kintsugi::proxy
