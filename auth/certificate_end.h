#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kintsugi::auth {

/// When the first of the certificates in a PEM text ends [s since 1970]; what else it holds (keys)
/// is skipped. nullopt: there is none, or one that is broken.
[[nodiscard]] std::optional<std::int64_t> first_end_of(std::string_view pem) noexcept;

/// Whether the first certificate in a PEM text is of an organization (O), which is a group. False
/// for what cannot be read.
[[nodiscard]] bool is_of_organization(std::string_view pem, std::string_view organization);

/// The name of the first certificate's subject; "": there is none.
[[nodiscard]] std::string common_name_of(std::string_view pem);

/// What a certificate is for.
struct CertificateFacts {
  std::int64_t begins = 0, ends = 0;  ///< [s since 1970]
  bool is_ca = false, for_servers = false, for_clients = false;
  std::vector<std::string> names;  ///< DNS names and addresses that it has, at most 16
};
/// Of the first certificate in a PEM text; nullopt: there is none that can be read.
[[nodiscard]] std::optional<CertificateFacts> facts_of(std::string_view pem);
/// Whether the first certificate is for a server of this name or address.
[[nodiscard]] bool names_host(std::string_view pem, const std::string& host);

}  // namespace kintsugi::auth
