#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "auth/certificate_end.h"
#include "base/cpu_limit.h"
#include "base/masked_text.h"
#include "base/memory_limit.h"
#include "base/secret_file.h"
#include "base/strings.h"
#include "base/time.h"
#include "cmd/kintsugi/admin_client.h"
#include "cmd/kintsugi/api_client.h"
#include "cmd/kintsugi/build_data.h"
#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/flags.h"
#include "cmd/kintsugi/span.h"
#include "server/files.h"
#include "server/kubeconfig.h"
#include "server/layout.h"
#include "server/support_file.h"
#include "workers/runtime/status/redactor.h"

/// `kintsugi support-bundle` (OP-904): what somebody who helps asks for first, in one file.
namespace kintsugi::cmd {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBundle = std::size_t{20} << 20U;
constexpr std::size_t kMostOfPage = std::size_t{16} << 20U, kMostOfLog = std::size_t{4} << 20U;
constexpr std::size_t kLogLines = 5'000, kMostListed = 20'000;
constexpr std::int64_t kPatience = 5;              // [s] for one answer
constexpr Duration kPatienceForAll = seconds(30);  // for shards, of which several may hang

struct BundleOptions {
  std::string admin, dir, output;
  std::vector<std::string> logs;
  std::int64_t apart = 10;
};

FlagTable bundle_table(BundleOptions& options) {
  return {{"Options",
           {admin_flag(options.admin),
            {"dir", "DIR", "where the admin socket's folder run/ is",
             "folder of the installation: its logs, certificates and files are looked at",
             into(options.dir)},
            {"output", "FILE", "kintsugi-support-TIME.tar.gz", "must not be there yet",
             into(options.output)},
            {"o", "FILE", "the same", "the same", into(options.output)},
            {"log", "FILE,…", "", "besides: the ends of these, such as what journalctl has written",
             into(options.logs)},
            {"apart", "TIME", "10s", "between the two times that metrics are read",
             into_span(options.apart)}}}};
}

/// What is asked of a process at its admin socket.
struct Question {
  const char* target;
  const char* file;
  const char* about;
  bool of_loops = false;  ///< its data loops have to answer, too
};
constexpr Question kOfProxy[] = {
    {"/livez", "livez.txt", "whether its control loop turns"},
    {"/readyz?verbose", "readyz.txt", "whether it is ready, and why not"},
    {"/debug/config", "config.yaml", "configuration in force"},
    {"/debug/shards", "shards.json", "shards as it knows them"},
    {"/debug/routes", "routes.json", "what paths lead to"},
    {"/debug/fairness", "fairness.json", "who has how much of it"},
    {"/debug/log", "log-level.json", "what it logs"},
    {"/debug/loops", "loops.json", "turns of its loops, connections", true},
    {"/debug/streams", "streams.json", "watches that run", true},
    {"/ui/api/v1/overview", "overview.json", "the console's overview", true},
    {"/ui/api/v1/slices?limit=500", "slices.json", "APIExportEndpointSlices", true},
    {"/ui/api/v1/partitions?limit=500", "partitions.json", "Partitions", true},
    {"/ui/api/v1/workers?limit=500", "workers.json", "workers of this machine", true},
    {"/ui/api/v1/events?limit=500", "events.json", "what has happened of late", true},
};
constexpr Question kOfUp[] = {
    {"/readyz?verbose", "readyz.txt", "which process is not ready, and why not"},
    {"/debug/processes", "processes.json",
     "its processes: since when, how often, how the last ended"},
    {"/debug/log", "log-level.json", "what it logs"},
};
constexpr Question kOfOthers[] = {
    {"/livez", "livez.txt", "whether its loop turns"},
    {"/debug/log", "log-level.json", "what it logs"},
};

std::string text_of_file(const std::string& path, std::size_t most) {
  std::string out;
  if (std::FILE* const file = std::fopen(path.c_str(), "re")) {
    char part[65'536];
    for (std::size_t size = 1; size != 0 && out.size() < most;) {
      size = std::fread(part, 1, sizeof part, file);
      out.append(part, size);
    }
    std::fclose(file);
  }
  return out;
}

/// Of a file that may be larger than memory.
std::string end_of_file(const std::string& path, std::size_t most) {
  std::string out;
  if (std::FILE* const file = std::fopen(path.c_str(), "re")) {
    if (std::fseek(file, -static_cast<long>(most), SEEK_END) != 0) {
      std::rewind(file);
    }
    out.resize(most);
    out.resize(std::fread(out.data(), 1, most, file));
    std::fclose(file);
  }
  return out;
}

std::vector<std::string> files_in(const std::string& folder, std::string_view end) {
  std::vector<std::string> out;
  std::error_code fault;
  for (const auto& one : fs::directory_iterator(folder, fault)) {
    if (one.path().filename().string().ends_with(end)) {
      out.push_back(one.path());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string stem_of(const std::string& path) { return fs::path(path).stem(); }

class Bundle {
 public:
  explicit Bundle(const BundleOptions& options)
      : options_(options),
        socket_(admin_socket(options.admin)),
        layout_{server::absolute_path(options.dir.empty() ? folder_of(socket_) : options.dir)},
        made_at_(unix_seconds()),
        file_("kintsugi-support", kMostBundle, made_at_) {}

  int make() {
    find_secrets();
    const TimePoint begun = Clock::now();
    add_metrics("metrics-1.txt", "metrics, the first time");
    add("version.json", version_json(), "which build this command is");
    ask_processes();
    ask_shards("readyz.txt", "/readyz?verbose", "whether it is ready");
    add_machine();
    add_processes();
    add_logs();
    add_certificates();
    add_files();
    std::this_thread::sleep_until(begun + seconds(options_.apart));
    add_metrics("metrics-2.txt", "metrics, the second time");
    return write();
  }

 private:
  /// "DIR/run/admin.sock": DIR. A service's socket is not in its folder.
  static std::string folder_of(const std::string& socket) {
    const fs::path folder = fs::path(socket).parent_path();
    return folder.filename() == "run" ? folder.parent_path().string() : "/var/lib/kintsugi";
  }

  void add(const std::string& name, std::string_view text, std::string_view about) {
    file_.add(name, masked_text(known_.redact(text.substr(0, kMostOfPage))), about);
  }
  void miss(const std::string& name, std::string_view why) {
    ++missed_;
    file_.miss(name, masked_text(why));
  }

  /// Whatever it is found in, it is not shown: keys, and tokens that files of the configuration
  /// hold.
  void find_secrets() {
    for (const std::string& path : files_in(layout_.pki(), ".key")) {
      know(path, text_of_file(path, workers::Redactor::kMaxValueBytes));
    }
    const auto config = get_admin(socket_, "/debug/config", kPatience);
    const std::string document = config ? config->body : std::string();
    for (const std::string_view line : split(document, '\n')) {
      const std::size_t colon = line.find(": ");
      const std::string_view key = trim(line.substr(0, std::min(colon, line.size())));
      const bool is_secret = key.ends_with("token_file") || key.ends_with("password_file");
      if (colon == std::string_view::npos || !is_secret) {
        continue;
      }
      std::string_view path = line.substr(colon + 2);
      path = trim(path.substr(0, path.find(" #")));
      while (path.size() > 1 && path.front() == '"' && path.back() == '"') {
        path = path.substr(1, path.size() - 2);
      }
      const std::string text = text_of_file(std::string(path), workers::Redactor::kMaxValueBytes);
      for (const std::string_view row : split(text, '\n')) {
        know(std::string(path) + std::to_string(known_.size()),
             std::string(row.substr(0, row.find(','))));
      }
    }
  }
  void know(const std::string& owner, std::string text) {
    constexpr std::size_t kLeast = 8;  // less is a word
    if (trim(text).size() >= kLeast) {
      (void)known_.know(owner, Secret(std::move(text)));
    }
  }

  [[nodiscard]] std::map<std::string, std::string> sockets() const {
    auto found = process_sockets(socket_, "all");
    return found ? *found : std::map<std::string, std::string>{{"proxy", socket_}};
  }

  void ask_processes() {
    for (const auto& [name, socket] : sockets()) {
      if (name.starts_with("proxy")) {
        ask(name, socket, kOfProxy);
      } else if (name == "up") {
        ask(name, socket, kOfUp);
      } else {
        ask(name, socket, kOfOthers);
      }
    }
    for (const std::string& socket : files_in(layout_.run(), ".sock")) {
      if (const std::string name = stem_of(socket);
          name.starts_with("worker-") && !name.ends_with(".metrics")) {
        ask_one(name, socket,
                {"/readyz?verbose", "readyz.txt", "whether it is ready, and why not"});
      }
    }
  }

  template <class Questions>
  void ask(const std::string& name, const std::string& socket, const Questions& questions) {
    std::string silent, silent_loops;
    for (const Question& one : questions) {
      const std::string& why = !silent.empty() ? silent : one.of_loops ? silent_loops : silent;
      if (!why.empty()) {
        miss(name + "/" + one.file, why);
      } else if (auto asked = ask_one(name, socket, one); !asked) {
        (one.of_loops ? silent_loops : silent) = asked.error().message();
      }
    }
  }

  /// @error it did not answer: nor will it what comes after.
  Expected<void> ask_one(const std::string& name, const std::string& socket, const Question& one) {
    const std::string file = name + "/" + one.file;
    auto answer = get_admin(socket, one.target, kPatience);
    if (!answer) {
      miss(file, answer.error().message());
      return fail(std::move(answer.error()));
    }
    add(file,
        answer->status == 200 ? answer->body
                              : "status " + std::to_string(answer->status) + "\n" + answer->body,
        one.about);
    return {};
  }

  void add_metrics(const std::string& file, const char* about) {
    for (const auto& [name, socket] : sockets()) {
      if (name.starts_with("proxy")) {
        (void)ask_one(name, socket, {"/metrics", file.c_str(), about});
      }
    }
    constexpr std::string_view kEnd = ".metrics";
    for (const std::string& socket : files_in(layout_.run(), ".metrics.sock")) {
      const std::string name = stem_of(socket);
      (void)ask_one(name.substr(0, name.size() - kEnd.size()), socket,
                    {"/metrics", file.c_str(), about});
    }
    ask_shards(file, "/metrics", about);
  }

  /// Each as the administrator of this machine. One that hangs is not asked again.
  void ask_shards(const std::string& file, const std::string& target, const char* about) {
    const TimePoint end = Clock::now() + kPatienceForAll;
    std::error_code fault;
    std::set<std::string> names;
    for (const auto& one : fs::directory_iterator(layout_.dir + "/shards", fault)) {
      names.insert(one.path().filename());
    }
    for (const std::string& name : names) {
      const std::string to = "shards/" + name + "/" + file;
      if (hung_.contains(name) || Clock::now() > end) {
        miss(to, hung_.contains(name) ? "it did not answer before" : "others took all the time");
        continue;
      }
      auto answer = ask_shard(name, target);
      if (!answer) {
        hung_.insert(name);
        miss(to, answer.error().message());
      } else {
        add(to,
            answer->status == 200
                ? answer->body
                : "status " + std::to_string(answer->status) + "\n" + answer->body,
            about);
      }
    }
  }

  [[nodiscard]] Expected<ApiClient::Page> ask_shard(const std::string& name,
                                                    const std::string& target) const {
    auto access = server::read_kubeconfig(layout_.shard_kubeconfig(name), "base");
    if (!access) {
      return fail(std::move(access.error()));
    }
    auto client = ApiClient::make(*access, access->server);
    if (!client) {
      return fail(std::move(client.error()));
    }
    return (*client)->page(target, seconds(kPatience));
  }

  void add_machine() {
    utsname system{};
    (void)::uname(&system);
    struct statvfs disk {};
    const bool has_disk = ::statvfs(layout_.dir.c_str(), &disk) == 0;
    const CpuLimit cpus = cpu_limit();
    std::string text = std::string(system.sysname) + " " + system.release + " " + system.machine +
                       "\nCPUs to run on: " + std::to_string(cpus.allowed) +
                       "\nquota of CPUs: " + std::to_string(cpus.quota) + " (0: none)" +
                       "\nmemory limit: " + std::to_string(memory_limit()) + "\n";
    if (has_disk) {
      text += layout_.dir + ": " + std::to_string(disk.f_bavail * disk.f_frsize) + " of " +
              std::to_string(disk.f_blocks * disk.f_frsize) + " bytes free\n";
    }
    for (const char* const path : {"/proc/loadavg", "/proc/meminfo", "/etc/os-release"}) {
      text += std::string("\n") + path + "\n" + text_of_file(path, 65'536);
    }
    add("machine.txt", text, "system, limits, memory, disk");
  }

  void add_processes() {
    for (const std::string& path : files_in(layout_.run(), ".pid")) {
      const std::string line = text_of_file(path, 64);
      const auto pid =
          parse_decimal<std::uint32_t>(std::string_view(line).substr(0, line.find_first_of(" \n")));
      if (!pid) {
        continue;
      }
      const std::string folder = "/proc/" + std::to_string(*pid);
      std::string text;
      for (const char* const file : {"/status", "/limits", "/cgroup"}) {
        text += std::string(file + 1) + "\n" + text_of_file(folder + file, 65'536) + "\n";
      }
      add("processes/" + stem_of(path) + ".txt", text,
          "state, limits, control groups of pid " + std::to_string(*pid));
    }
  }

  void add_logs() {
    std::vector<std::string> paths = files_in(layout_.logs(), ".log");
    for (const std::string& path : files_in("/var/log/kintsugi", ".log")) {
      paths.push_back(path);
    }
    paths.insert(paths.end(), options_.logs.begin(), options_.logs.end());
    for (const std::string& path : paths) {
      const std::string name = "logs/" + fs::path(path).filename().string();
      if (::access(path.c_str(), R_OK) != 0) {
        miss(name, path + " cannot be read");
        continue;
      }
      add(name, server::last_lines(end_of_file(path, kMostOfLog), kLogLines, kMostOfLog - 1),
          "the end of " + path);
    }
  }

  void add_certificates() {
    std::string text = "FILE  SUBJECT  BEGINS  ENDS  NAMES\n";
    std::vector<std::string> paths = files_in(layout_.pki(), ".crt");
    for (const std::string& path : files_in("/etc/kintsugi/pki", ".crt")) {
      paths.push_back(path);
    }
    for (const std::string& path : paths) {
      const std::string pem = text_of_file(path, std::size_t{1} << 20U);
      const auto facts = auth::facts_of(pem);
      text += path + "  " + (facts ? auth::common_name_of(pem) : "cannot be read");
      if (facts) {
        text += "  " + rfc3339(facts->begins) + "  " + rfc3339(facts->ends) + "  " +
                join(facts->names, ",");
      }
      text += "\n";
    }
    add("certificates.txt", text, "certificates: names and times, no keys");
  }

  /// Names and sizes alone.
  void add_files() {
    std::string text = "MODE  OWNER  BYTES  CHANGED  PATH\n";
    std::size_t listed = 0;
    std::error_code fault;
    for (auto at = fs::recursive_directory_iterator(
             layout_.dir, fs::directory_options::skip_permission_denied, fault);
         at != fs::recursive_directory_iterator() && listed < kMostListed; at.increment(fault)) {
      struct stat found {};
      if (::lstat(at->path().c_str(), &found) != 0) {
        continue;
      }
      char row[96];
      (void)std::snprintf(row, sizeof row, "%06o  %u  %lld  %s  ", found.st_mode, found.st_uid,
                          static_cast<long long>(found.st_size), rfc3339(found.st_mtime).c_str());
      text += row + at->path().string() + "\n";
      ++listed;
    }
    add("files.txt", text, "files of " + layout_.dir + ": stores, logs, keys by size and mode");
  }

  int write() {
    std::string path = options_.output;
    if (path.empty()) {
      std::string time = rfc3339(made_at_).substr(0, 19);
      std::replace(time.begin(), time.end(), ':', '-');
      path = "kintsugi-support-" + time + ".tar.gz";
    }
    const std::string bytes = file_.finish();
    const auto written = create_file(server::absolute_path(path), bytes, 0600);
    if (!written || !*written) {
      return complain("support-bundle", !written ? std::string(written.error().message())
                                                 : path + ": is there already");
    }
    std::printf(
        "%s: %zu kB; contents.txt in it says what is there, and why %zu files are not. "
        "Look at it before you send it.\n",
        path.c_str(), bytes.size() / 1'000, missed_);
    return 0;
  }

  const BundleOptions& options_;
  const std::string socket_;
  const server::Layout layout_;
  const std::int64_t made_at_;
  workers::Redactor known_;
  server::SupportFile file_;
  std::set<std::string> hung_;  ///< shards
  std::size_t missed_ = 0;
};

}  // namespace

CommandAbout support_bundle_about() {
  BundleOptions options;
  return {
      "kintsugi support-bundle [options]",
      "Collects in one .tar.gz what somebody who helps asks for first: versions, configuration, "
      "what the\nprocesses say of themselves, metrics twice, the ends of logs, certificates' "
      "times, limits, sizes of\nfiles. Keys, tokens and other secrets are not in it; names of "
      "users and workspaces are. It needs no\nprocess that answers: what cannot be had is told "
      "in contents.txt. At most 20 MiB.",
      {},
      without_setters(bundle_table(options))};
}

int run_support_bundle(const std::vector<std::string>& arguments) {
  BundleOptions options;
  if (const auto status =
          take_options("support-bundle", bundle_table(options), support_bundle_about, arguments)) {
    return *status;
  }
  return Bundle(options).make();
}

}  // namespace kintsugi::cmd
