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

#include "auth/certificate_cache.h"
#include "base/strings.h"
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

/// `until` becomes the first end of a certificate of the chain, if that is earlier.
bool chains_to(X509_STORE* store, X509* leaf, STACK_OF(X509) * chain,
               std::optional<std::int64_t> now, std::int64_t* until) {
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
  const bool verified = X509_verify_cert(context.get()) == 1;
  ERR_clear_error();
  STACK_OF(X509)* built = X509_STORE_CTX_get0_chain(context.get());
  for (int i = 0; verified && until != nullptr && i < sk_X509_num(built); ++i) {
    *until = std::min(*until, end_of(sk_X509_value(built, i)));
  }
  return verified;
}

class StoreVerifier final : public CertificateVerifier {
 public:
  StoreVerifier(StorePtr client, StorePtr request_header)
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
    identity.from_client_ca = chains_to(client_.get(), leaf.get(), chain.get(), now, until);
    identity.from_request_header_ca =
        chains_to(request_header_.get(), leaf.get(), chain.get(), now, until);
    identity.valid = identity.from_client_ca || identity.from_request_header_ca;
    return identity;
  }

 private:
  StorePtr client_;
  StorePtr request_header_;
};

Expected<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return fail(Errc::kConfig, path + ": " + std::strerror(errno));
  }
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace

Expected<CaBundles> load_ca_bundles(const std::string& client_ca_file,
                                    const std::string& request_header_ca_file) {
  CaBundles bundles;
  const auto load = [](const std::string& file, std::string& text) -> Expected<void> {
    if (file.empty()) {
      return {};
    }
    Expected<std::string> read = read_file(file);
    if (!read) {
      return fail(std::move(read.error()));
    }
    text = std::move(*read);
    Expected<StorePtr> checked = make_store(text.empty() ? std::string(" ") : text, file);
    if (!checked) {
      return fail(std::move(checked.error()));
    }
    return {};
  };
  if (Expected<void> loaded = load(client_ca_file, bundles.client_ca_pem); !loaded) {
    return fail(std::move(loaded.error()));
  }
  if (Expected<void> loaded = load(request_header_ca_file, bundles.request_header_ca_pem);
      !loaded) {
    return fail(std::move(loaded.error()));
  }
  return bundles;
}

Expected<std::shared_ptr<const CertificateVerifier>> CertificateVerifier::make(
    const CaBundles& bundles) {
  Expected<StorePtr> client = make_store(bundles.client_ca_pem, "client CA");
  if (!client) {
    return fail(std::move(client.error()));
  }
  Expected<StorePtr> request_header =
      make_store(bundles.request_header_ca_pem, "request-header CA");
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
  Expected<std::shared_ptr<const CertificateVerifier>> verifier =
      CertificateVerifier::make(bundles);
  if (!verifier) {
    return fail(std::move(verifier.error()));
  }
  std::atomic_store(&verifier_, std::move(*verifier));
  return {};
}

std::shared_ptr<const CertificateVerifier> ReloadableCertificateVerifier::current() const {
  return std::atomic_load(&verifier_);
}

std::function<std::shared_ptr<const void>(const http::PeerInfo&)> make_identify_hook(
    std::shared_ptr<const ReloadableCertificateVerifier> verifier) {
  auto known = std::make_shared<CertificateCache>(std::move(verifier));
  return [known = std::move(known)](const http::PeerInfo& peer) -> std::shared_ptr<const void> {
    if (peer.certificates_der.empty()) {
      return nullptr;
    }
    return std::make_shared<const CertificateIdentity>(known->identify(peer.certificates_der));
  };
}

const CertificateIdentity* certificate_of(const http::PeerInfo& peer) noexcept {
  return static_cast<const CertificateIdentity*>(peer.identity.get());
}

}  // namespace kintsugi::auth
