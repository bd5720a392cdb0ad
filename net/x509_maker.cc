#include "net/x509_maker.h"

#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/digest.h"
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

/// Overwritten at its first place too.
Secret secret_of(BIO* bio) {
  char* data = nullptr;
  const auto size = static_cast<std::size_t>(BIO_get_mem_data(bio, &data));
  Secret out = Secret::copy_of({data, size});
  wipe(data, size);
  return out;
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
  return KeyPair{text_of(certificate_out.get()), secret_of(key_out.get())};
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

KeyPtr read_key(const Secret& secret) {
  const std::string_view pem = secret.view();
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

namespace {

bool add_subject(X509_NAME* name, const CertificateRequest& request) {
  bool ok = name != nullptr;
  for (const std::string& organization : request.organizations) {
    ok = ok && add_name(name, "O", organization);
  }
  return ok && (request.common_name.empty() || add_name(name, "CN", request.common_name));
}

/// A certificate for a public key, not signed yet. @error as issue()
Expected<CertificatePtr> certificate_for(EVP_PKEY* key, X509* issuer,
                                         const CertificateRequest& request) {
  Expected<std::string> names = alternative_names(request);
  if (!names) {
    return fail(std::move(names).error());
  }
  CertificatePtr certificate = blank(key, request.days);
  X509* native = certificate.get();
  bool ok = native != nullptr && end_with(native, issuer) &&
            X509_set_issuer_name(native, X509_get_subject_name(issuer)) == 1 &&
            add_subject(X509_get_subject_name(native), request);
  ok = ok && add_extension(native, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
       add_extension(native, issuer, NID_key_usage, "critical,digitalSignature") &&
       add_extension(native, issuer, NID_authority_key_identifier, "keyid");
  std::string usage = request.server ? "serverAuth" : "";
  if (request.client) {
    usage += usage.empty() ? "clientAuth" : ",clientAuth";
  }
  ok = ok && (usage.empty() || add_extension(native, issuer, NID_ext_key_usage, usage));
  ok = ok && (names->empty() || add_extension(native, issuer, NID_subject_alt_name, *names));
  if (!ok) {
    return broken(Errc::kInternal, "certificate \"" + request.common_name + "\"");
  }
  return certificate;
}

using SigningRequestPtr = OpensslPtr<X509_REQ, X509_REQ_free>;

bool is_strong(const EVP_PKEY* key) {
  const int kind = EVP_PKEY_get_base_id(key), bits = EVP_PKEY_get_bits(key);
  return (kind == EVP_PKEY_EC && bits >= 256) || (kind == EVP_PKEY_RSA && bits >= 2048) ||
         kind == EVP_PKEY_ED25519;
}

/// It asks for nothing but the subject that it gets; an empty one is any.
bool asks_for(X509_REQ* request, const CertificateRequest& what) {
  X509_NAME* const subject = X509_REQ_get_subject_name(request);
  const std::unique_ptr<X509_NAME, void (*)(X509_NAME*)> wanted(X509_NAME_new(), X509_NAME_free);
  STACK_OF(X509_EXTENSION)* const extensions = X509_REQ_get_extensions(request);
  const bool more = extensions != nullptr && sk_X509_EXTENSION_num(extensions) > 0;
  sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
  return !more && (X509_NAME_entry_count(subject) == 0 ||
                   (add_subject(wanted.get(), what) && X509_NAME_cmp(subject, wanted.get()) == 0));
}

}  // namespace

Expected<KeyPair> issue(const KeyPair& ca, const CertificateRequest& request) {
  ERR_clear_error();
  const CertificatePtr issuer = read_certificate(ca.certificate_pem);
  const KeyPtr issuer_key = read_key(ca.key_pem);
  if (issuer == nullptr || issuer_key == nullptr) {
    return broken(Errc::kConfig, "CA certificate or key cannot be read");
  }
  const KeyPtr key(EVP_EC_gen("P-256"));
  if (key == nullptr) {
    return broken(Errc::kInternal, "key cannot be made");
  }
  auto certificate = certificate_for(key.get(), issuer.get(), request);
  if (!certificate) {
    return fail(std::move(certificate.error()));
  }
  return sign_and_write(certificate->get(), key.get(), issuer_key.get());
}

Expected<SigningRequest> make_signing_request(const std::string& common_name,
                                              const std::vector<std::string>& organizations) {
  ERR_clear_error();
  const KeyPtr key(EVP_EC_gen("P-256"));
  const SigningRequestPtr request(X509_REQ_new());
  const BioPtr request_out(BIO_new(BIO_s_mem())), key_out(BIO_new(BIO_s_mem()));
  CertificateRequest subject;
  subject.common_name = common_name;
  subject.organizations = organizations;
  const bool ok = key != nullptr && request != nullptr &&
                  X509_REQ_set_version(request.get(), 0) == 1 &&
                  add_subject(X509_REQ_get_subject_name(request.get()), subject) &&
                  X509_REQ_set_pubkey(request.get(), key.get()) == 1 &&
                  X509_REQ_sign(request.get(), key.get(), EVP_sha256()) > 0 &&
                  PEM_write_bio_X509_REQ(request_out.get(), request.get()) == 1 &&
                  PEM_write_bio_PKCS8PrivateKey(key_out.get(), key.get(), nullptr, nullptr, 0,
                                                nullptr, nullptr) == 1;
  if (!ok) {
    return broken(Errc::kInternal, "request for a certificate");
  }
  return SigningRequest{text_of(request_out.get()), secret_of(key_out.get())};
}

Expected<std::string> sign_request(const KeyPair& ca, const std::string& request_pem,
                                   const CertificateRequest& what) {
  ERR_clear_error();
  const CertificatePtr issuer = read_certificate(ca.certificate_pem);
  const KeyPtr issuer_key = read_key(ca.key_pem);
  if (issuer == nullptr || issuer_key == nullptr) {
    return broken(Errc::kConfig, "CA certificate or key cannot be read");
  }
  const BioPtr in(BIO_new_mem_buf(request_pem.data(), static_cast<int>(request_pem.size())));
  const SigningRequestPtr request(PEM_read_bio_X509_REQ(in.get(), nullptr, nullptr, nullptr));
  EVP_PKEY* const key = request == nullptr ? nullptr : X509_REQ_get0_pubkey(request.get());
  if (key == nullptr || !is_strong(key) || X509_REQ_verify(request.get(), key) != 1) {
    ERR_clear_error();
    return fail(Errc::kBadRequest,
                "the request is not signed with its own key of at least P-256 or RSA 2048");
  }
  if (!asks_for(request.get(), what)) {
    return fail(Errc::kForbidden, "the request asks for more than the token gives");
  }
  auto certificate = certificate_for(key, issuer.get(), what);
  if (!certificate) {
    return fail(std::move(certificate.error()));
  }
  const BioPtr out(BIO_new(BIO_s_mem()));
  if (X509_sign(certificate->get(), issuer_key.get(), EVP_sha256()) == 0 ||
      PEM_write_bio_X509(out.get(), certificate->get()) != 1) {
    return broken(Errc::kInternal, "certificate cannot be signed");
  }
  return text_of(out.get());
}

std::string public_key_hash(const std::string& certificate_pem) {
  const CertificatePtr certificate = read_certificate(certificate_pem);
  unsigned char* der = nullptr;
  const int length =
      certificate == nullptr ? 0 : i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate.get()), &der);
  std::string hash;
  if (length > 0) {
    hash = "sha256:" +
           sha256_hex({reinterpret_cast<const char*>(der), static_cast<std::size_t>(length)});
  }
  OPENSSL_free(der);
  ERR_clear_error();
  return hash;
}

std::vector<std::string> split_certificates(const std::string& pem) {
  std::vector<std::string> out;
  const BioPtr in(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  while (in != nullptr) {
    const CertificatePtr certificate(PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr));
    const BioPtr text(BIO_new(BIO_s_mem()));
    if (certificate == nullptr || text == nullptr ||
        PEM_write_bio_X509(text.get(), certificate.get()) != 1) {
      break;
    }
    out.push_back(text_of(text.get()));
  }
  ERR_clear_error();
  return out;
}

bool is_key_of(const std::string& certificate_pem, const Secret& key_pem) {
  const CertificatePtr certificate = read_certificate(certificate_pem);
  const KeyPtr key = read_key(key_pem);
  const bool fits = certificate != nullptr && key != nullptr &&
                    X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  return fits;
}

bool is_issued_by(const std::string& certificate_pem, const std::string& issuer_pem) {
  const CertificatePtr certificate = read_certificate(certificate_pem);
  const CertificatePtr issuer = read_certificate(issuer_pem);
  const bool issued = certificate != nullptr && issuer != nullptr &&
                      X509_verify(certificate.get(), X509_get0_pubkey(issuer.get())) == 1;
  ERR_clear_error();
  return issued;
}

bool is_for(const std::string& certificate_pem, const CertificateRequest& request) {
  const CertificatePtr certificate = read_certificate(certificate_pem);
  if (certificate == nullptr) {
    ERR_clear_error();
    return false;
  }
  X509* const native = certificate.get();
  const bool all =
      std::all_of(request.dns_names.begin(), request.dns_names.end(),
                  [native](const std::string& name) {
                    return X509_check_host(native, name.data(), name.size(), 0, nullptr) == 1;
                  }) &&
      std::all_of(request.ip_addresses.begin(), request.ip_addresses.end(),
                  [native](const std::string& address) {
                    return X509_check_ip_asc(native, address.c_str(), 0) == 1;
                  });
  ERR_clear_error();
  return all;
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
