#include "auth/certificate_end.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/objects.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/certificate_names.h"

namespace kintsugi::auth {
namespace {

struct Deleter {
  void operator()(BIO* bio) const noexcept { BIO_free(bio); }
  void operator()(X509* certificate) const noexcept { X509_free(certificate); }
};

}  // namespace

std::optional<std::int64_t> first_end_of(std::string_view pem) noexcept {
  if (pem.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    return std::nullopt;
  }
  const std::unique_ptr<BIO, Deleter> source(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  std::optional<std::int64_t> first;
  while (source != nullptr) {
    const std::unique_ptr<X509, Deleter> certificate(
        PEM_read_bio_X509(source.get(), nullptr, nullptr, nullptr));
    if (certificate == nullptr) {
      break;
    }
    std::tm parts{};
    if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &parts) != 1) {
      return std::nullopt;
    }
    const std::int64_t end = ::timegm(&parts);
    first = std::min(first.value_or(end), end);
  }
  const unsigned long cause = ERR_peek_last_error();  // NO_START_LINE: the text ended in order
  ERR_clear_error();
  return ERR_GET_REASON(cause) == PEM_R_NO_START_LINE ? first : std::nullopt;
}

namespace {

using CertificatePtr = std::unique_ptr<X509, Deleter>;

/// Null: there is none.
CertificatePtr first_of(std::string_view pem) {
  if (pem.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    return nullptr;
  }
  const std::unique_ptr<BIO, Deleter> source(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  CertificatePtr certificate(
      source == nullptr ? nullptr : PEM_read_bio_X509(source.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  return certificate;
}

/// Values of one kind in the subject of the first certificate.
std::vector<std::string> subject_values(std::string_view pem, int kind) {
  std::vector<std::string> values;
  const CertificatePtr certificate = first_of(pem);
  const X509_NAME* const subject =
      certificate == nullptr ? nullptr : X509_get_subject_name(certificate.get());
  for (int i = -1; subject != nullptr;) {
    i = X509_NAME_get_index_by_NID(subject, kind, i);
    if (i < 0) {
      break;
    }
    const ASN1_STRING* text = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, i));
    values.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                        static_cast<std::size_t>(ASN1_STRING_length(text)));
  }
  return values;
}

}  // namespace

bool is_of_organization(std::string_view pem, std::string_view organization) {
  const std::vector<std::string> values = subject_values(pem, NID_organizationName);
  return std::find(values.begin(), values.end(), organization) != values.end();
}

std::string common_name_of(std::string_view pem) {
  std::vector<std::string> values = subject_values(pem, NID_commonName);
  return values.empty() ? std::string() : std::move(values.front());
}

std::optional<CertificateFacts> facts_of(std::string_view pem) {
  const CertificatePtr certificate = first_of(pem);
  std::tm begin{}, end{};
  if (certificate == nullptr ||
      ASN1_TIME_to_tm(X509_get0_notBefore(certificate.get()), &begin) != 1 ||
      ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) != 1) {
    ERR_clear_error();
    return std::nullopt;
  }
  CertificateFacts facts;
  facts.begins = ::timegm(&begin);
  facts.ends = ::timegm(&end);
  facts.is_ca = X509_check_ca(certificate.get()) != 0;
  facts.for_servers = X509_check_purpose(certificate.get(), X509_PURPOSE_SSL_SERVER, 0) == 1;
  facts.for_clients = X509_check_purpose(certificate.get(), X509_PURPOSE_SSL_CLIENT, 0) == 1;
  facts.names = net::certificate_names(certificate.get());
  ERR_clear_error();
  return facts;
}

bool names_host(std::string_view pem, const std::string& host) {
  const CertificatePtr certificate = first_of(pem);
  const bool named =
      certificate != nullptr &&
      (X509_check_host(certificate.get(), host.data(), host.size(), 0, nullptr) == 1 ||
       X509_check_ip_asc(certificate.get(), host.c_str(), 0) == 1);
  ERR_clear_error();
  return named;
}

}  // namespace kintsugi::auth
