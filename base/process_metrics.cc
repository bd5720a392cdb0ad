#include "base/process_metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>

#include "base/cpu_limit.h"
#include "base/data_folder.h"
#include "base/guard.h"
#include "base/last_resort.h"
#include "base/log_level.h"
#include "base/log_output.h"
#include "base/memory_limit.h"
#include "base/strings.h"
#include "base/trace.h"
#include "base/version.h"

namespace kintsugi {
namespace {

#ifdef __clang__
constexpr std::string_view kCompiler = __VERSION__;  // says that it is clang
#else
constexpr std::string_view kCompiler = "g++ " __VERSION__;
#endif

struct FileCloser {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};
struct FolderCloser {
  void operator()(DIR* folder) const noexcept { ::closedir(folder); }
};

/// A file of /proc; "" when there is none.
std::string read_proc(const char* path) {
  const std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path, "re"));
  std::string out;
  char part[4096];
  while (file != nullptr) {
    const std::size_t size = std::fread(part, 1, sizeof(part), file.get());
    out.append(part, size);
    if (size < sizeof(part)) {
      break;
    }
  }
  return out;
}

/// The field at `index` of /proc/self/stat, as proc(5) counts from 1; from 3 on.
std::uint64_t stat_field(const std::string& stat, std::size_t index) {
  // The name of the program, field 2, may hold anything.
  const std::size_t end = stat.rfind(')');
  if (end == std::string::npos || index < 3) {
    return 0;
  }
  std::string_view rest = stat;
  rest.remove_prefix(std::min(end + 2, stat.size()));
  const auto fields = split(rest, ' ');
  return index - 3 < fields.size() ? parse_decimal<std::uint64_t>(fields[index - 3]).value_or(0)
                                   : 0;
}

/// When the machine was started [s since 1970].
std::uint64_t boot_time() {
  const std::string text = read_proc("/proc/stat");
  for (std::string_view line : split(text, '\n')) {
    if (line.starts_with("btime ")) {
      line.remove_prefix(std::string_view("btime ").size());
      return parse_decimal<std::uint64_t>(line).value_or(0);
    }
  }
  return 0;
}

std::uint64_t open_descriptors() {
  const std::unique_ptr<DIR, FolderCloser> folder(::opendir("/proc/self/fd"));
  std::uint64_t count = 0;
  while (folder != nullptr) {
    const dirent* const entry = ::readdir(folder.get());
    if (entry == nullptr) {
      break;
    }
    count += entry->d_name[0] != '.' ? 1 : 0;
  }
  return count > 0 ? count - 1 : 0;  // the folder itself
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

double limit_of(rlim_t limit) {
  return limit == RLIM_INFINITY ? std::numeric_limits<double>::infinity()
                                : static_cast<double>(limit);
}

}  // namespace

void ProcessMetrics::fill(MetricFamilies& out) const {
  rusage usage{};
  (void)::getrusage(RUSAGE_SELF, &usage);
  rlimit descriptors{};
  (void)::getrlimit(RLIMIT_NOFILE, &descriptors);
  const std::string stat = read_proc("/proc/self/stat");
  const long page = ::sysconf(_SC_PAGESIZE), ticks = ::sysconf(_SC_CLK_TCK);
  constexpr std::size_t kThreads = 20, kStart = 22, kVirtual = 23, kResident = 24;  // proc(5)
  static const std::uint64_t booted = boot_time();

  out.counter("process_cpu_seconds_total", "user and system CPU time",
              seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime));
  out.gauge("process_resident_memory_bytes", "memory that is in RAM",
            static_cast<double>(stat_field(stat, kResident)) * static_cast<double>(page));
  out.gauge("process_virtual_memory_bytes", "address space", stat_field(stat, kVirtual));
  out.gauge("process_open_fds", "open file descriptors", open_descriptors());
  out.gauge("process_max_fds", "how many may be open", limit_of(descriptors.rlim_cur));
  out.gauge("process_threads", "threads", stat_field(stat, kThreads));
  out.gauge("process_start_time_seconds", "when the process began, since 1970",
            static_cast<double>(booted) +
                static_cast<double>(stat_field(stat, kStart)) / static_cast<double>(ticks));
  static const CpuLimit cpus = cpu_limit();
  out.gauge("kintsugi_cpu_limit_cores",
            "CPUs of which it may use the time: those it may run on, or the quota of its control "
            "group",
            cpus.quota > 0 ? std::min(cpus.quota, static_cast<double>(cpus.allowed))
                           : static_cast<double>(cpus.allowed));
  static const std::size_t memory = memory_limit();
  out.gauge("kintsugi_memory_limit_bytes",
            "memory that it may use: the machine's, or the least limit of its control groups",
            memory);
  out.gauge("kintsugi_build_info", "1, by what is running", {"version", "compiler", "process"});
  out.sample({build_version(), kCompiler, process_}, 1);
  out.counter("kintsugi_caught_exceptions_total",
              "faults of the program that ended one request instead of the process",
              caught_exceptions());
  const LogCounts logged = log_counts();
  out.counter("kintsugi_log_lines_total", "lines that were logged", {"level"});
  for (std::size_t i = 0; i < logged.lines.size(); ++i) {
    out.sample({level_name(static_cast<LogLevel>(i))}, logged.lines[i]);
  }
  out.counter("kintsugi_log_dropped_total",
              "lines that nobody took: who reads did not read, or the disk was full",
              logged.dropped);
  const TraceStats traces = trace_stats();
  out.counter("kintsugi_otlp_spans_total",
              "spans by what became of them: taken by the collector, refused or never taken by it, "
              "or dropped since nobody had room",
              {"result"});
  out.sample({"sent"}, traces.sent);
  out.sample({"failed"}, traces.failed);
  out.sample({"dropped"}, traces.dropped);
  out.counter("kintsugi_silent_loops_total", "loops that took no turn for 10 s", silent_loops());
  out.counter("kintsugi_memory_shortages_total", "allocations that had to use the reserve",
              memory_shortages());
  const std::optional<DataFolderFacts> folder = data_folder_facts();
  out.gauge("kintsugi_data_room_bytes", "what may still be written where the data is");
  if (folder) {
    out.sample({}, folder->room);
  }
  out.gauge("kintsugi_data_disk_bytes", "size of the file system where the data is");
  if (folder) {
    out.sample({}, folder->disk);
  }
  out.gauge("kintsugi_backup_timestamp_seconds",
            "when `kintsugi backup` last copied the data, since 1970");
  if (folder && folder->backed_up) {
    out.sample({}, *folder->backed_up);
  }
  out.gauge("kintsugi_certificate_expiration_timestamp_seconds",
            "when certificates in use end, since 1970", {"use", "name"});
  for (const CertificateEnd& one : certificates_) {
    out.sample({one.use, one.name}, one.at);
  }
}

}  // namespace kintsugi
