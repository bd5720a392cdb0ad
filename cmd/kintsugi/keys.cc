#include <cstdio>
#include <string>
#include <vector>

#include "cmd/kintsugi/admin_client.h"
#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/flags.h"

namespace kintsugi::cmd {
namespace {

FlagTable flag_table(std::string& admin) { return {{"Options", {admin_flag(admin)}}}; }

}  // namespace

CommandAbout keys_about() {
  std::string admin;
  return {"kintsugi keys rotate [options]",
          "rotate  gives a running proxy, and those that share its store, a new key of `continue` "
          "tokens and TLS\n        session tickets: all know it for a minute before it is used, "
          "and the old one is accepted for a day after that.",
          {"rotate"},
          without_setters(flag_table(admin))};
}

int run_keys(const std::vector<std::string>& arguments) {
  std::string admin;
  const auto words = take_arguments("keys", flag_table(admin), keys_about, arguments);
  if (!words) {
    return words.error();
  }
  if (words->size() != 1 || words->front() != "rotate") {
    return complain("keys", "say rotate", 2);
  }
  if (auto answer = ask_admin(admin_socket(admin), "/keys/rotate", "POST"); !answer) {
    return complain("keys rotate", answer.error());
  }
  std::puts("a new key is known now; it is used in a minute, and the old one accepted for a day");
  return 0;
}

}  // namespace kintsugi::cmd
