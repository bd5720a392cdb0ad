#include "proxy/forwarding/open_bounds.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "krm/path_prefixes.h"
#include "serving/identity.h"
#include "serving/limited_request.h"
#include "serving/payer_bounds.h"

namespace kintsugi::proxy {
namespace {

using serving::LimitOf;
using serving::RequestLimiter;

/// Who pays for connections of which nobody is known (net::address_payer): worked out when one asks
/// for the first time, not for each of its requests. Shape: a fixed table by connection; who finds
/// another one in his place takes it.
class StrangerPayers {
 public:
  /// Valid until the next call.
  [[nodiscard]] const std::string& of(const http::PeerInfo& peer) {
    const auto number = reinterpret_cast<std::uintptr_t>(&peer) / sizeof(http::PeerInfo);
    Known& known = known_[number % known_.size()];
    if (known.payer.empty() || known.address != peer.address) {
      known.payer = net::address_payer(peer.address);
      known.address = peer.address;
    }
    return known.payer;
  }

 private:
  struct Known {
    std::string address, payer;
  };
  std::array<Known, 64> known_;
};
thread_local StrangerPayers strangers;  // of the thread's loop

/// Calls `charge` with the name of whoever pays, if he is bounded.
template <class Charge>
Expected<void> charge_payer(ForwardLoop& shared, const http::RequestHead& head,
                            const http::PeerInfo& peer, const Charge& charge) {
  const serving::ConnectionIdentity* identity = serving::identity_of(peer);
  if (identity != nullptr && identity->user &&
      !serving::is_bounded(serving::level_of(*identity->user))) {
    return {};
  }
  return charge(payer_of(shared, peer, head.headers).name);
}

}  // namespace

net::BodyPayer payer_of(const ForwardLoop& shared, const http::PeerInfo& peer,
                        const http::HeaderList& headers) {
  net::BodyPayer payer = serving::payer_of(peer);
  if (!payer.known) {
    if (std::string bearer = shared.bearers.payer(headers, shared.loop.now()); !bearer.empty()) {
      payer.name = std::move(bearer);
      payer.known = true;
    }
  }
  return payer;
}

serving::FairSeats::Who who_waits(const ForwardLoop& shared, const http::RequestHead& head,
                                  const http::PeerInfo& peer, net::BodyPayer& payer) {
  const serving::ConnectionIdentity* identity = serving::identity_of(peer);
  serving::FairSeats::Who who;
  who.level = serving::level_of(peer);
  if (identity != nullptr && identity->user && !identity->payer.empty()) {
    who.payer = identity->payer;
    if (shared.process_limits->is_distributed(identity->user->name)) {
      if (const std::string_view effective = head.headers.get("impersonate-user");
          !effective.empty()) {
        payer.name = serving::payer_on_behalf(who.payer, effective);
        who.payer = payer.name;
      }
    }
  } else if (identity != nullptr && identity->user) {
    payer = payer_of(shared, peer, head.headers);
    who.payer = payer.name;
    who.level =
        payer.known && who.level == serving::Level::kUnknown ? serving::Level::kTenant : who.level;
  } else if (payer.name = shared.bearers.payer(head.headers, shared.loop.now());
             !payer.name.empty()) {
    who.payer = payer.name;
    who.level = serving::Level::kTenant;
  } else {
    who.payer = strangers.of(peer);
  }
  who.cluster = head.target;
  who.cluster = who.cluster.substr(0, who.cluster.find('/', krm::kClustersPrefix.size()));
  return who;
}

Expected<void> admit_open(ForwardLoop& shared, RequestLimiter::Pass& pass,
                          const http::RequestHead& head, const http::PeerInfo& peer,
                          bool is_watch) {
  RequestLimiter& bounds = shared.process_limits->bounds();
  if (is_watch ? !bounds.limits(LimitOf::kPayer) && !bounds.limits(LimitOf::kResource)
               : !bounds.limits(LimitOf::kTunnels)) {
    return {};
  }
  return charge_payer(shared, head, peer, [&](std::string_view payer) {
    const std::string_view target = head.target;
    return is_watch ? serving::admit_watch(bounds, pass, payer, target.substr(0, target.find('?')),
                                           shared.loop.now())
                    : serving::admit_tunnel(bounds, pass, payer, shared.loop.now());
  });
}

Expected<void> admit_merged_read(ForwardLoop& shared, RequestLimiter::Pass& pass,
                                 const http::RequestHead& head, const http::PeerInfo& peer,
                                 std::size_t streams) {
  RequestLimiter& bounds = shared.process_limits->bounds();
  if (!bounds.limits(LimitOf::kMerged) && !bounds.limits(LimitOf::kMergedStreams)) {
    return {};
  }
  return charge_payer(shared, head, peer, [&](std::string_view payer) {
    return serving::admit_merged(bounds, pass, payer, static_cast<std::uint32_t>(streams),
                                 shared.loop.now());
  });
}

std::unique_ptr<http::RequestHandler> holding(std::unique_ptr<http::RequestHandler> answer,
                                              RequestLimiter::Pass&& pass) {
  if (pass.is_empty()) {
    return answer;
  }
  return std::make_unique<serving::LimitedRequest>(std::move(answer), std::move(pass));
}

}  // namespace kintsugi::proxy
