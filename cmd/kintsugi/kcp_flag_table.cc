// The command line of kcp-front-proxy (docs/kcp.md).
#include <span>

#include "cmd/kintsugi/kcp_flags.h"

namespace kintsugi::cmd {
namespace {

using enum KcpFlag::Type;

constexpr KcpFlag kShards[] = {
    {kText, "mapping-file", "FILE", "",
     "where requests of other paths go, and the CA and client pair of shards"},
    {kText, "root-kubeconfig", "FILE", "", "the root shard"},
    {kText, "shards-kubeconfig", "FILE", "", "credentials for every shard"},
    {kList, "shard-peer-kubeconfig", "FILE", "",
     "clusters whose admin virtual workspace shows the Shards; repeatable"},
    {kText, "backend-crl-file", "FILE", "", "revocation lists of the CAs of servers behind"},
    {kText, "root-directory", "DIR", ".kcp",
     "folder of what is made here: serving certificate, data"},
};

constexpr KcpFlag kListener[] = {
    {kText, "bind-address", "ADDRESS", "0.0.0.0",
     "where clients connect; blank, 0.0.0.0, :: are all addresses"},
    {kText, "secure-port", "PORT", "443", "where clients connect"},
    {kText, "cert-dir", "DIR", "",
     "where the serving certificate is made if none is named (default the root directory)"},
    {kText, "tls-cert-file", "FILE", "", "serving certificate"},
    {kText, "tls-private-key-file", "FILE", "", "its key"},
    {kRepeated, "tls-sni-cert-key", "PAIR", "",
     "certificate,key[:name,...] for clients that ask for a name; repeatable"},
    {kText, "tls-min-version", "VersionTLS10|VersionTLS11|VersionTLS12|VersionTLS13",
     "VersionTLS12", "lowest version of TLS"},
    {kList, "tls-cipher-suites", "LIST", "", "names of Go, for TLS 1.2"},
    {kList, "tls-curve-preferences", "LIST", "", "numbers of Go"},
    {kSwitch, "disable-http2-serving", "", "", "HTTP/1.1 only"},
    {kNumber, "http2-max-streams-per-connection", "N", "100", "streams of a connection; 0 is 100"},
    {kList, "cors-allowed-origins", "LIST", "",
     "regular expressions of origins that browsers may send"},
    {kText, "profiler-address", "ADDRESS", "", "admin listener, on loopback only"},
};

constexpr KcpFlag kCertificates[] = {
    {kText, "client-ca-file", "FILE", "", "client certificates of these CAs are identities"},
    {kText, "client-crl-file", "FILE", "", "revocation lists of these CAs"},
    {kText, "requestheader-client-ca-file", "FILE", "", "CA of proxies that may assert identities"},
    {kText, "requestheader-client-crl-file", "FILE", "", "its revocation lists"},
    {kText, "crl-stale", "refuse|warn", "refuse",
     "what an outdated revocation list means: refuse, or warn and count on"},
    {kSwitch, "crl-required", "", "false", "certificates count only if their CA has a list"},
    {kList, "requestheader-allowed-names", "LIST", "", "their common names; none: any"},
    {kList, "requestheader-username-headers", "LIST", "X-Remote-User", "their headers"},
    {kList, "requestheader-group-headers", "LIST", "X-Remote-Group", "their headers"},
    {kList, "requestheader-uid-headers", "LIST", "X-Remote-Uid", "their headers"},
    {kList, "requestheader-extra-headers-prefix", "LIST", "X-Remote-Extra-", "their headers"},
};

constexpr KcpFlag kTokens[] = {
    {kText, "token-auth-file", "FILE", "", "CSV: token,user,uid[,groups]"},
    {kText, "oidc-issuer-url", "URL", "", "issuer of OpenID Connect tokens"},
    {kText, "oidc-client-id", "ID", "", "audience of those tokens"},
    {kText, "oidc-ca-file", "FILE", "", "CA of the issuer's server"},
    {kText, "oidc-username-claim", "CLAIM", "sub", "user name"},
    {kText, "oidc-username-prefix", "TEXT", "", "before user names; - is none"},
    {kText, "oidc-groups-claim", "CLAIM", "", "groups"},
    {kText, "oidc-groups-prefix", "TEXT", "", "before groups"},
    {kList, "oidc-required-claim", "KEY=VALUE", "", "a claim that tokens must have; repeatable"},
    {kList, "oidc-signing-algs", "LIST", "RS256", "algorithms of signatures"},
    {kText, "authentication-config", "FILE", "",
     "AuthenticationConfiguration with issuers of tokens"},
    {kText, "authentication-token-webhook-config-file", "FILE", "",
     "kubeconfig of a server that reviews tokens"},
    {kText, "authentication-token-webhook-version", "v1beta1|v1", "v1beta1", "v1 or v1beta1"},
    {kDuration, "authentication-token-webhook-cache-ttl", "TIME", "2m0s",
     "so long an answer holds"},
    {kRepeated, "service-account-key-file", "FILE", "",
     "keys of ServiceAccount tokens; repeatable"},
    {kRepeated, "service-account-issuer", "URL", "https://kcp.default.svc",
     "issuer of ServiceAccount tokens; repeatable"},
    {kSwitch, "service-account-lookup", "", "true",
     "accounts must exist at the shard of their cluster"},
    {kList, "api-audiences", "LIST", "",
     "audiences of ServiceAccount tokens (default the issuers)"},
};

constexpr KcpFlag kGroups[] = {
    {kList, "authentication-pass-on-groups", "LIST", "",
     "groups that are passed on, exact or prefix*; none: all"},
    {kList, "authentication-drop-groups", "LIST",
     "system:masters,system:kcp:logical-cluster-admin,system:kcp:initializer:*,system:kcp:"
     "terminator:*",
     "groups that are never passed on"},
};

constexpr KcpFlag kAudit[] = {
    {kText, "audit-policy-file", "FILE", "",
     "Policy of audit.k8s.io/v1; none: every request, at level Metadata"},
    {kText, "audit-log-path", "FILE", "", "where audit events go; - is standard output"},
    {kNumber, "audit-log-maxsize", "N", "100", "megabytes, then the file is begun anew"},
    {kNumber, "audit-log-maxbackup", "N", "0", "old files that are kept; 0: all of them"},
    {kNumber, "audit-log-maxage", "N", "0", "days that they are kept; 0: for ever"},
    {kText, "audit-log-format", "FORMAT", "json", "json"},
    {kText, "audit-webhook-config-file", "FILE", "",
     "kubeconfig of the server that audit events are posted to, in batches"},
};

constexpr KcpFlag kLog[] = {
    {kNumber, "v", "N", "2", "4 and more: log level debug"},
    {kText, "logging-format", "FORMAT", "text", "accepted: JSON, or text on a terminal"},
    {kList, "feature-gates", "LIST", "", "name=true or false, separated by commas"},
};

/// Of command lines that work at kcp: nothing comes of them.
constexpr struct {
  KcpFlag::Type type;
  std::string_view name, argument, default_text;
} kAccepted[] = {
    {kSwitch, "permit-port-sharing", "", ""},
    {kSwitch, "permit-address-sharing", "", ""},
    {kText, "service-account-jwks-uri", "URL", ""},
    {kSwitch, "service-account-extend-token-expiration", "", ""},
    {kDuration, "service-account-max-token-expiration", "TIME", ""},
    {kText, "vmodule", "LIST", ""},
    {kDuration, "log-flush-frequency", "TIME", "5s"},
    {kText, "log-json-info-buffer-size", "SIZE", ""},
    {kSwitch, "log-json-split-stream", "", ""},
    {kText, "log-text-info-buffer-size", "SIZE", ""},
    {kSwitch, "log-text-split-stream", "", ""},
};

constexpr struct {
  std::string_view title;
  std::span<const KcpFlag> flags;
} kSections[] = {{"Shards", kShards},
                 {"Listener", kListener},
                 {"Client certificates", kCertificates},
                 {"Tokens", kTokens},
                 {"Groups of callers", kGroups},
                 {"Audit", kAudit},
                 {"Log and features", kLog}};

std::vector<KcpFlag> all_flags() {
  std::vector<KcpFlag> all;
  for (const auto& [title, flags] : kSections) {
    for (KcpFlag flag : flags) {
      flag.group = title;
      all.push_back(flag);
    }
  }
  for (const auto& flag : kAccepted) {
    all.push_back({flag.type, flag.name, flag.argument, flag.default_text,
                   "accepted, changes nothing", "For command lines of kcp"});
  }
  return all;
}

}  // namespace

const std::vector<KcpFlag>& kcp_flags() {
  static const std::vector<KcpFlag> table = all_flags();
  return table;
}

}  // namespace kintsugi::cmd
