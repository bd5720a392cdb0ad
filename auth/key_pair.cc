#include "auth/key_pair.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "net/openssl_memory.h"

namespace kintsugi::auth {
namespace {

constexpr std::string_view kCertificate = "CERTIFICATE";

using CertificatePtr = net::OpensslPtr<X509, X509_free>;
using KeyPtr = net::OpensslPtr<EVP_PKEY, EVP_PKEY_free>;

struct Block {
  std::string type, der;
};

/// What stands between the lines of a block, without headers.
std::string decoded(std::string_view body) {
  for (std::size_t end = body.find('\n'); body.substr(0, end).find(':') != std::string_view::npos;
       end = body.find('\n')) {
    body.remove_prefix(end == std::string_view::npos ? body.size() : end + 1);
  }
  std::string text(body);
  std::erase_if(text, [](char c) { return c == '\n' || c == '\r' || c == ' ' || c == '\t'; });
  return base64_decode(text).value_or(std::string());
}

/// The blocks of a PEM text; what is no block, or a broken one, is passed over.
std::vector<Block> read_blocks(std::string_view pem) {
  constexpr std::string_view kBegin = "-----BEGIN ", kEnd = "\n-----END ", kDashes = "-----";
  std::vector<Block> out;
  std::size_t end = 0;  // the next last line of a block, looked for once
  for (std::size_t at = pem.find(kBegin); at != std::string_view::npos; at = pem.find(kBegin, at)) {
    const std::size_t line = pem.find('\n', at);
    if (line == std::string_view::npos) {
      break;
    }
    const std::string_view first = pem.substr(at, pem.find_last_not_of(" \t\r\n", line) + 1 - at);
    const bool starts_line = at == 0 || pem[at - 1] == '\n';
    at = line;
    if (end < at) {
      end = pem.find(kEnd, at);
    }
    if (end == std::string_view::npos) {
      break;
    }
    if (!starts_line || !first.ends_with(kDashes) ||
        first.size() < kBegin.size() + kDashes.size()) {
      continue;
    }
    const std::string_view type =
        first.substr(kBegin.size(), first.size() - kBegin.size() - kDashes.size());
    const std::string_view last = pem.substr(end + kEnd.size(), type.size() + kDashes.size());
    if (last.starts_with(type) && last.ends_with(kDashes) &&
        last.size() == type.size() + kDashes.size()) {
      out.push_back({std::string(type), decoded(pem.substr(line, end - line))});
      at = end + kEnd.size();
    }
  }
  return out;
}

std::string types_of(const std::vector<Block>& blocks) {
  std::vector<std::string> types;
  for (const Block& block : blocks) {
    types.push_back(block.type);
  }
  return "[" + join(types, " ") + "]";
}

bool is_known(int type) {
  return type == EVP_PKEY_RSA || type == EVP_PKEY_EC || type == EVP_PKEY_ED25519;
}

std::string match_fault(const std::string& certificate_der, const std::string& key_der) {
  const unsigned char* at = net::openssl_bytes(certificate_der);
  const CertificatePtr certificate(
      d2i_X509(nullptr, &at, static_cast<long>(certificate_der.size())));
  if (certificate == nullptr) {
    return "x509: malformed certificate";
  }
  at = net::openssl_bytes(key_der);
  const KeyPtr key(d2i_AutoPrivateKey(nullptr, &at, static_cast<long>(key_der.size())));
  if (key == nullptr) {
    return "tls: failed to parse private key";
  }
  const int key_type = EVP_PKEY_get_base_id(key.get());
  if (!is_known(key_type)) {
    return "tls: found unknown private key type in PKCS#8 wrapping";
  }
  EVP_PKEY* named = X509_get0_pubkey(certificate.get());
  const int named_type = named == nullptr ? EVP_PKEY_NONE : EVP_PKEY_get_base_id(named);
  if (!is_known(named_type)) {
    return "tls: unknown public key algorithm";
  }
  if (named_type != key_type) {
    return "tls: private key type does not match public key type";
  }
  return EVP_PKEY_eq(named, key.get()) == 1 ? "" : "tls: private key does not match public key";
}

}  // namespace

std::string key_pair_fault(std::string_view certificates, std::string_view key) {
  const std::vector<Block> given = read_blocks(certificates);
  const auto certificate = std::find_if(
      given.begin(), given.end(), [](const Block& block) { return block.type == kCertificate; });
  if (certificate == given.end()) {
    if (given.empty()) {
      return "tls: failed to find any PEM data in certificate input";
    }
    if (given.size() == 1 && given[0].type.ends_with("PRIVATE KEY")) {
      return "tls: failed to find certificate PEM data in certificate input, but did find a "
             "private key; PEM inputs may have been switched";
    }
    return "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM "
           "blocks of the following types: " +
           types_of(given);
  }
  const std::vector<Block> keys = read_blocks(key);
  const auto found = std::find_if(keys.begin(), keys.end(), [](const Block& block) {
    return block.type == "PRIVATE KEY" || block.type.ends_with(" PRIVATE KEY");
  });
  if (found == keys.end()) {
    if (keys.empty()) {
      return "tls: failed to find any PEM data in key input";
    }
    if (keys.size() == 1 && keys[0].type == kCertificate) {
      return "tls: found a certificate rather than a key in the PEM for the private key";
    }
    return "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after "
           "skipping PEM blocks of the following types: " +
           types_of(keys);
  }
  std::string fault = match_fault(certificate->der, found->der);
  ERR_clear_error();
  return fault;
}

}  // namespace kintsugi::auth
