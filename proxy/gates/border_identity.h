#pragma once

#include "auth/certificate_proofs.h"
#include "auth/reserved_identity.h"

namespace kintsugi::proxy {

/// What is let in of the identities of client certificates: proxy_identities, without groups that
/// only the system gives, but for peers (KK-329, SE-052).
[[nodiscard]] auth::CertificateProofs::Kind at_border(auth::CertificateProofs::Kind kind,
                                                      auth::BorderRules rules);

}  // namespace kintsugi::proxy
