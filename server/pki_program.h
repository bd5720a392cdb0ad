#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/layout.h"

namespace kintsugi::server {

/// Which CAs of an installation are to be replaced, and how slowly (SE-145).
struct RotateOptions {
  Layout layout;
  std::vector<std::string> authorities;  ///< names in pki/; empty: all
  std::int64_t leaves_after = 3'600;     ///< [s] from now: in which all come to trust the new one
  std::int64_t old_out_after = 366 * std::int64_t{86'400};  ///< [s] from now
};

/// Begins it; `kintsugi up` goes on, running or at its next start.
/// @returns the exit status, after what was done or the one line of why not.
int run_rotate_program(const RotateOptions& options);

/// Prints how it stands with each CA.
int run_pki_status_program(const Layout& layout);

}  // namespace kintsugi::server
