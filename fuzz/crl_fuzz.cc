// Files of revocation lists: taken with no more serial numbers than bytes, or refused with a cause.
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/pieces.h"
#include "net/revocation.h"
#include "net/x509_maker.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kintsugi;  // NOLINT
  static const std::string ca = [] {
    const auto made = net::make_ca("client-ca");
    fuzz::check(made.has_value());
    return made->certificate_pem;
  }();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const net::CrlRules rules : {net::CrlRules{true, false}, net::CrlRules{false, true}}) {
    const auto lists = net::RevocationLists::parse(text, ca, rules, 1'800'000'000);
    if (lists) {
      fuzz::check((*lists)->size() <= size);
    } else {
      fuzz::check(!lists.error().to_string().empty());
    }
  }
  return 0;
}
