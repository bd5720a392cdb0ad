#include "net/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string_view>
#include <utility>

#include "base/secret_file.h"
#include "base/time.h"
#include "net/certificate_names.h"
#include "net/internal/tls_internal.h"
#include "net/openssl_memory.h"
#include "net/revocation.h"
#include "net/ticket_keys.h"

namespace kintsugi::net {
namespace {

constexpr const char* kSuites =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
constexpr const char* kCiphers12 =
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"
    "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";
constexpr const char* kGroups = "X25519:P-256:P-384";
constexpr std::string_view kAlpn2("\x02h2\x08http/1.1", 12);
constexpr std::string_view kAlpn1("\x08http/1.1", 9);

using BioPtr = OpensslPtr<BIO, BIO_free>;
using X509Ptr = OpensslPtr<X509, X509_free>;
using KeyPtr = OpensslPtr<EVP_PKEY, EVP_PKEY_free>;
using CtxPtr = OpensslPtr<SSL_CTX, SSL_CTX_free>;

/// A PEM text and what to call it in errors.
struct Pem {
  std::string name;
  std::string text;
};

Expected<Pem> load(const std::string& file, const std::string& text, const char* what) {
  if (!text.empty() || file.empty()) {
    return Pem{what, text};
  }
  Pem pem{file, {}};
  std::FILE* stream = std::fopen(file.c_str(), "re");
  if (stream == nullptr) {
    return fail(Errc::kConfig, file + ": " + std::strerror(errno));
  }
  char buffer[4096];
  std::size_t count = 0;
  while ((count = std::fread(buffer, 1, sizeof buffer, stream)) > 0) {
    pem.text.append(buffer, count);
  }
  const bool broken = std::ferror(stream) != 0;
  std::fclose(stream);
  if (broken) {
    return fail(Errc::kConfig, file + ": cannot be read");
  }
  return pem;
}

tl::unexpected<Error> pem_error(const std::string& name, std::string_view what) {
  std::string cause = take_tls_error();
  std::string text = name + ": " + std::string(what);
  return fail(Errc::kConfig, cause.empty() ? text : text + " (" + cause + ")");
}

Expected<std::vector<X509Ptr>> parse_certificates(const Pem& pem) {
  std::vector<X509Ptr> result;
  ERR_clear_error();
  const BioPtr bio(BIO_new_mem_buf(pem.text.data(), static_cast<int>(pem.text.size())));
  while (X509* certificate = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    result.emplace_back(certificate);
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (result.empty()) {
    ERR_clear_error();
    return pem_error(pem.name, "holds no PEM certificate");
  }
  if (!at_end) {
    return pem_error(pem.name, "certificate is malformed");
  }
  ERR_clear_error();
  return result;
}

Expected<Secret> load_key(const TlsParams& params) {
  return !params.key_pem.empty() || params.key_file.empty() ? params.key_pem
                                                            : read_secret_file(params.key_file);
}

const std::string kNameless = "key";

/// What a context keeps of them: the key is OpenSSL's now.
TlsParams without_key(TlsParams params) {
  params.key_pem = {};
  return params;
}

Expected<void> use_key_pair(SSL_CTX* context, const TlsParams& params) {
  Expected<Pem> certificate_pem =
      load(params.certificate_file, params.certificate_pem, "certificate");
  if (!certificate_pem) {
    return fail(std::move(certificate_pem).error());
  }
  const Expected<Secret> key_pem = load_key(params);
  const std::string& key_name = params.key_pem.empty() ? params.key_file : kNameless;
  if (!key_pem) {
    return fail(key_pem.error().clone());
  }
  Expected<std::vector<X509Ptr>> chain = parse_certificates(*certificate_pem);
  if (!chain) {
    return fail(std::move(chain).error());
  }
  if (SSL_CTX_use_certificate(context, chain->front().get()) != 1) {
    return pem_error(certificate_pem->name, "certificate cannot be used");
  }
  for (std::size_t i = 1; i < chain->size(); ++i) {
    if (SSL_CTX_add1_chain_cert(context, (*chain)[i].get()) != 1) {
      return pem_error(certificate_pem->name, "chain certificate cannot be used");
    }
  }
  const BioPtr bio(BIO_new_mem_buf(key_pem->view().data(), static_cast<int>(key_pem->size())));
  // No pass phrase: the callback answers "none" instead of asking the terminal.
  const auto no_phrase = [](char*, int, int, void*) { return 0; };
  const KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_phrase, nullptr));
  if (key == nullptr) {
    return pem_error(key_name, "holds no usable private key");
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1) {
    return pem_error(key_name, "does not belong to " + certificate_pem->name);
  }
  return {};
}

Expected<CtxPtr> make_context(const SSL_METHOD* method, const TlsParams& params) {
  ERR_clear_error();
  CtxPtr context(SSL_CTX_new_ex(library_context(), nullptr, method));
  if (context == nullptr) {
    return fail(Errc::kConfig, "OpenSSL: " + take_tls_error());
  }
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                         SSL_OP_CIPHER_SERVER_PREFERENCE);
  const std::string suites = params.ciphersuites.empty() ? kSuites : params.ciphersuites;
  if (SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) != 1 ||
      SSL_CTX_set_cipher_list(context.get(), kCiphers12) != 1 ||
      SSL_CTX_set1_groups_list(context.get(), kGroups) != 1) {
    return fail(Errc::kConfig, "OpenSSL: " + take_tls_error());
  }
  if (SSL_CTX_set_ciphersuites(context.get(), suites.c_str()) != 1) {
    ERR_clear_error();
    return fail(Errc::kConfig, "unknown TLS 1.3 cipher suites \"" + suites + "\"");
  }
  return context;
}

// SE-041: what a client may make us look at.
constexpr int kMostCertificates = 10;
constexpr int kMostCertificateBytes = 16 << 10;
constexpr int kMostRsaBits = 8'192;
constexpr int kMostKeyBytes = kMostRsaBits / 8 + 64;  // with its framing

bool is_of_bounded_size(X509* certificate) {
  const ASN1_BIT_STRING* key = X509_get0_pubkey_bitstr(certificate);
  if (i2d_X509(certificate, nullptr) > kMostCertificateBytes || key == nullptr ||
      ASN1_STRING_length(key) > kMostKeyBytes) {
    return false;
  }
  const EVP_PKEY* parsed = X509_get0_pubkey(certificate);  // null: a kind that nobody can use
  ERR_clear_error();
  return parsed == nullptr || EVP_PKEY_get_bits(parsed) <= kMostRsaBits;
}

// Who the client is, auth/ says: here only the size of what it sends is judged, before anything is
// computed with it.
extern "C" int accept_any_certificate(X509_STORE_CTX* store, void* /*argument*/) {
  STACK_OF(X509)* sent = X509_STORE_CTX_get0_untrusted(store);
  if (sk_X509_num(sent) > kMostCertificates) {
    X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_CHAIN_TOO_LONG);
    return 0;
  }
  for (int i = 0; i < sk_X509_num(sent); ++i) {
    if (!is_of_bounded_size(sk_X509_value(sent, i))) {
      X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED);
      return 0;
    }
  }
  X509_STORE_CTX_set_error(store, X509_V_OK);
  return 1;
}

using ListsPtr = std::shared_ptr<const RevocationLists>;

extern "C" void free_lists(void* /*parent*/, void* lists, CRYPTO_EX_DATA* /*data*/, int /*index*/,
                           long /*number*/, void* /*pointer*/) {
  delete static_cast<ListsPtr*>(lists);
}

/// ex_data index of a SSL_CTX's ListsPtr*.
int lists_index() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, free_lists);
  return index;
}

// SE-141: OpenSSL's own check refuses every certificate whose issuer has no list.
extern "C" int verify_with_lists(X509_STORE_CTX* store, void* /*argument*/) {
  if (X509_verify_cert(store) != 1) {
    return 0;
  }
  const auto* ssl = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  const auto* lists =
      static_cast<const ListsPtr*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), lists_index()));
  const RevocationLists::Verdict verdict =
      (*lists)->judge(X509_STORE_CTX_get0_chain(store), unix_seconds());
  if (!verdict.holds) {
    X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REVOKED);
  }
  return verdict.holds ? 1 : 0;
}

/// Of this thread's last handshake with a server whose certificate does not hold.
thread_local std::string server_fault;

std::string time_text(const ASN1_TIME* time) {
  std::tm parts{};
  char text[32] = "";
  if (ASN1_TIME_to_tm(time, &parts) == 1) {
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  }
  return text;
}

/// What the certificate says where OpenSSL's words do not: its names, its days.
std::string what_it_says(X509* certificate, int cause) {
  switch (cause) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH: {
      std::string names;
      for (const std::string& name : certificate_names(certificate)) {
        names.append(names.empty() ? "" : ", ").append(name);
      }
      return "it is for " + (names.empty() ? "no name" : names);
    }
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return time_text(X509_get0_notAfter(certificate));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return time_text(X509_get0_notBefore(certificate));
    default:
      return "";
  }
}

extern "C" int note_server_fault(int holds, X509_STORE_CTX* store) {
  X509* const certificate = X509_STORE_CTX_get_current_cert(store);
  if (holds != 1 && certificate != nullptr) {
    server_fault = what_it_says(certificate, X509_STORE_CTX_get_error(store));
  }
  return holds;
}

// A ticket carries the client's own certificate and not its intermediates, without which auth/
// cannot build the chain: who sent some is asked for all of them again.
extern "C" int mark_ticket(SSL* ssl, void* /*argument*/) {
  static constexpr char kMark[] = "chain";
  return sk_X509_num(SSL_get_peer_cert_chain(ssl)) <= 0
             ? 1
             : SSL_SESSION_set1_ticket_appdata(SSL_get_session(ssl), kMark, sizeof kMark);
}

extern "C" SSL_TICKET_RETURN use_ticket(SSL* /*ssl*/, SSL_SESSION* session,
                                        const unsigned char* /*key_name*/, std::size_t /*size*/,
                                        SSL_TICKET_STATUS status, void* /*argument*/) {
  void* mark = nullptr;
  std::size_t size = 0;
  if (status != SSL_TICKET_SUCCESS && status != SSL_TICKET_SUCCESS_RENEW) {
    return SSL_TICKET_RETURN_IGNORE_RENEW;
  }
  if (SSL_SESSION_get0_ticket_appdata(session, &mark, &size) != 1 || size > 0) {
    return SSL_TICKET_RETURN_IGNORE_RENEW;
  }
  return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW;
}

extern "C" int select_alpn(SSL* /*ssl*/, const unsigned char** out, unsigned char* out_size,
                           const unsigned char* in, unsigned int in_size, void* argument) {
  const std::string_view ours = argument != nullptr ? kAlpn2 : kAlpn1;
  unsigned char* selected = nullptr;
  if (SSL_select_next_proto(
          &selected, out_size, reinterpret_cast<const unsigned char*>(ours.data()),
          static_cast<unsigned int>(ours.size()), in, in_size) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;  // no_application_protocol, RFC 7301 3.2
  }
  *out = selected;
  return SSL_TLSEXT_ERR_OK;
}

extern "C" int keep_session(SSL* ssl, SSL_SESSION* session) {
  auto* slot = static_cast<TlsSessionSlot*>(SSL_get_ex_data(ssl, tls_session_slot_index()));
  if (slot == nullptr) {
    return 0;
  }
  slot->put(session);
  return 1;
}

}  // namespace

int tls_session_slot_index() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

std::string take_server_fault(long cause) {
  const std::string says = std::exchange(server_fault, {});
  return X509_verify_cert_error_string(cause) + (says.empty() ? "" : " (" + says + ")");
}

std::string take_tls_error() {
  const char* data = nullptr;
  int flags = 0;
  const unsigned long code = ERR_get_error_all(nullptr, nullptr, nullptr, &data, &flags);
  if (code == 0) {
    return {};
  }
  const char* reason = ERR_reason_error_string(code);
  std::string text = reason != nullptr ? reason : "error " + std::to_string(ERR_GET_REASON(code));
  if ((flags & ERR_TXT_STRING) != 0 && data != nullptr && *data != '\0') {
    text.append(": ").append(data);
  }
  ERR_clear_error();
  return text;
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

void TlsContext::renew(std::shared_ptr<TlsContext> next) {
  used_.store(next->native());
  renewed_.push_back(std::move(next));
}

Expected<std::shared_ptr<TlsContext>> TlsContext::server(const TlsParams& params) {
  if (params.certificate_file.empty() && params.certificate_pem.empty()) {
    return fail(Errc::kConfig, "a TLS server needs a certificate");
  }
  Expected<CtxPtr> context = make_context(TLS_server_method(), params);
  if (!context) {
    return fail(std::move(context).error());
  }
  SSL_CTX* native = context->get();
  if (Expected<void> loaded = use_key_pair(native, params); !loaded) {
    return fail(std::move(loaded).error());
  }
  static constexpr unsigned char kSessionContext[] = "kintsugi";
  SSL_CTX_set_session_id_context(native, kSessionContext, sizeof kSessionContext - 1);
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);  // tickets carry the state
  SSL_CTX_set_num_tickets(native, 1);
  SSL_CTX_set_max_early_data(native, 0);  // SE-053: what comes early may be a repetition
  SSL_CTX_set_session_ticket_cb(native, mark_ticket, use_ticket, nullptr);
  static int http2_offered = 1;  // only its address matters
  SSL_CTX_set_alpn_select_cb(native, select_alpn, params.http2 ? &http2_offered : nullptr);
  if (params.request_client_certificate) {
    SSL_CTX_set_verify(native, SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_cert_verify_callback(native, accept_any_certificate, nullptr);
    SSL_CTX_set_max_cert_list(native, (kMostCertificates + 1) * kMostCertificateBytes);
    for (const std::string& file : params.client_ca_files) {
      Expected<Pem> pem = load(file, {}, "client CA");
      if (!pem) {
        return fail(std::move(pem).error());
      }
      Expected<std::vector<X509Ptr>> authorities = parse_certificates(*pem);
      if (!authorities) {
        return fail(std::move(authorities).error());
      }
      for (const X509Ptr& authority : *authorities) {
        if (SSL_CTX_add_client_CA(native, authority.get()) != 1) {
          return pem_error(pem->name, "CA name cannot be sent");
        }
      }
    }
  }
  return std::shared_ptr<TlsContext>(new TlsContext(context->release(), without_key(params)));
}

Expected<std::shared_ptr<TlsContext>> TlsContext::client(const TlsParams& params) {
  Expected<CtxPtr> context = make_context(TLS_client_method(), params);
  if (!context) {
    return fail(std::move(context).error());
  }
  SSL_CTX* native = context->get();
  if (!params.certificate_file.empty() || !params.certificate_pem.empty()) {
    if (Expected<void> loaded = use_key_pair(native, params); !loaded) {
      return fail(std::move(loaded).error());
    }
  }
  if (!params.ca_file.empty() || !params.ca_pem.empty()) {
    Expected<Pem> pem = load(params.ca_file, params.ca_pem, "CA");
    if (!pem) {
      return fail(std::move(pem).error());
    }
    Expected<std::vector<X509Ptr>> authorities = parse_certificates(*pem);
    if (!authorities) {
      return fail(std::move(authorities).error());
    }
    X509_STORE* store = SSL_CTX_get_cert_store(native);
    for (const X509Ptr& authority : *authorities) {
      if (X509_STORE_add_cert(store, authority.get()) != 1) {
        return pem_error(pem->name, "CA certificate cannot be used");
      }
    }
  } else if (params.verify_peer && SSL_CTX_set_default_verify_paths(native) != 1) {
    return fail(Errc::kConfig, "system CA certificates: " + take_tls_error());
  }
  SSL_CTX_set_verify(native, params.verify_peer ? SSL_VERIFY_PEER : SSL_VERIFY_NONE,
                     note_server_fault);
  if (params.verify_peer && params.revocations != nullptr) {
    SSL_CTX_set_ex_data(native, lists_index(), new ListsPtr(params.revocations));
    SSL_CTX_set_cert_verify_callback(native, verify_with_lists, nullptr);
  }
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_sess_set_new_cb(native, keep_session);
  return std::shared_ptr<TlsContext>(new TlsContext(context->release(), without_key(params)));
}

}  // namespace kintsugi::net
