#include "net/x509_maker.h"

#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <utility>

#include "net/internal/dialer.h"
#include "net/internal/tls_internal.h"
#include "net/openssl_memory.h"

namespace kintsugi::net {
namespace {

using CertificatePtr = OpensslPtr<X509, X509_free>;
using KeyPtr = OpensslPtr<EVP_PKEY, EVP_PKEY_free>;
using BioPtr = OpensslPtr<BIO, BIO_free_all>;
using NumberPtr = OpensslPtr<BIGNUM, BN_free>;

constexpr long kHour = 3600, kDay = 24 * kHour;

tl::unexpected<Error> broken(Errc code, std::string_view what) {
  return fail(code, std::string(what) + ": " + take_tls_error());
}

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

bool add_name(X509_NAME* name, const char* field, const std::string& value) {
  return X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(value.data()),
                                    static_cast<int>(value.size()), -1, 0) == 1;
}

bool add_extension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  if (extension == nullptr) {
    return false;
  }
  const bool added = X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return added;
}

/// Version, serial, times and key; the caller adds names and extensions and signs.
CertificatePtr blank(EVP_PKEY* key, int days) {
  CertificatePtr certificate(X509_new());
  const NumberPtr serial(BN_new());
  const long end = std::max<long>(days * kDay, -kHour + 1);
  const bool ok =
      certificate != nullptr && serial != nullptr && X509_set_version(certificate.get(), 2) == 1 &&
      BN_rand(serial.get(), 127, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
      BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(certificate.get())) != nullptr &&
      X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kHour) != nullptr &&
      X509_gmtime_adj(X509_getm_notAfter(certificate.get()), end) != nullptr &&
      X509_set_pubkey(certificate.get(), key) == 1;
  return ok ? std::move(certificate) : nullptr;
}

Expected<KeyPair> sign_and_write(X509* certificate, EVP_PKEY* key, EVP_PKEY* issuer_key) {
  if (X509_sign(certificate, issuer_key, EVP_sha256()) == 0) {
    return broken(Errc::kInternal, "certificate cannot be signed");
  }
  const BioPtr certificate_out(BIO_new(BIO_s_mem())), key_out(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(certificate_out.get(), certificate) != 1 ||
      PEM_write_bio_PKCS8PrivateKey(key_out.get(), key, nullptr, nullptr, 0, nullptr, nullptr) !=
          1) {
    return broken(Errc::kInternal, "certificate cannot be written");
  }
  return KeyPair{text_of(certificate_out.get()), text_of(key_out.get())};
}

Expected<std::string> alternative_names(const CertificateRequest& request) {
  std::string names;
  for (const std::string& name : request.dns_names) {
    // A comma would begin another entry of OpenSSL's text form.
    if (name.empty() || name.find_first_of(", :\r\n") != std::string::npos) {
      return fail(Errc::kConfig, "DNS name \"" + name + "\" is malformed");
    }
    names += (names.empty() ? "DNS:" : ",DNS:") + name;
  }
  for (const std::string& address : request.ip_addresses) {
    if (!numeric_address(address, 0)) {
      return fail(Errc::kConfig, "IP address \"" + address + "\" is malformed");
    }
    names += (names.empty() ? "IP:" : ",IP:") + address;
  }
  return names;
}

CertificatePtr read_certificate(const std::string& pem) {
  const BioPtr in(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return CertificatePtr(PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr));
}

KeyPtr read_key(const std::string& pem) {
  const BioPtr in(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  const auto no_phrase = [](char*, int, int, void*) { return 0; };
  return KeyPtr(PEM_read_bio_PrivateKey(in.get(), nullptr, no_phrase, nullptr));
}

/// @returns whether it could be done.
bool end_with(X509* certificate, const X509* issuer) {
  const ASN1_TIME* const end = X509_get0_notAfter(issuer);
  return ASN1_TIME_compare(X509_get0_notAfter(certificate), end) <= 0 ||
         X509_set1_notAfter(certificate, end) == 1;
}

/// Of the life between `from` and `until`, in seconds from `from` to now and to the end.
struct Life {
  long over = 0, whole = 0;
};

Life life_of(const X509* certificate) {
  const auto seconds = [](int days, int rest) { return days * kDay + rest; };
  int days = 0, rest = 0;
  Life life;
  if (ASN1_TIME_diff(&days, &rest, X509_get0_notBefore(certificate), nullptr) == 1) {
    life.over = seconds(days, rest);
  }
  if (ASN1_TIME_diff(&days, &rest, X509_get0_notBefore(certificate),
                     X509_get0_notAfter(certificate)) == 1) {
    life.whole = seconds(days, rest);
  }
  return life;
}

}  // namespace

Expected<KeyPair> make_ca(const std::string& common_name, int days) {
  ERR_clear_error();
  const KeyPtr key(EVP_EC_gen("P-256"));
  if (key == nullptr) {
    return broken(Errc::kInternal, "key cannot be made");
  }
  const CertificatePtr certificate = blank(key.get(), days);
  X509* native = certificate.get();
  const bool ok = native != nullptr && add_name(X509_get_subject_name(native), "CN", common_name) &&
                  X509_set_issuer_name(native, X509_get_subject_name(native)) == 1 &&
                  add_extension(native, native, NID_basic_constraints, "critical,CA:TRUE") &&
                  add_extension(native, native, NID_key_usage,
                                "critical,keyCertSign,cRLSign,digitalSignature") &&
                  add_extension(native, native, NID_subject_key_identifier, "hash");
  if (!ok) {
    return broken(Errc::kInternal, "CA certificate \"" + common_name + "\"");
  }
  return sign_and_write(native, key.get(), key.get());
}

Expected<KeyPair> issue(const KeyPair& ca, const CertificateRequest& request) {
  ERR_clear_error();
  const CertificatePtr issuer = read_certificate(ca.certificate_pem);
  const KeyPtr issuer_key = read_key(ca.key_pem);
  if (issuer == nullptr || issuer_key == nullptr) {
    return broken(Errc::kConfig, "CA certificate or key cannot be read");
  }
  Expected<std::string> names = alternative_names(request);
  if (!names) {
    return fail(std::move(names).error());
  }
  const KeyPtr key(EVP_EC_gen("P-256"));
  if (key == nullptr) {
    return broken(Errc::kInternal, "key cannot be made");
  }
  const CertificatePtr certificate = blank(key.get(), request.days);
  X509* native = certificate.get();
  bool ok = native != nullptr && end_with(native, issuer.get()) &&
            X509_set_issuer_name(native, X509_get_subject_name(issuer.get())) == 1;
  for (const std::string& organization : request.organizations) {
    ok = ok && add_name(X509_get_subject_name(native), "O", organization);
  }
  ok = ok && (request.common_name.empty() ||
              add_name(X509_get_subject_name(native), "CN", request.common_name));
  ok = ok && add_extension(native, issuer.get(), NID_basic_constraints, "critical,CA:FALSE") &&
       add_extension(native, issuer.get(), NID_key_usage, "critical,digitalSignature") &&
       add_extension(native, issuer.get(), NID_authority_key_identifier, "keyid");
  std::string usage = request.server ? "serverAuth" : "";
  if (request.client) {
    usage += usage.empty() ? "clientAuth" : ",clientAuth";
  }
  ok = ok && (usage.empty() || add_extension(native, issuer.get(), NID_ext_key_usage, usage));
  ok = ok && (names->empty() || add_extension(native, issuer.get(), NID_subject_alt_name, *names));
  if (!ok) {
    return broken(Errc::kInternal, "certificate \"" + request.common_name + "\"");
  }
  return sign_and_write(native, key.get(), issuer_key.get());
}

bool is_due(const KeyPair& ca, const KeyPair& pair) {
  const CertificatePtr issuer = read_certificate(ca.certificate_pem);
  const CertificatePtr certificate = read_certificate(pair.certificate_pem);
  const KeyPtr key = read_key(pair.key_pem);
  bool due = false;
  if (issuer != nullptr && certificate != nullptr && key != nullptr &&
      X509_verify(certificate.get(), X509_get0_pubkey(issuer.get())) == 1) {
    const Life life = life_of(certificate.get());
    due = life.over > life.whole / 3 || X509_check_private_key(certificate.get(), key.get()) != 1;
  }
  ERR_clear_error();
  return due;
}

}  // namespace kintsugi::net
