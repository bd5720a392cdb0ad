#include "server/pki_program.h"

#include <cstdio>
#include <ctime>

#include "base/time.h"
#include "server/files.h"
#include "server/internal/pki.h"
#include "server/program.h"

namespace kintsugi::server {
namespace {

Expected<void> check_installation(const Pki& pki) {
  for (const std::string& name : Pki::authorities()) {
    if (!file_exists(pki.certificate(name))) {
      return fail(Errc::kConfig,
                  pki.certificate(name) + " is missing: --dir is no folder of `kintsugi up`");
    }
  }
  return {};
}

void tell(const std::string& name, const CaStatus& status) {
  const auto day = [](std::int64_t at) { return rfc3339(at); };
  std::printf("%s: %zu trusted, ends %s", name.c_str(), status.ends.size(),
              day(status.ends.empty() ? 0 : status.ends.front()).c_str());
  if (status.times && !status.is_changed) {
    std::printf("; another one issues from %s on", day(status.times->leaves_at).c_str());
  }
  if (status.times) {
    std::printf("; the old one leaves at %s", day(status.times->old_out_at).c_str());
  }
  std::printf("\n");
}

}  // namespace

int run_rotate_program(const RotateOptions& options) {
  const Pki pki(options.layout.pki());
  if (auto there = check_installation(pki); !there) {
    return complain("pki rotate-ca", there.error());
  }
  const std::int64_t now = std::time(nullptr);
  const RotationTimes times{now + options.leaves_after, now + options.old_out_after};
  for (const std::string& name :
       options.authorities.empty() ? Pki::authorities() : options.authorities) {
    if (auto begun = pki.begin_rotation(name, times); !begun) {
      return complain("pki rotate-ca", begun.error());
    }
  }
  return run_pki_status_program(options.layout);
}

int run_pki_status_program(const Layout& layout) {
  const Pki pki(layout.pki());
  if (auto there = check_installation(pki); !there) {
    return complain("pki status", there.error());
  }
  for (const std::string& name : Pki::authorities()) {
    const auto status = pki.status(name);
    if (!status) {
      return complain("pki status", status.error());
    }
    tell(name, *status);
  }
  return 0;
}

}  // namespace kintsugi::server
