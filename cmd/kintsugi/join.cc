#include <cstdio>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "base/secret_file.h"
#include "base/strings.h"
#include "cmd/kintsugi/api_client.h"
#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/flags.h"
#include "server/files.h"
#include "server/join_files.h"

namespace kintsugi::cmd {
namespace {

struct Options {
  std::string url, token_file, pin, dir = ".kintsugi", bind = "127.0.0.1";
  std::uint16_t port = 6443;
};

FlagTable flag_table(Options& options) {
  return {
      {"Installation",
       {{"server", "URL", "", "where `kintsugi up --join-bind` listens", into(options.url)},
        {"token-file", "FILE", "",
         "the token; - for the standard input. It is in no argument: those are for all to see",
         into(options.token_file)},
        {"ca-hash", "sha256:HEX", "",
         "of the installation's CA, as `kintsugi token create` prints it", into(options.pin)}}},
      {"Here",
       {{"dir", "DIR", ".kintsugi", "folder for keys, certificates and data", into(options.dir)},
        {"bind", "ADDRESS", "127.0.0.1", "a proxy's: for the proxy.yaml that is written",
         into(options.bind)},
        {"port", "PORT", "6443", "the same", into(options.port)}}}};
}

Expected<Secret> read_token(const std::string& file) {
  Secret text;
  if (file == "-") {
    std::string line;
    std::getline(std::cin, line);
    text = Secret(std::move(line));
  } else {
    auto read = read_secret_file(file);
    if (!read) {
      return read;
    }
    text = std::move(*read);
  }
  return Secret::copy_of(trim(text.view().substr(0, text.view().find('\n'))));
}

/// The CA first: before it is known to be the one that is meant, nothing is told.
Expected<std::string> learn_authority(const Options& options) {
  server::KubeAccess access;
  access.insecure = true;
  auto client = ApiClient::make(access, options.url);
  auto answer = client ? (*client)->send("GET", "/join/v1/authority")
                       : Expected<krm::Json>(fail(std::move(client.error())));
  if (!answer) {
    return fail(std::move(answer.error()));
  }
  std::string pinned =
      server::pinned_authorities(std::string(answer->text({"authority"})), options.pin);
  if (pinned.empty()) {
    return fail(Errc::kTls, options.url + " has no CA of --ca-hash; nothing was sent there");
  }
  return pinned;
}

Expected<std::string> join(const Options& options) {
  auto token = read_token(options.token_file);
  auto authority =
      token ? learn_authority(options) : Expected<std::string>(fail(std::move(token.error())));
  auto keys = authority ? server::make_join_keys()
                        : Expected<server::JoinKeys>(fail(std::move(authority.error())));
  if (!keys) {
    return fail(std::move(keys.error()));
  }
  server::KubeAccess access;
  access.ca_pem = *authority;
  auto client = ApiClient::make(access, options.url);
  if (!client) {
    return fail(std::move(client.error()));
  }
  krm::Json body = krm::Json::object({{"token", token->view()}});
  for (const auto& [use, request] : keys->request_pem) {
    body.make({"requests", use}) = request;
  }
  auto answer = (*client)->send("POST", "/join/v1", body);
  if (!answer) {
    return fail(std::move(answer.error()));
  }
  return server::write_joined({{server::absolute_path(options.dir)}, options.bind, options.port},
                              *answer, *keys);
}

}  // namespace

CommandAbout join_about() {
  Options options;
  return {"kintsugi join --server URL --token-file FILE --ca-hash sha256:HEX [options]",
          "Joins the installation of a `kintsugi up --join-bind` with a token of `kintsugi token "
          "create`: makes keys,\nwhich stay here, has them certified and writes what `kintsugi "
          "shard --join DIR` or `kintsugi proxy`\nneeds. A new token before the certificates end "
          "makes new ones, in the same folder.",
          {},
          without_setters(flag_table(options))};
}

int run_join(const std::vector<std::string>& arguments) {
  Options options;
  if (const auto status = take_options("join", flag_table(options), join_about, arguments)) {
    return *status;
  }
  if (options.url.empty() || options.token_file.empty() || !options.pin.starts_with("sha256:") ||
      !options.url.starts_with("https://")) {
    return complain("join", "--server https://…, --token-file and --ca-hash sha256:… are required",
                    2);
  }
  const auto next = join(options);
  if (!next) {
    return complain("join", next.error());
  }
  std::printf("joined; now:\n\n  %s\n", next->c_str());
  return 0;
}

}  // namespace kintsugi::cmd
