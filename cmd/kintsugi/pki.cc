#include <algorithm>
#include <string>
#include <vector>

#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/flags.h"
#include "cmd/kintsugi/span.h"
#include "server/files.h"
#include "server/pki_program.h"

namespace kintsugi::cmd {
namespace {

const std::vector<std::string> kAuthorities = {"client-ca", "requestheader-ca", "serving-ca"};

/// As typed.
struct Options {
  std::string dir = ".kintsugi";
  server::RotateOptions rotate;
};

FlagTable flag_table(Options& options) {
  return {{"Installation",
           {{"dir", "DIR", ".kintsugi", "folder of the installation", into(options.dir)}}},
          {"rotate-ca",
           {{"ca", "A,B,…", "client-ca,requestheader-ca,serving-ca", "which CAs are replaced",
             into(options.rotate.authorities)},
            {"leaves-after", "TIME", "1h",
             "when the new CA begins to issue; until then everybody must trust it, also who has a "
             "kubeconfig elsewhere; at least 2m",
             into_span(options.rotate.leaves_after)},
            {"old-out-after", "TIME", "366d",
             "when the old CA is trusted no more; later while a certificate of it is in use",
             into_span(options.rotate.old_out_after)}}}};
}

}  // namespace

CommandAbout pki_about() {
  Options options;
  return {
      "kintsugi pki rotate-ca|status [options]",
      "rotate-ca  makes new CAs for an installation of `kintsugi up`, which does the rest while "
      "it runs, or\n           when it starts: the new one is trusted beside the old one, then "
      "it issues, then the old one\n           leaves. Nothing is restarted, no watch ends.\n"
      "status     how long CAs last, and what is to come.",
      {"rotate-ca", "status"},
      without_setters(flag_table(options))};
}

int run_pki(const std::vector<std::string>& arguments) {
  Options options;
  const auto words = take_arguments("pki", flag_table(options), pki_about, arguments);
  if (!words) {
    return words.error();
  }
  const std::string action = words->size() == 1 ? words->front() : "";
  options.rotate.layout = {server::absolute_path(options.dir)};
  if (action == "status") {
    return server::run_pki_status_program(options.rotate.layout);
  }
  if (action != "rotate-ca") {
    return complain("pki", "say one of rotate-ca, status", 2);
  }
  for (const std::string& name : options.rotate.authorities) {
    if (std::find(kAuthorities.begin(), kAuthorities.end(), name) == kAuthorities.end()) {
      return complain("pki rotate-ca",
                      "--ca: \"" + name + "\" is none of client-ca, requestheader-ca, serving-ca",
                      2);
    }
  }
  if (options.rotate.leaves_after < 120 ||
      options.rotate.old_out_after < options.rotate.leaves_after + 120) {
    return complain("pki rotate-ca",
                    "--leaves-after is 2m at least, --old-out-after 2m more than that", 2);
  }
  return server::run_rotate_program(options.rotate);
}

}  // namespace kintsugi::cmd
