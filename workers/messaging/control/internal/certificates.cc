#include "workers/messaging/control/internal/certificates.h"

#include <algorithm>
#include <vector>

#include "base/digest.h"
#include "base/strings.h"
#include "workers/messaging/model/names.h"

namespace kintsugi::workers {

namespace {

constexpr std::string_view kWritten = "enmasse.io/written-at", kRenew = "enmasse.io/renew-at";

std::int64_t annotation(const krm::Json& secret, std::string_view name) {
  const std::string_view text = secret.text({"metadata", "annotations", name});
  return parse_decimal<std::int64_t>(text).value_or(0);
}

std::string plain(const krm::Json& secret, std::string_view key) {
  const std::optional<Secret> value = secret_value(secret, key);
  return value ? std::string(value->view()) : std::string();
}

}  // namespace

std::string profile_hash(std::string_view identity, const CertificateFiles& files) {
  const Secret all = Secret::joined(
      {identity, "\n", files.certificate, "\n", files.authority, "\n", files.key.view()});
  return hash_letters(all.view(), 20);
}

std::string profile_secret_name(std::string_view hash) {
  return std::string("ktg-certificate-").append(hash);
}

std::string authority_secret_name(std::string_view infra) {
  return "ktg-ca-" + hash_letters(infra, 26);
}

std::string leaf_secret_name(std::string_view identity) {
  return "ktg-leaf-" + hash_letters(identity, 26);
}

krm::Json certificate_secret(std::string_view name, std::string_view ns,
                             const CertificateFiles& files, std::int64_t written,
                             std::int64_t renew) {
  krm::Json out = krm::Json::object({{"apiVersion", "v1"}, {"kind", "Secret"}, {"type", "Opaque"}});
  krm::Json& metadata = out["metadata"];
  metadata["name"] = name;
  metadata["namespace"] = ns;
  metadata["labels"] = krm::Json::object({{"app.kubernetes.io/managed-by", "kintsugi"}});
  if (written > 0) {
    metadata["annotations"][kWritten] = std::to_string(written);
  }
  if (renew > 0) {
    metadata["annotations"][kRenew] = std::to_string(renew);
  }
  krm::Json& data = out["data"];
  const auto add = [&data](std::string_view key, std::string_view value) {
    if (!value.empty()) {
      data[key] = base64_encode(value);
    }
  };
  add("tls.crt", files.certificate);
  add("tls.key", files.key.view());
  add("ca.crt", files.authority);
  return out;
}

std::optional<Secret> secret_value(const krm::Json& secret, std::string_view key) {
  const krm::Json* const data = secret.find("data");
  const krm::Json* const value = data == nullptr ? nullptr : data->find(key);
  if (value == nullptr || !value->is_string()) {
    return std::nullopt;
  }
  std::optional<std::string> bytes = base64_decode(value->as_string());
  return bytes ? std::optional(Secret(std::move(*bytes))) : std::nullopt;
}

CertificateFiles files_of(const krm::Json& secret) {
  return {plain(secret, "tls.crt"), plain(secret, "ca.crt"),
          secret_value(secret, "tls.key").value_or(Secret())};
}

std::int64_t written_at(const krm::Json& secret) { return annotation(secret, kWritten); }

bool is_our_secret(const krm::Json& secret) noexcept {
  return secret.text({"metadata", "labels", "app.kubernetes.io/managed-by"}) == "kintsugi";
}

std::string trusted(const std::string& authority, const std::string& before) {
  const std::vector<std::string> known = net::split_certificates(before);
  const std::vector<std::string> now = net::split_certificates(authority);
  if (now.empty()) {
    return authority;
  }
  std::string out = now.front();
  const auto other = std::find_if(known.begin(), known.end(),
                                  [&](const std::string& one) { return one != now.front(); });
  return other == known.end() ? out : out + *other;
}

bool is_to_be_renewed(const krm::Json& secret, const net::KeyPair* issuer,
                      const net::CertificateRequest& request, std::int64_t now) {
  const CertificateFiles files = files_of(secret);
  const std::int64_t renew = annotation(secret, kRenew);
  if (files.certificate.empty() || files.key.empty() || renew <= 0 || renew <= now ||
      !net::is_key_of(files.certificate, files.key)) {
    return true;
  }
  return issuer != nullptr && (!net::is_issued_by(files.certificate, issuer->certificate_pem) ||
                               !net::is_for(files.certificate, request));
}

ProfileStep profile_step(const ProfileFacts& facts) noexcept {
  ProfileStep out;
  if (!facts.written) {
    out.write = true;
    // What is in force stays: routers have read its files.
    out.use = facts.delay > 0 ? facts.in_force : facts.wanted;
    out.wait = facts.wanted == facts.in_force ? 0 : facts.delay;
    return out;
  }
  // A clock that went back makes nobody wait longer than the delay.
  const std::int64_t left = std::min(facts.delay, *facts.written + facts.delay - facts.now);
  if (facts.wanted == facts.in_force || left <= 0) {
    out.use = facts.wanted;
    return out;
  }
  out.use = facts.in_force;
  out.wait = left;
  return out;
}

}  // namespace kintsugi::workers
