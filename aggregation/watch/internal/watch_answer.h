#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "aggregation/rights/permit.h"
#include "aggregation/watch/internal/watch_parts.h"
#include "base/error.h"
#include "base/time.h"
#include "http/handler.h"

/// What the client of a merged watch is told besides events. Threads: its loop.
namespace kintsugi::aggregation {

/// 200. @param permit  its rights, may be null. @param parts  whose warnings it gets
void send_watch_head(http::ResponseStream& down, std::string_view content_type,
                     const std::string& audit_id, const Permit* permit, const WatchParts& parts);
/// A shard's own Status is the answer.
void pass_status_on(http::ResponseStream& down, const http::ResponseHead& answer,
                    const std::string& body, const std::string& audit_id);
/// How long a watch lives. @param wished  [s] timeoutSeconds, 0: not said
[[nodiscard]] Duration watch_lifetime(std::int64_t wished);

/// @{ What a running stream is told of a shard that does not let it go on.
[[nodiscard]] Error refusal_of(const std::string& shard, const http::ResponseHead& head,
                               const std::string& body);
/// 504: it has not reached what was asked for.
[[nodiscard]] Error future_of(const http::ResponseHead& head, const std::string& body);  /// @}
[[nodiscard]] Error too_many_at_once();

}  // namespace kintsugi::aggregation
