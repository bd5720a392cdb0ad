#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "http/headers.h"
#include "net/internal/dialer.h"
#include "net/internal/outgoing_budget.h"
#include "net/internal/outgoing_target.h"
#include "net/loop.h"
#include "net/proxy_rules.h"
#include "net/upstream.h"

namespace kintsugi::net {

/// What all loops of a process share. Either may be missing: then the defaults hold.
struct OutgoingPolicy {
  std::shared_ptr<const OutgoingJudge> judge;
  std::shared_ptr<OutgoingBudget> budget;
  std::shared_ptr<OwnAddresses> own;
  std::shared_ptr<const ProxyRules> proxies;  ///< null: those of the environment
};
/// @error kConfig what is wrong with the rules.
[[nodiscard]] Expected<OutgoingPolicy> make_outgoing_policy(const OutgoingRules& rules);

/// A request that is made because an object of a tenant says so.
struct OutgoingRequest {
  std::string cluster;  ///< whose object; it is charged
  std::string url;
  std::string query;   ///< appended to the URL's path ("?timeout=30s")
  std::string ca_pem;  ///< that must have issued the server's certificate; "": the machine's
  std::string method = "GET";
  http::HeaderList headers;
  std::string body;
  Duration timeout = seconds(10);   ///< from send() to the last byte
  std::size_t max_body = 1U << 20;  ///< of the answer
  /// What nobody guesses, and an answer 200 repeats when its server understood the question: then
  /// the server is proven (outgoing_budget.h). "": no answer proves anything.
  std::string echo;
};
/// An answer 200.
struct OutgoingAnswer {
  std::string body;
};

/// @{ All that a tenant hears of a failure (SE-108): nothing of the answer, no address. Refused,
/// reset and timed out read alike and come a second after the start at the earliest.
inline constexpr std::string_view kUrlNotAllowed = "the URL is not allowed";
inline constexpr std::string_view kNotReached = "the server could not be reached";
inline constexpr std::string_view kNotVerified = "the certificate could not be verified";
inline constexpr std::string_view kNotUnderstood = "the answer was not understood";
/// "the server answered 302".
[[nodiscard]] std::string server_answered(int status);
/// @}

/// The one client for what tenants' objects name: conversion webhooks, issuers of tokens and where
/// their keys are. Source: SE-103 to SE-108. It resolves names itself, on threads of its own,
/// judges every answer before it dials, dials only what was judged, keeps connections for 5 minutes
/// at most, follows no redirect, shows no certificate and no token of ours. A proxy of the
/// environment is told the judged address, never the name; it is left out where NO_PROXY names
/// either, and for loopback. Causes go to the log. Threads: its loop.
class Outgoing {
 public:
  using Answers = std::function<void(Expected<std::vector<SocketAddress>>)>;
  /// Resolves a name; `done` comes in a later turn, not after the returned handle is gone.
  using Resolve = std::function<std::shared_ptr<void>(Loop& loop, const std::string& cluster,
                                                      const std::string& host, std::uint16_t port,
                                                      Answers done)>;
  using Done = std::function<void(Expected<OutgoingAnswer>)>;

  /// @param resolve  empty: the system's resolver.
  explicit Outgoing(Loop& loop, OutgoingPolicy policy = {}, Resolve resolve = {});
  /// Calls may outlive it.
  ~Outgoing();
  Outgoing(const Outgoing&) = delete;
  Outgoing& operator=(const Outgoing&) = delete;

  /// `done` comes once, in a later turn, unless the call is destroyed before.
  /// @error kForbidden, kUnreachable, kTls, kProtocol with one of the texts above.
  [[nodiscard]] std::unique_ptr<Call> send(OutgoingRequest request, Done done);

 private:
  class Core;
  class Exchange;
  class Handle;
  std::shared_ptr<Core> core_;
};

/// The system's resolver on up to 16 threads, of which one cluster has at most two: a name server
/// that does not answer holds up those who name it.
[[nodiscard]] Outgoing::Resolve system_resolver();

}  // namespace kintsugi::net
