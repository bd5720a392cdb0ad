#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "net/address_rules.h"
#include "net/server_credential.h"
#include "net/upstream.h"

namespace kintsugi::net {

/// "http://[user:password@]host[:port]", and with `bare` what names no scheme as well.
/// @error kConfig `only http://host:port is supported`; nothing of the text, which may have a
/// password.
[[nodiscard]] Expected<ServerCredential::Proxy> parse_proxy(std::string_view text, bool bare);

/// Which servers are reached through which HTTP proxy, as Go's http.ProxyFromEnvironment has it:
/// HTTPS_PROXY for https, HTTP_PROXY for http, neither for loopback and what NO_PROXY names
/// (FP-166). Threads: any; immutable.
class ProxyRules {
 public:
  ProxyRules() = default;  ///< no proxies
  /// @param no_proxy  entries with commas between: "*", "example.com" and below, ".example.com" and
  ///   "*.example.com" below alone, an address, a range ("10.0.0.0/8"); each but a range may have a
  ///   ":port". What is none of them counts for nothing.
  ProxyRules(std::string_view http_proxy, std::string_view https_proxy, std::string_view no_proxy);

  /// Null: directly. Lives as long as the rules.
  /// @error kUnreachable what is wrong with the proxy for this server: nobody goes directly there
  [[nodiscard]] Expected<const ServerCredential::Proxy*> pick(const Url& server) const;

 private:
  struct Way {
    bool set = false;
    std::string fault;  ///< of what the variable holds; "": none
    ServerCredential::Proxy proxy;
  };
  struct Address {
    AddressRange range;
    std::uint16_t port = 0;  ///< 0: each
  };
  struct Domain {
    std::string suffix;  ///< ".example.com"
    std::uint16_t port = 0;
    bool itself = false;  ///< "example.com", too
  };
  static Way way(std::string_view variable, std::string_view text);
  void except(std::string_view entry);
  [[nodiscard]] bool is_excepted(const Url& server) const;

  Way http_, https_;
  bool none_ = false;  ///< "*"
  std::vector<Address> addresses_;
  std::vector<Domain> domains_;
};

/// Of HTTP_PROXY, HTTPS_PROXY, NO_PROXY, or their lower case where these are empty; as they were
/// when it was first asked.
[[nodiscard]] const ProxyRules& environment_proxies();

}  // namespace kintsugi::net
