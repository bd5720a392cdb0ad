#include <string>
#include <vector>

#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/flags.h"
#include "cmd/kintsugi/span.h"
#include "krm/names.h"
#include "server/files.h"
#include "server/token_program.h"

namespace kintsugi::cmd {
namespace {

constexpr std::int64_t kLongestToken = 30 * std::int64_t{86'400};

struct Options {
  std::string dir = ".kintsugi";
  server::TokenOptions token;
};

FlagTable flag_table(Options& options) {
  return {
      {"Installation",
       {{"dir", "DIR", ".kintsugi", "folder of the installation", into(options.dir)}}},
      {"create",
       {{"role", "shard|proxy|proxy-reviewed", "", "what the bearer becomes",
         into(options.token.role)},
        {"name", "NAME", "", "of the shard or proxy", into(options.token.name)},
        {"host", "A,B,…", "127.0.0.1,::1,localhost",
         "DNS names and addresses of its serving certificate", into(options.token.hosts)},
        {"ttl", "TIME", "1h", "how long it is good; at most 30d", into_span(options.token.life)}}}};
}

int create(server::TokenOptions token) {
  if (token.role.empty() || token.name.empty()) {
    return complain("token create", "--role and --name are required", 2);
  }
  if (token.life < 1 || token.life > kLongestToken) {
    return complain("token create", "--ttl: 1s to 30d", 2);
  }
  if (!krm::check_dns1123_label(token.name).empty() || token.name == "root") {
    return complain("token create",
                    "--name: \"" + token.name + "\" is no name that a shard or proxy may take", 2);
  }
  if (token.hosts.empty()) {
    token.hosts = {"127.0.0.1", "::1", "localhost"};
  }
  return server::run_token_create(token);
}

}  // namespace

CommandAbout token_about() {
  Options options;
  return {
      "kintsugi token create|list|revoke [ID] [options]",
      "create  prints a token by which a shard or a proxy of another folder or machine joins the "
      "installation\n        of `kintsugi up --join-bind`. It is good once, and not kept: only a "
      "MAC of it is.\n"
      "list    tokens that are good, used or ended; nothing secret.\n"
      "revoke  makes a token worthless. What joined with it stays: revoke its certificates.",
      {"create", "list", "revoke"},
      without_setters(flag_table(options))};
}

int run_token(const std::vector<std::string>& arguments) {
  Options options;
  const auto words = take_arguments("token", flag_table(options), token_about, arguments);
  if (!words) {
    return words.error();
  }
  options.token.layout = {server::absolute_path(options.dir)};
  const std::string action = words->empty() ? "" : words->front();
  if (action == "create" && words->size() == 1) {
    return create(std::move(options.token));
  }
  if (action == "list" && words->size() == 1) {
    return server::run_token_list(options.token.layout);
  }
  if (action == "revoke" && words->size() == 2) {
    return server::run_token_revoke(options.token.layout, words->back());
  }
  return complain("token", "say one of create, list, revoke ID", 2);
}

}  // namespace kintsugi::cmd
