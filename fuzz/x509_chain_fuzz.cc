// A client's certificates, each a length of two bytes and DER: nobody whom the CA has not signed is
// valid, whatever is in them, and one more or one less of others changes nothing.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "auth/x509_identity.h"
#include "fuzz/pieces.h"
#include "net/x509_maker.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kintsugi;  // NOLINT
  static const std::shared_ptr<const auth::CertificateVerifier> verifier = [] {
    const auto ca = net::make_ca("client-ca"), other = net::make_ca("request-header-ca");
    fuzz::check(ca.has_value() && other.has_value());
    auto made = auth::CertificateVerifier::make({ca->certificate_pem, other->certificate_pem});
    fuzz::check(made.has_value());
    return *made;
  }();
  std::vector<std::string> chain;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  while (text.size() > 2 && chain.size() < 12) {
    const std::size_t length = static_cast<std::size_t>(static_cast<unsigned char>(text[0])) << 8 |
                               static_cast<unsigned char>(text[1]);
    text.remove_prefix(2);
    chain.emplace_back(text.substr(0, length));
    text.remove_prefix(chain.back().size());
  }
  if (chain.empty()) {
    return 0;
  }
  for (const std::int64_t now : {std::int64_t{0}, std::int64_t{1'800'000'000}}) {
    const auth::CertificateIdentity identity = verifier->identify(chain, now);
    fuzz::check(!identity.valid);
    fuzz::check(!verifier->identify({chain.front()}, now).valid);
  }
  return 0;
}
