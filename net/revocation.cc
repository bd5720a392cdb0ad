#include "net/revocation.h"

#include <malloc.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "net/openssl_memory.h"

namespace kintsugi::net {
namespace {

constexpr std::size_t kMostBytes = 64U << 20;
constexpr std::int64_t kClockSkew = 60;        // [s] between us and who issues lists
constexpr std::size_t kManySerials = 100'000;  // parsed, they take ten times the room
constexpr std::size_t kSerialBytes = 20;       // RFC 5280 4.1.2.2

using BioPtr = OpensslPtr<BIO, BIO_free>;
using CertificatePtr = OpensslPtr<X509, X509_free>;
using CrlPtr = OpensslPtr<X509_CRL, X509_CRL_free>;
using NamePtr = OpensslPtr<X509_NAME, X509_NAME_free>;
using PointPtr = OpensslPtr<ISSUING_DIST_POINT, ISSUING_DIST_POINT_free>;
using Digest = std::array<unsigned char, 32>;
/// Sign, then the magnitude, big endian, with zeros in front.
using Serial = std::array<unsigned char, kSerialBytes + 1>;

bool serial_of(const ASN1_INTEGER* number, Serial& serial) noexcept {
  const int size = ASN1_STRING_length(number);
  if (size < 0 || static_cast<std::size_t>(size) > kSerialBytes) {
    return false;
  }
  serial.fill(0);
  serial[0] = ASN1_STRING_type(number) == V_ASN1_NEG_INTEGER ? 1 : 0;
  std::memcpy(serial.data() + serial.size() - size, ASN1_STRING_get0_data(number),
              static_cast<std::size_t>(size));
  return true;
}

std::int64_t seconds_of(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? ::timegm(&parts) : 0;
}

Digest key_of(const X509* certificate) {
  Digest digest{};
  unsigned int size = 0;
  (void)X509_pubkey_digest(certificate, EVP_sha256(), digest.data(), &size);
  return digest;
}

bool may_sign_lists(X509* certificate) {
  return (X509_get_key_usage(certificate) & KU_CRL_SIGN) != 0;  // all bits without the extension
}

bool is_signed_by(X509_CRL* crl, X509* issuer) {
  EVP_PKEY* key = X509_get0_pubkey(issuer);
  const bool holds = key != nullptr && may_sign_lists(issuer) && X509_CRL_verify(crl, key) == 1;
  ERR_clear_error();
  return holds;
}

/// One list. Signatures are judged once per key.
struct List {
  NamePtr issuer;
  std::vector<Serial> serials;  // sorted
  std::int64_t begins = 0, ends = INT64_MAX;
  CrlPtr whole;  // until its issuer is known
  std::map<Digest, bool> signers;

  [[nodiscard]] bool has(const Serial& serial) const {
    return std::binary_search(serials.begin(), serials.end(), serial);
  }
};

tl::unexpected<Error> fault(std::string text) {
  ERR_clear_error();
  return fail(Errc::kConfig, std::move(text));
}

/// "" for a list that speaks of all certificates of its issuer.
std::string_view scope_fault(const X509_CRL* crl) {
  if (X509_CRL_get_ext_by_NID(crl, NID_delta_crl, -1) >= 0) {
    return "is a delta list, which is not supported";
  }
  int critical = -1;
  const PointPtr point(static_cast<ISSUING_DIST_POINT*>(
      X509_CRL_get_ext_d2i(crl, NID_issuing_distribution_point, &critical, nullptr)));
  if (point == nullptr && critical != -1) {
    return "has a malformed issuing distribution point";
  }
  if (point != nullptr && point->indirectCRL > 0) {
    return "is an indirect list, which is not supported";
  }
  if (point != nullptr && (point->onlyuser > 0 || point->onlyCA > 0 || point->onlyattr > 0 ||
                           point->onlysomereasons != nullptr)) {
    return "is about some certificates or reasons only, which is not supported";
  }
  for (int i = 0; i < X509_CRL_get_ext_count(crl); ++i) {
    X509_EXTENSION* extension = X509_CRL_get_ext(crl, i);
    const int nid = OBJ_obj2nid(X509_EXTENSION_get_object(extension));
    if (X509_EXTENSION_get_critical(extension) != 0 && nid != NID_issuing_distribution_point) {
      return "has a critical extension that is not known";
    }
  }
  return {};
}

Expected<void> take_serials(X509_CRL* crl, List& list) {
  STACK_OF(X509_REVOKED)* revoked = X509_CRL_get_REVOKED(crl);
  const int count = std::max(0, sk_X509_REVOKED_num(revoked));
  list.serials.resize(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    const X509_REVOKED* entry = sk_X509_REVOKED_value(revoked, i);
    if (X509_REVOKED_get_ext_by_NID(entry, NID_certificate_issuer, -1) >= 0) {
      return fault("is an indirect list, which is not supported");
    }
    if (!serial_of(X509_REVOKED_get0_serialNumber(entry),
                   list.serials[static_cast<std::size_t>(i)])) {
      return fault("has a serial number of more than 20 bytes");
    }
  }
  std::sort(list.serials.begin(), list.serials.end());
  return {};
}

Expected<std::unique_ptr<List>> take(CrlPtr crl, const std::vector<CertificatePtr>& authorities,
                                     std::int64_t now) {
  if (const std::string_view wrong = scope_fault(crl.get()); !wrong.empty()) {
    return fault(std::string(wrong));
  }
  auto list = std::make_unique<List>();
  list->issuer.reset(X509_NAME_dup(X509_CRL_get_issuer(crl.get())));
  list->begins = seconds_of(X509_CRL_get0_lastUpdate(crl.get()));
  if (const ASN1_TIME* next = X509_CRL_get0_nextUpdate(crl.get()); next != nullptr) {
    list->ends = seconds_of(next) + 1;
  }
  if (list->begins > now + kClockSkew) {
    return fault("is not in force yet");
  }
  bool named = false;
  for (const CertificatePtr& authority : authorities) {
    if (X509_NAME_cmp(list->issuer.get(), X509_get_subject_name(authority.get())) == 0) {
      named = true;
      if (is_signed_by(crl.get(), authority.get())) {
        list->signers[key_of(authority.get())] = true;
      }
    }
  }
  if (named && list->signers.empty()) {
    return fault("is not signed by the authority that it names");
  }
  if (auto taken = take_serials(crl.get(), *list); !taken) {
    return fail(std::move(taken).error());
  }
  if (!named) {
    list->whole = std::move(crl);
  }
  return list;
}

class Lists final : public RevocationLists {
 public:
  Lists(std::vector<std::unique_ptr<List>> lists, CrlRules rules)
      : lists_(std::move(lists)), rules_(rules) {}

  Verdict judge(stack_st_X509* chain, std::int64_t now) const override {
    Verdict verdict;
    for (int i = 0; verdict.holds && i + 1 < sk_X509_num(chain); ++i) {
      judge(sk_X509_value(chain, i), sk_X509_value(chain, i + 1), now, verdict);
    }
    return verdict;
  }
  std::size_t size() const noexcept override {
    std::size_t sum = 0;
    for (const auto& list : lists_) {
      sum += list->serials.size();
    }
    return sum;
  }
  std::int64_t ends_at() const noexcept override {
    std::int64_t first = INT64_MAX;
    for (const auto& list : lists_) {
      first = std::min(first, list->ends);
    }
    return first;
  }

 private:
  void judge(X509* certificate, X509* issuer, std::int64_t now, Verdict& verdict) const {
    const List* list = newest_of(issuer);
    if (list == nullptr) {
      verdict.holds = !rules_.is_required;
      verdict.fault = verdict.holds ? std::string_view() : "its issuer has no revocation list";
      return;
    }
    Serial serial{};
    if (!serial_of(X509_get0_serialNumber(certificate), serial) || list->has(serial)) {
      verdict.holds = false;
      verdict.fault = "it is revoked";
      return;
    }
    if (rules_.stale_is_refused) {
      verdict.until = std::min(verdict.until, list->ends);
      if (now >= list->ends) {
        verdict.holds = false;
        verdict.fault = "the revocation list of its issuer is out of date";
      }
    }
  }

  const List* newest_of(X509* issuer) const {
    const List* newest = nullptr;
    for (const auto& list : lists_) {
      if ((newest == nullptr || list->begins > newest->begins) &&
          X509_NAME_cmp(list->issuer.get(), X509_get_subject_name(issuer)) == 0 &&
          is_of(*list, issuer)) {
        newest = list.get();
      }
    }
    return newest;
  }

  bool is_of(List& list, X509* issuer) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [found, added] = list.signers.try_emplace(key_of(issuer), false);
    if (added && list.whole != nullptr) {
      found->second = is_signed_by(list.whole.get(), issuer);
    }
    return found->second;
  }

  std::vector<std::unique_ptr<List>> lists_;
  CrlRules rules_;
  mutable std::mutex mutex_;  // of List::signers
};

std::vector<CertificatePtr> certificates_of(std::string_view pem) {
  std::vector<CertificatePtr> result;
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  while (X509* certificate = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    result.emplace_back(certificate);
  }
  ERR_clear_error();
  return result;
}

}  // namespace

Expected<std::shared_ptr<const RevocationLists>> RevocationLists::parse(std::string_view pem,
                                                                        std::string_view ca_pem,
                                                                        CrlRules rules,
                                                                        std::int64_t now) {
  if (pem.size() > kMostBytes) {
    return fault("is larger than 64 MiB");
  }
  const std::vector<CertificatePtr> authorities = certificates_of(ca_pem);
  std::vector<std::unique_ptr<List>> lists;
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  ERR_clear_error();
  while (X509_CRL* next = PEM_read_bio_X509_CRL(bio.get(), nullptr, nullptr, nullptr)) {
    auto list = take(CrlPtr(next), authorities, now);
    if (!list) {
      return fault("revocation list " + std::to_string(lists.size() + 1) + " " +
                   std::string(list.error().message()));
    }
    lists.push_back(std::move(*list));
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (lists.empty() || !at_end) {
    return fault(lists.empty() && at_end ? "holds no PEM revocation list"
                                         : "a revocation list is malformed");
  }
  auto made = std::make_shared<const Lists>(std::move(lists), rules);
  if (made->size() > kManySerials) {
    (void)::malloc_trim(0);
  }
  return made;
}

}  // namespace kintsugi::net
