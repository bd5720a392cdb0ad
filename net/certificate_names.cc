#include "net/certificate_names.h"

#include <arpa/inet.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <ctime>
#include <utility>

#include "net/openssl_memory.h"

namespace kintsugi::net {
namespace {

constexpr std::size_t kMostNames = 16;
constexpr std::size_t kLongestName = 253;  // of DNS

using NamesPtr = OpensslPtr<GENERAL_NAMES, GENERAL_NAMES_free>;

}  // namespace

std::vector<std::string> certificate_names(x509_st* certificate) {
  std::vector<std::string> out;
  const NamesPtr names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const one = sk_GENERAL_NAME_value(names.get(), i);
    const bool is_name = one->type == GEN_DNS;
    if ((!is_name && one->type != GEN_IPADD) || out.size() == kMostNames) {
      continue;
    }
    const ASN1_STRING* const value = is_name ? one->d.dNSName : one->d.iPAddress;
    std::string text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(value)),
                     static_cast<std::size_t>(ASN1_STRING_length(value)));
    std::array<char, INET6_ADDRSTRLEN> address{};
    if (is_name) {
      text.resize(std::min(text.size(), kLongestName));
      std::replace_if(
          text.begin(), text.end(), [](char c) { return c <= ' ' || c > '~'; }, '?');
      out.push_back(std::move(text));
    } else if ((text.size() == 4 || text.size() == 16) &&
               ::inet_ntop(text.size() == 4 ? AF_INET : AF_INET6, text.data(), address.data(),
                           address.size()) != nullptr) {
      out.emplace_back(address.data());
    }
  }
  return out;
}

std::int64_t certificate_end(const x509_st* certificate) noexcept {
  std::tm parts{};
  const bool is_known =
      certificate != nullptr && ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &parts) == 1;
  return is_known ? std::max<std::int64_t>(::timegm(&parts), 0) : 0;
}

}  // namespace kintsugi::net
