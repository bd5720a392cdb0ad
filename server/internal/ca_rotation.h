#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/secret.h"
#include "net/x509_maker.h"

/// How a CA of an installation is followed by another while everything runs (SE-145): the new one
/// is trusted beside the old one, then it issues, then the old one leaves. Each step is a list of
/// files to write in their order; a process that dies between two of them leaves what the next one
/// goes on from, and at every moment the key has its certificate in the bundle.
namespace kintsugi::server {

/// Files of one CA, by what is behind its name in `pki/`; "" = there is none.
struct CaFiles {
  std::string bundle;            ///< .crt: whom to trust; the issuer first, once it issues
  Secret key;                    ///< .key: of the issuer
  std::string next_certificate;  ///< .next.crt, until it issues
  Secret next_key;               ///< .next.key
  std::string former;            ///< .old.crt: that have issued here before
  std::string rotation;          ///< .rotation: times of the steps to come
};

/// When [s since 1970] leaves are issued by the new one, and when the old one is no longer trusted.
struct RotationTimes {
  std::int64_t leaves_at = 0, old_out_at = 0;
};

/// One file to write, in the place of what is there; or to remove.
struct CaWrite {
  std::string suffix;  ///< ".crt", ".key", …
  std::string text;    ///< "" and no key: remove it
  unsigned mode = 0644;
  Secret key = {};  ///< instead of text
};

/// Who trusts a CA has read a bundle again after this [s].
inline constexpr std::int64_t kReadersNeed = 120;

/// What is to be done now. Pure but for the key that a beginning makes.
/// @param begin    begins a rotation where none runs; none: 400 days before the issuer's end
/// @param old_used a pair of the installation that has not ended is of a former CA: it stays
/// @error kConfig the issuer's key has no certificate in the bundle
[[nodiscard]] Expected<std::vector<CaWrite>> plan_rotation(
    const std::string& common_name, const CaFiles& files, std::int64_t now, bool old_used,
    const std::optional<RotationTimes>& begin = std::nullopt);

/// Who issues now: the key, and its certificate alone. @error kConfig none of the bundle fits it.
[[nodiscard]] Expected<net::KeyPair> issuer_of(const CaFiles& files);

/// Certificates that have issued and do so no more.
[[nodiscard]] std::vector<std::string> former_of(const CaFiles& files);

/// nullopt: no rotation runs, or the file is not one of ours.
[[nodiscard]] std::optional<RotationTimes> times_of(const CaFiles& files);

}  // namespace kintsugi::server
