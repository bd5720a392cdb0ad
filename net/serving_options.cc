#include "net/serving_options.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <memory>
#include <string_view>

namespace kintsugi::net {
namespace {

struct Named {
  std::string_view go, openssl;
};
constexpr Named kSuites[] = {
    {"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"},
    {"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"},
    {"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"},
    {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "ECDHE-ECDSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "ECDHE-RSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA-AES128-SHA"},
    {"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "ECDHE-ECDSA-AES256-SHA"},
    {"TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA"},
    {"TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"},
    {"TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384"},
};
/// Suites of TLS 1.3 cannot be chosen in Go; they are taken and change nothing.
constexpr std::string_view kSuites13[] = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384",
                                          "TLS_CHACHA20_POLY1305_SHA256"};
constexpr Named kCurves[] = {{"23", "P-256"}, {"24", "P-384"}, {"25", "P-521"}, {"29", "X25519"}};
constexpr Named kVersions[] = {
    {"VersionTLS10", ""}, {"VersionTLS11", ""}, {"VersionTLS12", ""}, {"VersionTLS13", ""}};

/// Names joined by ':'; the first that is unknown is an error.
template <class Table>
Expected<std::string> translate(const std::vector<std::string>& names, const Table& table,
                                const char* option) {
  std::string out;
  for (const std::string& name : names) {
    const auto* const found = std::find_if(std::begin(table), std::end(table),
                                           [&](const Named& one) { return one.go == name; });
    if (found == std::end(table)) {
      return fail(Errc::kConfig, std::string(option) + ": \"" + name + "\" is not known");
    }
    out += (out.empty() ? "" : ":") + std::string(found->openssl);
  }
  return out;
}

/// One pair of an SNI list, loaded.
struct SniContext {
  std::shared_ptr<TlsContext> context;
  std::vector<std::string> names;
};
using SniList = std::vector<SniContext>;

bool has_name(const SniContext& one, const char* host) {
  if (one.names.empty()) {
    X509* certificate = SSL_CTX_get0_certificate(one.context->native());
    return certificate != nullptr && X509_check_host(certificate, host, 0, 0, nullptr) == 1;
  }
  const std::string_view name(host);
  return std::any_of(one.names.begin(), one.names.end(), [name](const std::string& pattern) {
    if (!pattern.starts_with("*.")) {
      return name == pattern;
    }
    const std::size_t dot = name.find('.');
    return dot != std::string_view::npos && name.substr(dot) == std::string_view(pattern).substr(1);
  });
}

int choose_pair(SSL* ssl, int* /*alert*/, void* argument) {
  const char* host = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
  if (host == nullptr) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  for (const SniContext& one : *static_cast<const SniList*>(argument)) {
    if (has_name(one, host)) {
      SSL_CTX* native = one.context->native();
      const bool taken = SSL_use_certificate(ssl, SSL_CTX_get0_certificate(native)) == 1 &&
                         SSL_use_PrivateKey(ssl, SSL_CTX_get0_privatekey(native)) == 1;
      STACK_OF(X509)* chain = nullptr;
      if (taken && SSL_CTX_get0_chain_certs(native, &chain) == 1 && chain != nullptr) {
        SSL_set1_chain(ssl, chain);
      }
      ERR_clear_error();
      return taken ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
    }
  }
  return SSL_TLSEXT_ERR_NOACK;
}

void free_list(void* /*parent*/, void* list, CRYPTO_EX_DATA* /*data*/, int /*index*/,
               long /*number*/, void* /*pointer*/) {
  delete static_cast<SniList*>(list);
}

/// Where a context keeps its list, freed with it.
int list_index() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, free_list);
  return index;
}

Expected<void> apply_sni(SSL_CTX* native, const std::vector<SniPair>& pairs) {
  auto list = std::make_unique<SniList>();
  for (const SniPair& pair : pairs) {
    TlsParams params;
    params.certificate_file = pair.certificate_file;
    params.key_file = pair.key_file;
    auto loaded = TlsContext::server(params);
    if (!loaded) {
      return fail(std::move(loaded.error()));
    }
    list->push_back({std::move(*loaded), pair.names});
  }
  if (SSL_CTX_set_ex_data(native, list_index(), list.get()) != 1) {
    return fail(Errc::kInternal, "a TLS context takes no further certificates");
  }
  SSL_CTX_set_tlsext_servername_callback(native, choose_pair);
  SSL_CTX_set_tlsext_servername_arg(native, list.release());
  return {};
}

Expected<void> apply_version(SSL_CTX* native, const std::string& version) {
  if (version.empty()) {
    return {};
  }
  if (std::none_of(std::begin(kVersions), std::end(kVersions),
                   [&](const Named& one) { return one.go == version; })) {
    return fail(Errc::kConfig,
                "tls-min-version: \"" + version + "\" is none of VersionTLS10, … VersionTLS13");
  }
  // Older ones are allowed by the name only: nothing below 1.2 is spoken.
  const int number = version == "VersionTLS13" ? TLS1_3_VERSION : TLS1_2_VERSION;
  if (SSL_CTX_set_min_proto_version(native, number) != 1) {
    return fail(Errc::kConfig, "tls-min-version: \"" + version + "\" is not supported");
  }
  return {};
}

}  // namespace

Expected<void> apply_serving_options(TlsContext& context, const ServingOptions& options) {
  SSL_CTX* native = context.native();
  if (auto result = apply_version(native, options.min_version); !result) {
    return result;
  }
  std::vector<std::string> suites = options.cipher_suites;
  std::erase_if(suites, [](const std::string& name) {
    return std::find(std::begin(kSuites13), std::end(kSuites13), name) != std::end(kSuites13);
  });
  auto names = translate(suites, kSuites, "tls-cipher-suites");
  auto curves = translate(options.curves, kCurves, "tls-curve-preferences");
  if (!names || !curves) {
    return fail(std::move(!names ? names.error() : curves.error()));
  }
  if (!names->empty() && SSL_CTX_set_cipher_list(native, names->c_str()) != 1) {
    ERR_clear_error();
    return fail(Errc::kConfig, "tls-cipher-suites: " + *names + " cannot be used");
  }
  if (!curves->empty() && SSL_CTX_set1_groups_list(native, curves->c_str()) != 1) {
    ERR_clear_error();
    return fail(Errc::kConfig, "tls-curve-preferences: " + *curves + " cannot be used");
  }
  return options.sni.empty() ? Expected<void>() : apply_sni(native, options.sni);
}

}  // namespace kintsugi::net
