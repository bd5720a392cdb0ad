#pragma once

#include "auth/sealed_token.h"

namespace kintsugi::apiserver {

class ApiServer;

/// What continue tokens of a server's lists are sealed with from now on (SE-166): the first key;
/// all of them open tokens, and one whose key is none of them is answered 410. All servers that
/// answer for one store get the same. Without this call: a key that the process made at its start.
/// @param keys  one at least
void seal_continue_tokens(ApiServer& server, auth::TokenKeys keys);

}  // namespace kintsugi::apiserver
