#pragma once

#include <string>
#include <string_view>

namespace kintsugi {

/// A text that leaves the installation, such as a log in a support bundle, without what may be
/// secret in it; "***" stands in its place (OP-305):
///
///   private keys in PEM; JSON Web Tokens; what follows `Bearer` and `Basic`; users and passwords
///   in URLs; values of fields that are named like a secret (`password=x`, `"token": "x"`); values
///   of queries, but of those that the API has for reading (`watch`, `limit`, selectors, versions)
///
/// It is the second line of defence: nothing of this is logged in the first place (SE-165).
/// Cost: one pass for each kind. Threads: any.
[[nodiscard]] std::string masked_text(std::string_view text);

}  // namespace kintsugi
