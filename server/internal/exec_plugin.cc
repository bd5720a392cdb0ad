#include "server/internal/exec_plugin.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string_view>

#include "base/log.h"
#include "base/time.h"
#include "http/wire.h"
#include "krm/json.h"
#include "krm/strict_time.h"

extern char** environ;

namespace kintsugi::server {
namespace {

using krm::Json;

constexpr std::size_t kMaxText = std::size_t{2} << 20;          // of a question or an answer
constexpr std::int64_t kMargin = 30, kRetry = 10, kFailed = 2;  // [s]

enum class Way : std::uint8_t { kHere, kHelper, kNone };
std::atomic<Way> way{Way::kHere};
int helper_fd = -1;
std::mutex helper_mutex;  // of the way to the helper, and of:
bool helper_stopped = false;
std::set<int>& conversations() {               // one for each plug-in that runs
  static auto* const all = new std::set<int>;  // threads may wait in one when the process ends
  return *all;
}

struct Known {
  ExecPlugin plugin;
  ExecCredential says;
  std::int64_t asked = 0, next = 0;  // [unix seconds]; next: after a failure
};
struct Failure {
  std::string text;
  std::int64_t until = 0;  // [unix seconds]
};
std::map<std::string, Failure>& failures() {
  static std::map<std::string, Failure> all;
  return all;
}
std::mutex known_mutex;  // of both
std::map<std::string, Known>& known() {
  static std::map<std::string, Known> all;
  return all;
}

std::string monologue(const ExecPlugin& plugin) {
  Json info = Json::object({{"apiVersion", plugin.api_version},
                            {"kind", "ExecCredential"},
                            {"spec", Json::object({{"interactive", false}})}});
  if (!plugin.cluster.empty()) {
    if (auto cluster = Json::parse(plugin.cluster)) {
      info.make({"spec", "cluster"}) = std::move(*cluster);
    }
  }
  return info.dump();
}

/// The question as the helper gets it.
std::string question_of(const ExecPlugin& plugin, const ExecLimits& limits = {}) {
  Json words = Json::array();
  words.push_back(plugin.command);
  for (const std::string& argument : plugin.arguments) {
    words.push_back(argument);
  }
  Json environment = Json::array();
  for (const auto& [name, value] : plugin.environment) {
    environment.push_back(name + "=" + value);
  }
  environment.push_back("KUBERNETES_EXEC_INFO=" + monologue(plugin));
  return Json::object({{"words", std::move(words)},
                       {"environment", std::move(environment)},
                       {"seconds", limits.seconds},
                       {"bytes", static_cast<std::int64_t>(limits.bytes)}})
      .dump();
}

/// Reads what the program prints; nothing after its time or beyond the bound.
bool read_output(int fd, std::string& text, const ExecLimits& limits) {
  const std::int64_t end = unix_seconds() + limits.seconds;
  for (;;) {
    pollfd ready{fd, POLLIN, 0};
    const std::int64_t left = end - unix_seconds();
    if (left <= 0 || ::poll(&ready, 1, static_cast<int>(left * 1000)) == 0) {
      return false;
    }
    char bytes[4096];
    const ssize_t got = ::read(fd, bytes, sizeof bytes);
    if (got == 0) {
      return true;
    }
    if (got < 0 && errno != EINTR) {
      return false;
    }
    text.append(bytes, got > 0 ? static_cast<std::size_t>(got) : 0);
    if (text.size() > limits.bytes + 1) {
      return false;
    }
  }
}

/// In the child, which has only these.
[[noreturn]] void become(const std::vector<std::string>& words,
                         const std::vector<std::string>& environment, int out) {
  ::setpgid(0, 0);  // what it starts can be ended with it
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD}) {
    std::signal(number, SIG_DFL);
  }
  std::vector<char*> arguments, variables;
  for (const std::string& word : words) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  for (const std::string& variable : environment) {  // the first one of a name counts
    variables.push_back(const_cast<char*>(variable.c_str()));
  }
  for (char** one = environ; *one != nullptr; ++one) {
    variables.push_back(*one);
  }
  variables.push_back(nullptr);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, 0);
  ::dup2(out, 1);
  ::close_range(3, ~0U, 0);
  ::execvpe(arguments.front(), arguments.data(), variables.data());
  ::_exit(127);
}

/// "+" and what the program printed, or "-" and what went wrong.
std::string run_program(const std::string& question) {
  const auto asked = Json::parse(question);
  std::vector<std::string> words, environment;
  for (const Json& word : asked->find("words")->items()) {
    words.emplace_back(word.as_string());
  }
  for (const Json& variable : asked->find("environment")->items()) {
    environment.emplace_back(variable.as_string());
  }
  const ExecLimits limits{asked->find("seconds")->as_integer(),
                          static_cast<std::size_t>(asked->find("bytes")->as_integer())};
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return std::string("-") + std::strerror(errno);
  }
  const pid_t child = ::fork();
  if (child == 0) {
    become(words, environment, ends[1]);
  }
  ::close(ends[1]);
  std::string text = "+";
  const bool whole = child > 0 && read_output(ends[0], text, limits);
  ::close(ends[0]);
  if (child < 0) {
    return std::string("-") + std::strerror(errno);
  }
  if (!whole) {
    ::kill(-child, SIGKILL);
    ::kill(child, SIGKILL);  // before it had a group
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!whole) {
    return "-it did not end within " + std::to_string(limits.seconds) +
           " s, or printed more than " + std::to_string(limits.bytes >> 10) + " KiB";
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return WIFEXITED(status) && WEXITSTATUS(status) == 127
               ? "-there is no such program"
               : "-it ended with status " + std::to_string(WEXITSTATUS(status));
  }
  return text;
}

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) {
      return false;
    }
    bytes.remove_prefix(sent > 0 ? static_cast<std::size_t>(sent) : 0);
  }
  return true;
}

bool receive_all(int fd, char* to, std::size_t size) {
  while (size > 0) {
    const ssize_t got = ::recv(fd, to, size, 0);
    if (got == 0 || (got < 0 && errno != EINTR)) {
      return false;
    }
    to += got > 0 ? got : 0;
    size -= got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  return true;
}

/// A length, four bytes of this machine, and the text.
bool send_text(int fd, const std::string& text) {
  const auto size = static_cast<std::uint32_t>(text.size());
  return send_all(fd, {reinterpret_cast<const char*>(&size), sizeof size}) && send_all(fd, text);
}
bool receive_text(int fd, std::string& text) {
  std::uint32_t size = 0;
  if (!receive_all(fd, reinterpret_cast<char*>(&size), sizeof size) || size > kMaxText) {
    return false;
  }
  text.resize(size);
  return receive_all(fd, text.data(), size);
}

/// A descriptor with one byte that means nothing.
bool send_descriptor(int by, int sent) {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof sent)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof sent);
  std::memcpy(CMSG_DATA(head), &sent, sizeof sent);
  ssize_t done = 0;
  do {
    done = ::sendmsg(by, &message, MSG_NOSIGNAL);
  } while (done < 0 && errno == EINTR);
  return done == 1;
}

/// -1: nobody sends any more.
int receive_descriptor(int by) {
  for (;;) {
    char byte = 0;
    iovec part{&byte, 1};
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    const ssize_t got = ::recvmsg(by, &message, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    const cmsghdr* const head = got == 1 ? CMSG_FIRSTHDR(&message) : nullptr;
    if (head == nullptr || head->cmsg_type != SCM_RIGHTS) {
      return -1;
    }
    int received = -1;
    std::memcpy(&received, CMSG_DATA(head), sizeof received);
    return received;
  }
}

/// Of the helper, a child for one plug-in: it ends when nobody waits for the answer any more.
[[noreturn]] void converse(int fd, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) {
    ::_exit(1);
  }
  std::signal(SIGCHLD, SIG_DFL);
  std::string question;
  if (receive_text(fd, question)) {
    (void)send_text(fd, run_program(question));
  }
  ::_exit(0);
}

[[noreturn]] void serve_as_helper(int fd) {
  ::prctl(PR_SET_NAME, "kin-exec");
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    std::signal(number, SIG_IGN);  // it ends when nobody asks any more
  }
  std::signal(SIGCHLD, SIG_IGN);  // nobody asks how its children ended
  const pid_t self = ::getpid();
  for (int conversation = receive_descriptor(fd); conversation >= 0;
       conversation = receive_descriptor(fd)) {
    if (::fork() == 0) {
      converse(conversation, self);
    }
    ::close(conversation);
  }
  ::_exit(0);
}

/// Our end of a conversation with the helper; -1: it is gone.
int begin_conversation() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return -1;
  }
  const std::lock_guard<std::mutex> lock(helper_mutex);
  const bool begun = !helper_stopped && send_descriptor(helper_fd, ends[1]);
  ::close(ends[1]);
  if (!begun) {
    ::close(ends[0]);
    return -1;
  }
  conversations().insert(ends[0]);
  return ends[0];
}

std::string ask_helper(const std::string& question) {
  const int fd = begin_conversation();
  std::string answer;
  const bool told = fd >= 0 && send_text(fd, question) && receive_text(fd, answer);
  if (fd >= 0) {
    const std::lock_guard<std::mutex> lock(helper_mutex);
    conversations().erase(fd);
    ::close(fd);
  }
  return told ? answer : "-the helper that runs it is gone";
}

/// Runs it. @error kConfig
Expected<ExecCredential> ask(const ExecPlugin& plugin, const ExecLimits& limits = {}) {
  if (way == Way::kNone) {
    return fail(Errc::kConfig, "exec: \"" + plugin.command +
                                   "\": no kubeconfig had one at the start, which makes who runs "
                                   "it: needs a restart");
  }
  const std::string question = question_of(plugin, limits);
  const std::string answer = way == Way::kHelper ? ask_helper(question) : run_program(question);
  Expected<ExecCredential> says =
      answer.starts_with('+')
          ? read_exec_credential(answer.substr(1), plugin.api_version)
          : Expected<ExecCredential>(
                fail(Errc::kConfig, answer.substr(std::min<std::size_t>(1, answer.size()))));
  if (!says) {
    return fail(Errc::kConfig,
                "exec: \"" + plugin.command + "\": " + std::string(says.error().message()));
  }
  return says;
}

/// When it is asked for again: before it ends, by half a minute or a fifth of what was left of it.
std::int64_t renewal_of(const Known& one) {
  if (one.says.ends == 0) {
    return 0;
  }
  const std::int64_t life = std::max<std::int64_t>(one.says.ends - one.asked, 0);
  return std::max(one.says.ends - std::min(kMargin, life / 5), one.next);
}

bool is_due(const Known& one, bool all, std::int64_t now) {
  const std::int64_t at = renewal_of(one);
  return (at != 0 && now >= at) || (all && now >= std::max(one.asked, one.next) + kRetry);
}

}  // namespace

Expected<void> start_exec_helper() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return fail(Errc::kIo, std::string("exec: ") + std::strerror(errno));
  }
  const pid_t child = ::fork();
  if (child < 0) {
    return fail(Errc::kIo, std::string("exec: ") + std::strerror(errno));
  }
  if (child == 0) {
    ::close(ends[0]);
    serve_as_helper(ends[1]);
  }
  ::close(ends[1]);
  helper_fd = ends[0];
  way = Way::kHelper;
  return {};
}

void stop_exec_helper() noexcept {
  const std::lock_guard<std::mutex> lock(helper_mutex);
  helper_stopped = true;
  if (helper_fd >= 0) {
    ::shutdown(helper_fd, SHUT_RDWR);
  }
  for (const int conversation : conversations()) {
    ::shutdown(conversation, SHUT_RDWR);
  }
}

void refuse_exec_plugins() noexcept { way = Way::kNone; }

Expected<ExecCredential> ask_exec_plugin(const ExecPlugin& plugin) {
  const std::string key = question_of(plugin);
  const std::int64_t now = unix_seconds();
  {
    const std::lock_guard<std::mutex> lock(known_mutex);
    const auto found = known().find(key);
    if (found != known().end()) {
      return found->second.says;  // renew_exec_credentials() keeps it new
    }
    const auto failed = failures().find(key);
    if (failed != failures().end() && now < failed->second.until) {
      return fail(Errc::kConfig, failed->second.text);
    }
  }
  auto says = ask(plugin);
  const std::lock_guard<std::mutex> lock(known_mutex);
  if (says) {
    known()[key] = {plugin, *says, now, 0};
    failures().erase(key);
  } else {  // whoever asks next for the same reason need not wait as long
    failures()[key] = {std::string(says.error().message()), unix_seconds() + kFailed};
  }
  return says;
}

Expected<ExecCredential> run_exec_plugin(const ExecPlugin& plugin, ExecLimits limits) {
  return ask(plugin, limits);
}

bool exec_renewal_is_due(bool all) {
  const std::int64_t now = unix_seconds();
  const std::lock_guard<std::mutex> lock(known_mutex);
  return std::any_of(known().begin(), known().end(),
                     [&](const auto& one) { return is_due(one.second, all, now); });
}

bool renew_exec_credentials(bool all) {
  const std::int64_t now = unix_seconds();
  std::map<std::string, Known> due;
  {
    const std::lock_guard<std::mutex> lock(known_mutex);
    for (const auto& [key, one] : known()) {
      if (is_due(one, all, now)) {
        due.emplace(key, one);
      }
    }
  }
  bool changed = false;
  for (const auto& [key, one] : due) {
    auto says = ask(one.plugin);
    const std::lock_guard<std::mutex> lock(known_mutex);
    Known& kept = known()[key];
    if (!says) {
      kept.next = now + kRetry;
      log_warn("a credential cannot be renewed", {{"error", says.error().message()}});
      continue;
    }
    changed = changed || !(says->token == kept.says.token) ||
              says->certificate_pem != kept.says.certificate_pem;
    kept = {one.plugin, std::move(*says), unix_seconds(), 0};
  }
  return changed;
}

Expected<ExecCredential> read_exec_credential(const std::string& text,
                                              const std::string& api_version) {
  const auto answer = Json::parse(text);
  if (!answer || !answer->is_object()) {
    return fail(Errc::kConfig, "what it prints is no JSON object");
  }
  if (answer->text({"kind"}) != "ExecCredential" || answer->text({"apiVersion"}) != api_version) {
    return fail(Errc::kConfig, "it prints no ExecCredential of " + api_version);
  }
  ExecCredential out;
  out.token = Secret::copy_of(answer->text({"status", "token"}));
  out.certificate_pem = answer->text({"status", "clientCertificateData"});
  out.key_pem = Secret::copy_of(answer->text({"status", "clientKeyData"}));
  if (out.certificate_pem.empty() != out.key_pem.empty()) {
    return fail(Errc::kConfig, "it gives half a pair of clientCertificateData and clientKeyData");
  }
  if (out.token.empty() && out.certificate_pem.empty()) {
    return fail(Errc::kConfig, "it gives neither a token nor a client certificate");
  }
  if (!http::is_field_value(out.token.view())) {
    return fail(Errc::kConfig, "its token has characters that no header can have");
  }
  if (const std::string_view end = answer->text({"status", "expirationTimestamp"}); !end.empty()) {
    const auto when = krm::parse_rfc3339(end);
    if (!when) {
      return fail(Errc::kConfig, "its expirationTimestamp is no time");
    }
    out.ends = when->seconds;
  }
  return out;
}

}  // namespace kintsugi::server
