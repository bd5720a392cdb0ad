#include "cmd/kintsugi/revocation_flags.h"

#include "server/files.h"

namespace kintsugi::cmd {
namespace {

std::string absolute_or_none(const std::string& path) {
  return path.empty() ? path : server::absolute_path(path);
}

}  // namespace

std::vector<Flag> revocation_flags(RevocationOptions& options) {
  return {
      {"client-crl-file", "FILE", "", "revocation lists of the installation's client CA",
       into(options.client)},
      {"requestheader-client-crl-file", "FILE", "", "the same of its request-header CA",
       into(options.request_header)},
      {"backend-crl-file", "FILE", "", "the same of the CA of shards", into(options.backend)},
      {"crl-stale", "refuse|warn", "refuse",
       "what an outdated revocation list means: refuse, or warn and count on", into(options.stale)},
      {"crl-required", "", "", "certificates count only if their CA has a list",
       into(options.required)}};
}

Expected<server::ShardRevocations> understood_revocations(const RevocationOptions& options) {
  if (options.stale != "refuse" && options.stale != "warn") {
    return fail(Errc::kConfig, "--crl-stale: \"" + options.stale + "\" is neither refuse nor warn");
  }
  if (options.required && options.client.empty() && options.request_header.empty() &&
      options.backend.empty()) {
    return fail(Errc::kConfig, "--crl-required: needs a file of revocation lists");
  }
  return server::ShardRevocations{absolute_or_none(options.client),
                                  absolute_or_none(options.request_header),
                                  absolute_or_none(options.backend),
                                  {options.stale == "refuse", options.required}};
}

}  // namespace kintsugi::cmd
