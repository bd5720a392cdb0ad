#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

/// Certificates and revocation lists for tests.
namespace kintsugi::auth::testing {

inline constexpr std::int64_t kNow = 1'800'000'000;

/// A certificate and its key, made for one test.
struct Made {
  X509* certificate = nullptr;
  EVP_PKEY* key = nullptr;
  Made() = default;
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
  ~Made() {
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  std::string pem() const {
    BIO* bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(bio, certificate);
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    std::string out(data, static_cast<std::size_t>(size));
    BIO_free(bio);
    return out;
  }
  std::string der() const {
    unsigned char* data = nullptr;
    const int size = i2d_X509(certificate, &data);
    std::string out(reinterpret_cast<char*>(data), static_cast<std::size_t>(size));
    OPENSSL_free(data);
    return out;
  }
};

struct Spec {
  std::string cn = {};
  std::vector<std::string> organizations = {};
  bool ca = false;
  const char* extended_usage = "clientAuth";
  std::int64_t from = kNow - 3600, to = kNow + 3600;
};

inline void extend(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

inline std::unique_ptr<Made> make(const Spec& spec, const Made* issuer) {
  static int serial = 1;
  auto made = std::make_unique<Made>();
  made->key = EVP_EC_gen("P-256");
  made->certificate = X509_new();
  X509* certificate = made->certificate;
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
  ASN1_TIME_set(X509_getm_notBefore(certificate), spec.from);
  ASN1_TIME_set(X509_getm_notAfter(certificate), spec.to);
  X509_NAME* name = X509_get_subject_name(certificate);
  const auto add = [&](const char* field, const std::string& value) {
    X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(value.data()),
                               static_cast<int>(value.size()), -1, 0);
  };
  for (const std::string& organization : spec.organizations) {
    add("O", organization);
  }
  if (!spec.cn.empty()) {
    add("CN", spec.cn);
  }
  X509* signer = issuer != nullptr ? issuer->certificate : certificate;
  X509_set_issuer_name(certificate, X509_get_subject_name(signer));
  X509_set_pubkey(certificate, made->key);
  extend(certificate, signer, NID_basic_constraints,
         spec.ca ? "critical,CA:TRUE" : "critical,CA:FALSE");
  if (!spec.ca) {
    extend(certificate, signer, NID_ext_key_usage, spec.extended_usage);
  }
  X509_sign(certificate, issuer != nullptr ? issuer->key : made->key, EVP_sha256());
  return made;
}

struct CrlSpec {
  std::int64_t from = 1'700'000'000, to = kNow + 3600;
  bool delta = false;
  const char* scope = nullptr;  ///< issuing distribution point, as openssl.cnf has it
};

/// PEM of a list that `issuer` signed.
inline std::string crl(const Made& issuer, const std::vector<const Made*>& revoked,
                       const CrlSpec& spec = {}) {
  X509_CRL* list = X509_CRL_new();
  X509_CRL_set_version(list, 1);
  X509_CRL_set_issuer_name(list, X509_get_subject_name(issuer.certificate));
  ASN1_TIME* time = ASN1_TIME_new();
  ASN1_TIME_set(time, spec.from);
  X509_CRL_set1_lastUpdate(list, time);
  ASN1_TIME_set(time, spec.to);
  X509_CRL_set1_nextUpdate(list, time);
  for (const Made* one : revoked) {
    X509_REVOKED* entry = X509_REVOKED_new();
    X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(one->certificate));
    X509_REVOKED_set_revocationDate(entry, time);
    X509_CRL_add0_revoked(list, entry);
  }
  ASN1_TIME_free(time);
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer.certificate, nullptr, nullptr, list, 0);
  const auto add = [&](int nid, const char* value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value);
    X509_CRL_add_ext(list, extension, -1);
    X509_EXTENSION_free(extension);
  };
  if (spec.delta) {
    ASN1_INTEGER* base = ASN1_INTEGER_new();
    ASN1_INTEGER_set(base, 1);
    X509_CRL_add1_ext_i2d(list, NID_delta_crl, base, 1, 0);
    ASN1_INTEGER_free(base);
  }
  if (spec.scope != nullptr) {
    add(NID_issuing_distribution_point, (std::string("critical,") + spec.scope).c_str());
  }
  X509_CRL_sort(list);
  X509_CRL_sign(list, issuer.key, EVP_sha256());
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509_CRL(bio, list);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string pem(data, static_cast<std::size_t>(size));
  BIO_free(bio);
  X509_CRL_free(list);
  return pem;
}

}  // namespace kintsugi::auth::testing
