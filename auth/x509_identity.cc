#include "auth/x509_identity.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "base/time.h"
#include "net/openssl_memory.h"

namespace kintsugi::auth {
namespace {

void free_x509_stack(STACK_OF(X509) * stack) { sk_X509_pop_free(stack, X509_free); }
using X509Ptr = net::OpensslPtr<X509, X509_free>;
using StorePtr = net::OpensslPtr<X509_STORE, X509_STORE_free>;
using StoreContextPtr = net::OpensslPtr<X509_STORE_CTX, X509_STORE_CTX_free>;
using StackPtr = net::OpensslPtr<STACK_OF(X509), free_x509_stack>;
using BioPtr = net::OpensslPtr<BIO, BIO_free_all>;

Expected<StorePtr> make_store(const std::string& pem, std::string_view what) {
  if (pem.empty()) {
    return StorePtr();
  }
  StorePtr store(X509_STORE_new());
  BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  if (!store || !bio) {
    return fail(Errc::kConfig, std::string(what) + ": out of memory");
  }
  int count = 0;
  while (true) {
    X509Ptr certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (!certificate) {
      break;
    }
    if (X509_STORE_add_cert(store.get(), certificate.get()) != 1) {
      ERR_clear_error();
      return fail(Errc::kConfig, std::string(what) + ": a certificate cannot be used");
    }
    ++count;
  }
  const unsigned long error = ERR_peek_last_error();
  ERR_clear_error();
  if (count == 0 || ERR_GET_REASON(error) != PEM_R_NO_START_LINE) {
    return fail(Errc::kConfig, std::string(what) + ": no PEM certificate, or a broken one");
  }
  return store;
}

std::vector<std::string> entries_of(X509_NAME* subject, int nid) {
  std::vector<std::string> values;
  for (int i = X509_NAME_get_index_by_NID(subject, nid, -1); i >= 0;
       i = X509_NAME_get_index_by_NID(subject, nid, i)) {
    ASN1_STRING* text = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, i));
    unsigned char* utf8 = nullptr;
    const int length = ASN1_STRING_to_UTF8(&utf8, text);
    if (length >= 0) {
      values.emplace_back(reinterpret_cast<const char*>(utf8), static_cast<std::size_t>(length));
      OPENSSL_free(utf8);
    }
  }
  return values;
}

/// The end of a certificate's time [s since 1970]; 0 when it cannot be read.
std::int64_t end_of(const X509* certificate) {
  std::tm parts{};
  return ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &parts) == 1 ? ::timegm(&parts) + 1 : 0;
}

using ListsPtr = std::shared_ptr<const net::RevocationLists>;

/// Who clients' chains end in, and what these revoked.
struct Authorities {
  StorePtr store;  // null: none
  ListsPtr lists;  // the same
};

/// `until` becomes the first end of a certificate of the chain, or of a revocation list that it was
/// looked up in, if that is earlier.
bool chains_to(const Authorities& authorities, X509* leaf, STACK_OF(X509) * chain,
               std::optional<std::int64_t> now, std::int64_t* until) {
  X509_STORE* store = authorities.store.get();
  if (store == nullptr) {
    return false;
  }
  StoreContextPtr context(X509_STORE_CTX_new());
  if (!context || X509_STORE_CTX_init(context.get(), store, leaf, chain) != 1) {
    ERR_clear_error();
    return false;
  }
  X509_VERIFY_PARAM* param = X509_STORE_CTX_get0_param(context.get());
  if (X509_VERIFY_PARAM_set_purpose(param, X509_PURPOSE_SSL_CLIENT) != 1 ||
      X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_PARTIAL_CHAIN) != 1) {
    ERR_clear_error();
    return false;
  }
  if (now) {
    X509_VERIFY_PARAM_set_time(param, static_cast<time_t>(*now));
  }
  bool verified = X509_verify_cert(context.get()) == 1;
  ERR_clear_error();
  STACK_OF(X509)* built = X509_STORE_CTX_get0_chain(context.get());
  if (verified && authorities.lists != nullptr) {
    const auto verdict = authorities.lists->judge(built, now.value_or(unix_seconds()));
    verified = verdict.holds;
    if (verified && until != nullptr) {
      *until = std::min(*until, verdict.until);
    }
  }
  for (int i = 0; verified && until != nullptr && i < sk_X509_num(built); ++i) {
    *until = std::min(*until, end_of(sk_X509_value(built, i)));
  }
  return verified;
}

class StoreVerifier final : public CertificateVerifier {
 public:
  StoreVerifier(Authorities client, Authorities request_header)
      : client_(std::move(client)), request_header_(std::move(request_header)) {}

  CertificateIdentity identify(const std::vector<std::string>& chain_der,
                               std::optional<std::int64_t> now,
                               std::int64_t* until) const override {
    CertificateIdentity identity;
    if (chain_der.empty()) {
      return identity;
    }
    StackPtr chain(sk_X509_new_null());
    X509Ptr leaf;
    for (const std::string& der : chain_der) {
      const auto* data = reinterpret_cast<const unsigned char*>(der.data());
      X509Ptr certificate(d2i_X509(nullptr, &data, static_cast<long>(der.size())));
      if (!certificate || !chain) {
        ERR_clear_error();
        return identity;
      }
      if (!leaf) {
        leaf = std::move(certificate);
      } else if (sk_X509_push(chain.get(), certificate.get()) > 0) {
        (void)certificate.release();
      }
    }
    X509_NAME* subject = X509_get_subject_name(leaf.get());
    std::vector<std::string> names = entries_of(subject, NID_commonName);
    if (!names.empty()) {
      identity.common_name = std::move(names.back());
    }
    identity.organizations = entries_of(subject, NID_organizationName);
    std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
    SHA256(reinterpret_cast<const unsigned char*>(chain_der.front().data()),
           chain_der.front().size(), digest.data());
    identity.sha256_hex =
        hex_encode(std::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
    if (until != nullptr) {
      *until = INT64_MAX;
    }
    identity.from_client_ca = chains_to(client_, leaf.get(), chain.get(), now, until);
    identity.from_request_header_ca =
        chains_to(request_header_, leaf.get(), chain.get(), now, until);
    identity.valid = identity.from_client_ca || identity.from_request_header_ca;
    return identity;
  }

 private:
  Authorities client_;
  Authorities request_header_;
};

Expected<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return fail(Errc::kConfig, path + ": " + std::strerror(errno));
  }
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace

Expected<std::shared_ptr<const net::RevocationLists>> load_revocations(const std::string& file,
                                                                       std::string_view ca_pem,
                                                                       net::CrlRules rules) {
  if (file.empty()) {
    return ListsPtr();
  }
  Expected<std::string> text = read_file(file);
  if (!text) {
    return fail(std::move(text.error()));
  }
  Expected<ListsPtr> lists = net::RevocationLists::parse(*text, ca_pem, rules, unix_seconds());
  if (!lists) {
    return fail(Errc::kConfig, file + ": " + std::string(lists.error().message()));
  }
  return lists;
}

Expected<CaBundles> load_ca_bundles(const std::string& client_ca_file,
                                    const std::string& request_header_ca_file,
                                    const CrlFiles& crls) {
  CaBundles bundles;
  bundles.crl = crls.rules;
  bundles.client_crl_name = crls.client;
  bundles.request_header_crl_name = crls.request_header;
  const auto load = [](const std::string& file, std::string& text) -> Expected<void> {
    if (file.empty()) {
      return {};
    }
    Expected<std::string> read = read_file(file);
    if (!read) {
      return fail(std::move(read.error()));
    }
    text = read->empty() ? std::string(" ") : std::move(*read);
    return {};
  };
  for (const auto& [file, text] : {std::pair{&client_ca_file, &bundles.client_ca_pem},
                                   {&request_header_ca_file, &bundles.request_header_ca_pem},
                                   {&crls.client, &bundles.client_crl_pem},
                                   {&crls.request_header, &bundles.request_header_crl_pem}}) {
    if (Expected<void> loaded = load(*file, *text); !loaded) {
      return fail(std::move(loaded.error()));
    }
  }
  for (const auto& [file, text] : {std::pair{&client_ca_file, &bundles.client_ca_pem},
                                   {&request_header_ca_file, &bundles.request_header_ca_pem}}) {
    if (Expected<StorePtr> checked = make_store(*text, *file); !checked) {
      return fail(std::move(checked.error()));
    }
  }
  return bundles;
}

namespace {

Expected<Authorities> authorities_of(const std::string& ca_pem, std::string_view ca_name,
                                     const std::string& crl_pem, const std::string& crl_name,
                                     net::CrlRules rules) {
  Authorities authorities;
  Expected<StorePtr> store = make_store(ca_pem, ca_name);
  if (!store) {
    return fail(std::move(store.error()));
  }
  authorities.store = std::move(*store);
  if (!crl_pem.empty()) {
    Expected<ListsPtr> lists = net::RevocationLists::parse(crl_pem, ca_pem, rules, unix_seconds());
    if (!lists) {
      return fail(Errc::kConfig, crl_name + ": " + std::string(lists.error().message()));
    }
    authorities.lists = std::move(*lists);
    if (authorities.lists->ends_at() <= unix_seconds()) {
      log_warn("a revocation list is out of date",
               {{"file", crl_name}, {"crl.stale", rules.stale_is_refused ? "refuse" : "warn"}});
    }
  }
  return authorities;
}

std::string digest_of(const CaBundles& bundles) {
  std::string text;
  for (const std::string* part : {&bundles.client_ca_pem, &bundles.request_header_ca_pem,
                                  &bundles.client_crl_pem, &bundles.request_header_crl_pem}) {
    std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
    SHA256(net::openssl_bytes(*part), part->size(), digest.data());
    text.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  }
  text += bundles.crl.stale_is_refused ? 's' : '-';
  text += bundles.crl.is_required ? 'r' : '-';
  return text;
}

}  // namespace

Expected<std::shared_ptr<const CertificateVerifier>> CertificateVerifier::make(
    const CaBundles& bundles) {
  Expected<Authorities> client =
      authorities_of(bundles.client_ca_pem, "client CA", bundles.client_crl_pem,
                     bundles.client_crl_name, bundles.crl);
  if (!client) {
    return fail(std::move(client.error()));
  }
  Expected<Authorities> request_header =
      authorities_of(bundles.request_header_ca_pem, "request-header CA",
                     bundles.request_header_crl_pem, bundles.request_header_crl_name, bundles.crl);
  if (!request_header) {
    return fail(std::move(request_header.error()));
  }
  return std::make_shared<const StoreVerifier>(std::move(*client), std::move(*request_header));
}

Expected<std::shared_ptr<ReloadableCertificateVerifier>> ReloadableCertificateVerifier::make(
    const CaBundles& bundles) {
  auto made = std::make_shared<ReloadableCertificateVerifier>();
  if (Expected<void> loaded = made->reload(bundles); !loaded) {
    return fail(std::move(loaded.error()));
  }
  return made;
}

Expected<void> ReloadableCertificateVerifier::reload(const CaBundles& bundles) {
  std::string digest = digest_of(bundles);
  if (digest == loaded_) {
    return {};
  }
  Expected<std::shared_ptr<const CertificateVerifier>> verifier =
      CertificateVerifier::make(bundles);
  if (!verifier) {
    return fail(std::move(verifier.error()));
  }
  loaded_ = std::move(digest);
  std::atomic_store(&verifier_, std::move(*verifier));
  return {};
}

std::shared_ptr<const CertificateVerifier> ReloadableCertificateVerifier::current() const {
  return std::atomic_load(&verifier_);
}

std::shared_ptr<const CertificateChain> ReloadableCertificateVerifier::share(
    const std::string& key, const CertificateChain& chain) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::weak_ptr<const CertificateChain>& known = chains_[key];
  std::shared_ptr<const CertificateChain> shared = known.lock();
  if (shared == nullptr) {
    shared = std::make_shared<const CertificateChain>(chain);
    known = shared;
  }
  if (chains_.size() >= sweep_at_) {
    std::erase_if(chains_, [](const auto& entry) { return entry.second.expired(); });
    sweep_at_ = std::max<std::size_t>(1'024, 2 * chains_.size());
  }
  return shared;
}

const CertificateIdentity* certificate_of(const http::PeerInfo& peer) noexcept {
  return static_cast<const CertificateIdentity*>(peer.identity.get());
}

ProofPtr proof_of(const http::PeerInfo& peer) noexcept {
  const CertificateIdentity* identity = certificate_of(peer);
  return identity == nullptr ? nullptr : identity->proof;
}

}  // namespace kintsugi::auth
