#pragma once

#include <cstddef>
#include <memory>

#include "base/error.h"
#include "http/handler.h"
#include "proxy/forwarding/forward.h"
#include "serving/fair_seats.h"
#include "serving/request_limits.h"

namespace kintsugi::proxy {

/// What a payer may have open for long (SE-085, SE-086, SE-088) is asked for here. Servers and
/// operators of the installation are exempt. Cost without a bound: one load.

/// @param head  of a watch, or of an upgrade
/// @param is_watch  it is a watch, whatever carries it
/// @param pass  keeps its place, for as long as the stream is open
/// @error kTooManyRequests
[[nodiscard]] Expected<void> admit_open(ForwardLoop& shared, serving::RequestLimiter::Pass& pass,
                                        const http::RequestHead& head, const http::PeerInfo& peer,
                                        bool is_watch);
/// @param streams  to shards, that the read takes
[[nodiscard]] Expected<void> admit_merged_read(ForwardLoop& shared,
                                               serving::RequestLimiter::Pass& pass,
                                               const http::RequestHead& head,
                                               const http::PeerInfo& peer, std::size_t streams);
/// Whose turn a request waits for (SE-072). @param payer  what the result refers to, where the
/// connection does not say it
[[nodiscard]] serving::FairSeats::Who who_waits(const ForwardLoop& shared,
                                                const http::RequestHead& head,
                                                const http::PeerInfo& peer, net::BodyPayer& payer);
/// `answer` with what it holds.
[[nodiscard]] std::unique_ptr<http::RequestHandler> holding(
    std::unique_ptr<http::RequestHandler> answer, serving::RequestLimiter::Pass&& pass);

}  // namespace kintsugi::proxy
