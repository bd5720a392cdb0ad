#include "server/internal/ca_rotation.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "auth/certificate_end.h"
#include "base/strings.h"

namespace kintsugi::server {
namespace {

constexpr int kCaDays = 3650;
constexpr std::int64_t kDay = 86'400;
/// A leaf lives 365 days: with the time in which everybody comes to trust the new one, and some to
/// spare, the old one ends after all that it issued.
constexpr std::int64_t kBeforeEnd = 400 * kDay;
constexpr std::int64_t kToTrust = 20 * kDay, kLongestLeaf = 365 * kDay;

bool has(const std::vector<std::string>& certificates, const std::string& one) {
  return std::find(certificates.begin(), certificates.end(), one) != certificates.end();
}

std::string joined(const std::vector<std::string>& certificates) {
  std::string text;
  for (const std::string& one : certificates) {
    text += one;
  }
  return text;
}

std::string text_of_times(const RotationTimes& times) {
  return "leaves_at " + std::to_string(times.leaves_at) + "\nold_out_at " +
         std::to_string(times.old_out_at) + "\n";
}

/// Where nobody said: as late as the old one's end allows.
RotationTimes usual_times(std::int64_t now, std::int64_t end) {
  const std::int64_t patience = end - now > kLongestLeaf ? kToTrust : kReadersNeed;
  return {now + patience, now + patience + kLongestLeaf};
}

using Writes = std::vector<CaWrite>;

/// A new CA beside the one that issues. Its pair is there before anything says that it comes.
Expected<Writes> plan_beginning(const std::string& common_name, const CaFiles& files,
                                RotationTimes times, std::int64_t now) {
  Writes writes;
  std::string next = files.next_certificate;
  if (!net::is_key_of(files.next_certificate, files.next_key)) {
    // A name of its own: a list of revoked certificates is found by its issuer's name.
    auto pair = net::make_ca(common_name + "-" + std::to_string(now), kCaDays);
    if (!pair) {
      return fail(std::move(pair.error()));
    }
    next = pair->certificate_pem;
    writes.push_back({".next.key", "", 0600, std::move(pair->key_pem)});
    writes.push_back({".next.crt", std::move(pair->certificate_pem)});
  }
  times.leaves_at = std::max(times.leaves_at, now + kReadersNeed);
  times.old_out_at = std::max(times.old_out_at, times.leaves_at + kReadersNeed);
  writes.push_back({".rotation", text_of_times(times)});
  std::vector<std::string> bundle = net::split_certificates(files.bundle);
  if (!has(bundle, next)) {
    bundle.push_back(std::move(next));
    writes.push_back({".crt", joined(bundle)});
  }
  return writes;
}

/// The new one issues. Its key comes before the order of the bundle: either has the other.
Writes plan_change(const CaFiles& files, const std::string& issuer) {
  Writes writes;
  const std::string next = net::split_certificates(files.next_certificate).front();
  if (issuer != next) {
    std::vector<std::string> former = net::split_certificates(files.former);
    if (!has(former, issuer)) {
      former.push_back(issuer);
      writes.push_back({".old.crt", joined(former)});
    }
    writes.push_back({".key", "", 0600, files.next_key});
  }
  std::vector<std::string> bundle = net::split_certificates(files.bundle);
  if (bundle.front() != next) {
    std::erase(bundle, next);
    bundle.insert(bundle.begin(), next);
    writes.push_back({".crt", joined(bundle)});
  }
  if (!files.next_key.empty()) {
    writes.push_back({".next.key", ""});
  }
  writes.push_back({".next.crt", ""});
  return writes;
}

Writes plan_end(const CaFiles& files) {
  Writes writes;
  std::vector<std::string> bundle = net::split_certificates(files.bundle);
  const std::vector<std::string> former = former_of(files);
  if (std::erase_if(bundle, [&](const std::string& one) { return has(former, one); }) > 0) {
    writes.push_back({".crt", joined(bundle)});
  }
  writes.push_back({".rotation", ""});
  return writes;
}

}  // namespace

Expected<net::KeyPair> issuer_of(const CaFiles& files) {
  for (std::string& certificate : net::split_certificates(files.bundle)) {
    if (net::is_key_of(certificate, files.key)) {
      return net::KeyPair{std::move(certificate), files.key};
    }
  }
  return fail(Errc::kConfig, "no certificate of the CA belongs to its key");
}

std::vector<std::string> former_of(const CaFiles& files) {
  std::vector<std::string> former = net::split_certificates(files.former);
  std::erase_if(former, [&](const std::string& one) { return net::is_key_of(one, files.key); });
  return former;
}

std::optional<RotationTimes> times_of(const CaFiles& files) {
  const std::vector<std::string_view> lines = split(files.rotation, '\n');
  constexpr std::string_view kLeaves = "leaves_at ", kOld = "old_out_at ";
  if (lines.size() < 2 || !lines[0].starts_with(kLeaves) || !lines[1].starts_with(kOld)) {
    return std::nullopt;
  }
  const auto leaves = parse_decimal<std::int64_t>(lines[0].substr(kLeaves.size()));
  const auto old_out = parse_decimal<std::int64_t>(lines[1].substr(kOld.size()));
  return leaves && old_out ? std::optional(RotationTimes{*leaves, *old_out}) : std::nullopt;
}

Expected<Writes> plan_rotation(const std::string& common_name, const CaFiles& files,
                               std::int64_t now, bool old_used,
                               const std::optional<RotationTimes>& begin) {
  const auto issuer = issuer_of(files);
  if (!issuer) {
    return fail(issuer.error().clone());
  }
  const std::optional<RotationTimes> times = times_of(files);
  if (!times) {
    const std::int64_t end = auth::first_end_of(issuer->certificate_pem).value_or(now);
    if (begin) {
      return plan_beginning(common_name, files, *begin, now);
    }
    return end - now < kBeforeEnd ? plan_beginning(common_name, files, usual_times(now, end), now)
                                  : Writes();
  }
  const std::vector<std::string> next = net::split_certificates(files.next_certificate);
  if (next.empty()) {
    return now >= times->old_out_at && !old_used ? plan_end(files) : Writes();
  }
  if (!has(net::split_certificates(files.bundle), next.front())) {
    return plan_beginning(common_name, files, *times, now);
  }
  return now >= times->leaves_at ? plan_change(files, issuer->certificate_pem) : Writes();
}

}  // namespace kintsugi::server
