#pragma once

#include <string>

#include "http/handler.h"

namespace kintsugi::proxy {

/// Whose continue tokens of a merged list are (SE-166): the user who is known, never whom he
/// impersonates. Of a bearer that only a shard can judge: the account that it names, since accounts
/// get new tokens every hour, else the bearer itself. A claim that is not true helps nobody: no
/// shard answers its bearer.
[[nodiscard]] std::string token_payer(const http::RequestHead& head, const http::PeerInfo& peer);

}  // namespace kintsugi::proxy
