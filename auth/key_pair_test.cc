#include "auth/key_pair.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "net/openssl_memory.h"

namespace kintsugi::auth {
namespace {

using Key = net::OpensslPtr<EVP_PKEY, EVP_PKEY_free>;

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string out(data, static_cast<std::size_t>(size));
  BIO_free(bio);
  return out;
}

std::string pem_of(const Key& key) {
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return text_of(bio);
}

std::string certificate_of(const Key& key, const EVP_MD* digest) {
  X509* made = X509_new();
  X509_set_pubkey(made, key.get());
  X509_gmtime_adj(X509_getm_notBefore(made), 0);
  X509_gmtime_adj(X509_getm_notAfter(made), 60);
  X509_sign(made, key.get(), digest);
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, made);
  X509_free(made);
  return text_of(bio);
}

Key elliptic() { return Key(EVP_EC_gen("P-256")); }

TEST(KeyPair, WhenCertificateAndKeyFit_SaysNothing) {
  const Key key = elliptic();
  const std::string certificate = certificate_of(key, EVP_sha256());
  EXPECT_EQ(key_pair_fault(certificate, pem_of(key)), "");
  EXPECT_EQ(key_pair_fault("junk\n" + certificate, "-----BEGIN X-----\n!\n" + pem_of(key)), "");
  const Key edwards(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  EXPECT_EQ(key_pair_fault(certificate_of(edwards, nullptr), pem_of(edwards)), "");
  EXPECT_EQ(key_pair_fault(certificate, pem_of(edwards)),
            "tls: private key type does not match public key type");
  EXPECT_EQ(key_pair_fault(certificate, pem_of(elliptic())),
            "tls: private key does not match public key");
}

TEST(KeyPair, WhenTextsAreNoPem_SaysSoOfTheFirst) {
  const Key key = elliptic();
  const std::string certificate = certificate_of(key, EVP_sha256());
  EXPECT_EQ(key_pair_fault("", ""), "tls: failed to find any PEM data in certificate input");
  EXPECT_EQ(key_pair_fault(certificate, "x"), "tls: failed to find any PEM data in key input");
}

TEST(KeyPair, WhenTextsAreSwitched_SaysSo) {
  const Key key = elliptic();
  const std::string certificate = certificate_of(key, EVP_sha256());
  EXPECT_EQ(key_pair_fault(pem_of(key), certificate),
            "tls: failed to find certificate PEM data in certificate input, but did find a private "
            "key; PEM inputs may have been switched");
  EXPECT_EQ(key_pair_fault(certificate, certificate),
            "tls: found a certificate rather than a key in the PEM for the private key");
  const std::string other = "-----BEGIN X-----\nAAAA\n-----END X-----\n";
  EXPECT_EQ(key_pair_fault(other, pem_of(key)),
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM "
            "blocks of the following types: [X]");
  EXPECT_EQ(key_pair_fault(certificate, other + certificate),
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after "
            "skipping PEM blocks of the following types: [X CERTIFICATE]");
}

TEST(KeyPair, WhenBlocksHoldOtherThings_SaysSo) {
  const Key key = elliptic();
  EXPECT_EQ(
      key_pair_fault("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", pem_of(key)),
      "x509: malformed certificate");
  EXPECT_EQ(key_pair_fault(certificate_of(key, EVP_sha256()),
                           "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
            "tls: failed to parse private key");
}

}  // namespace
}  // namespace kintsugi::auth
