#include "server/token_program.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <utility>

#include "base/time.h"
#include "net/x509_maker.h"
#include "server/files.h"
#include "server/internal/join_service.h"
#include "server/internal/join_tokens.h"
#include "server/internal/pki.h"
#include "server/program.h"

namespace kintsugi::server {
namespace {

/// Of the CA that the joiner meets first: the issuer's.
Expected<std::string> pin_of(const Pki& pki) {
  auto issuer = pki.issuer("serving-ca");
  if (!issuer) {
    return fail(std::move(issuer.error()));
  }
  return net::public_key_hash(issuer->certificate_pem);
}

std::string state_of(const JoinToken& token, std::int64_t now) {
  if (token.used_at != 0) {
    return "used " + rfc3339(token.used_at);
  }
  return token.ends_at <= now ? "ended" : "good";
}

}  // namespace

int run_token_create(const TokenOptions& options) {
  const Pki pki(options.layout.pki());
  auto role = join_role_of(options.role);
  auto pin = role ? pin_of(pki) : Expected<std::string>(fail(role.error().clone()));
  if (!pin) {
    return complain("token create", pin.error());
  }
  JoinToken token;
  token.role = *role;
  token.name = options.name;
  token.hosts = options.hosts;
  token.ends_at = std::time(nullptr) + options.life;
  // Names and addresses that no certificate takes are found here, not when somebody joins.
  for (const JoinCertificate& one : certificates_of(token)) {
    auto issuer = pki.issuer(one.ca);
    auto tried = issuer ? net::issue(*issuer, one.request)
                        : Expected<net::KeyPair>(fail(issuer.error().clone()));
    if (!tried) {
      return complain("token create", tried.error());
    }
  }
  const auto text = JoinTokens(options.layout.pki()).create(token);
  if (!text) {
    return complain("token create", text.error());
  }
  std::printf("%s\n", text->c_str());
  std::fprintf(
      stderr,
      "Good once, until %s, for %s %s. There:\n\n"
      "  kintsugi join --server https://<address of --join-bind> --token-file <file with it> "
      "--ca-hash %s --dir DIR\n",
      rfc3339(token.ends_at).c_str(), options.role.c_str(), token.name.c_str(), pin->c_str());
  return 0;
}

int run_token_list(const Layout& layout) {
  const auto tokens = JoinTokens(layout.pki()).list();
  if (!tokens) {
    return complain("token list", tokens.error());
  }
  const std::int64_t now = std::time(nullptr);
  for (const JoinToken& token : *tokens) {
    std::printf("%s  %-14s  %-20s  until %s  %s\n", token.id.c_str(),
                std::string(name_of(token.role)).c_str(), token.name.c_str(),
                rfc3339(token.ends_at).c_str(), state_of(token, now).c_str());
  }
  return 0;
}

int run_token_revoke(const Layout& layout, const std::string& id) {
  if (auto revoked = JoinTokens(layout.pki()).revoke(id); !revoked) {
    return complain("token revoke", revoked.error());
  }
  std::printf("%s is revoked\n", id.c_str());
  return 0;
}

}  // namespace kintsugi::server
