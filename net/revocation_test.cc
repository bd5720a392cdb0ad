#include "net/revocation.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>

#include "net/openssl_memory.h"
#include "net/x509_maker.h"

namespace kintsugi::net {
namespace {

using CertificatePtr = OpensslPtr<X509, X509_free>;
using KeyPtr = OpensslPtr<EVP_PKEY, EVP_PKEY_free>;
using BioPtr = OpensslPtr<BIO, BIO_free_all>;
using CrlPtr = OpensslPtr<X509_CRL, X509_CRL_free>;
using TimePtr = OpensslPtr<ASN1_TIME, ASN1_TIME_free>;

/// A list of the CA with serial numbers of 16 bytes: 1 to `count` in the first eight of them.
std::string list_of(const KeyPair& ca, std::uint64_t count) {
  const BioPtr certificate_in(BIO_new_mem_buf(ca.certificate_pem.data(), -1));
  const BioPtr key_in(
      BIO_new_mem_buf(ca.key_pem.view().data(), static_cast<int>(ca.key_pem.size())));
  const CertificatePtr issuer(PEM_read_bio_X509(certificate_in.get(), nullptr, nullptr, nullptr));
  const KeyPtr key(PEM_read_bio_PrivateKey(key_in.get(), nullptr, nullptr, nullptr));
  const CrlPtr list(X509_CRL_new());
  const TimePtr from(ASN1_TIME_adj(nullptr, std::time(nullptr) - 60, 0, 0));
  const TimePtr until(ASN1_TIME_adj(nullptr, std::time(nullptr), 1, 0));
  X509_CRL_set_version(list.get(), 1);
  X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(issuer.get()));
  X509_CRL_set1_lastUpdate(list.get(), from.get());
  X509_CRL_set1_nextUpdate(list.get(), until.get());
  for (std::uint64_t i = 1; i <= count; ++i) {
    unsigned char bytes[16] = {};
    for (int at = 0; at < 8; ++at) {
      bytes[at] = static_cast<unsigned char>(i >> (56 - 8 * at));
    }
    bytes[0] = 0x40;  // all of one length
    bytes[15] = 1;
    X509_REVOKED* one = X509_REVOKED_new();
    ASN1_INTEGER* serial = ASN1_INTEGER_new();
    ASN1_STRING_set(serial, bytes, sizeof bytes);
    X509_REVOKED_set_serialNumber(one, serial);
    X509_REVOKED_set_revocationDate(one, from.get());
    ASN1_INTEGER_free(serial);
    X509_CRL_add0_revoked(list.get(), one);
  }
  X509_CRL_sign(list.get(), key.get(), EVP_sha256());
  const BioPtr out(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509_CRL(out.get(), list.get());
  char* data = nullptr;
  const long size = BIO_get_mem_data(out.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

std::size_t in_use() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

Errc code_of(std::string_view pem, std::string_view ca_pem) {
  const auto lists = RevocationLists::parse(pem, ca_pem, {}, std::time(nullptr));
  return lists ? Errc::kOk : lists.error().code();
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCountsMemory = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kCountsMemory = false;
#else
constexpr bool kCountsMemory = true;
#endif
#else
constexpr bool kCountsMemory = true;
#endif

TEST(Revocation, SE_T020_AMillionSerialsStayBelow64MiB) {
  if (!kCountsMemory) {
    GTEST_SKIP() << "sanitizers have an allocator of their own";
  }
  constexpr std::uint64_t kCount = 1'000'000;
  const auto ca = make_ca("crl");
  ASSERT_TRUE(ca);
  const std::string pem = list_of(*ca, kCount);
  ASSERT_LE(pem.size(), std::size_t{64} << 20);
  const std::size_t before = in_use();
  const auto lists = RevocationLists::parse(pem, ca->certificate_pem, {}, std::time(nullptr));
  ASSERT_TRUE(lists) << lists.error().to_string();
  EXPECT_EQ((*lists)->size(), kCount);
  const std::size_t kept = in_use() - before;
  std::printf("%zu bytes of PEM, %zu kept\n", pem.size(), kept);
  EXPECT_LE(kept, std::size_t{64} << 20);
  EXPECT_GE(kept, kCount * 16) << "it has them all";
}

TEST(Revocation, SE_141_WhatIsBrokenOrNotSignedIsRefused) {
  const auto ca = make_ca("crl"), other = make_ca("crl");
  ASSERT_TRUE(ca && other);
  const std::string pem = list_of(*ca, 3);
  EXPECT_EQ(code_of(pem, ca->certificate_pem), Errc::kOk);
  EXPECT_EQ(code_of(pem, other->certificate_pem), Errc::kConfig) << "in its name, not its key";
  EXPECT_EQ(code_of("", ca->certificate_pem), Errc::kConfig);
  EXPECT_EQ(code_of(pem.substr(0, pem.size() / 2), ca->certificate_pem), Errc::kConfig);
  std::string changed = pem;
  char& byte = changed[pem.size() / 2];
  byte = byte == 'A' ? 'B' : 'A';
  EXPECT_EQ(code_of(changed, ca->certificate_pem), Errc::kConfig);
  EXPECT_EQ(code_of(pem + changed, ca->certificate_pem), Errc::kConfig) << "whole or not at all";
  const auto early =
      RevocationLists::parse(pem, ca->certificate_pem, {}, std::time(nullptr) - 3600);
  EXPECT_FALSE(early) << "it is not in force yet";
}

}  // namespace
}  // namespace kintsugi::net
