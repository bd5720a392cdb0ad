/// A worker's cache filled from the bytes of a watch, or of a list in pages of 500: CPU and memory
/// for --objects (100,000) objects of --bytes (1,536) each, in one process without a network.
///   build/release/bin/bench_object_cache [--case watch|list] [--objects n] [--bytes n]
/// One line of JSON. `cpu_ms` is without making the bytes; `heap` is what malloc has given out for
/// cache and keys, `overhead` that without the projection and what it allocates; `peak_rss` is of
/// the process.
#include "workers/runtime/reflector/object_cache.h"

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/link.h"
#include "shards/informer.h"

namespace kintsugi::bench {
namespace {

/// Like what a role needs of an object: nothing here is on the heap.
struct Claim {
  std::int64_t generation = 0;
  std::int64_t replicas = 0;
  std::uint64_t host = 0;
  char phase[16] = {};
};

workers::Projection<Claim> projection() {
  workers::Projection<Claim> result;
  result.make = [](const shards::ObjectKey&, const krm::Json& object) {
    Claim claim;
    if (const krm::Json* value = object.at({"metadata", "generation"})) {
      claim.generation = value->as_integer();
    }
    if (const krm::Json* value = object.at({"spec", "replicas"})) {
      claim.replicas = value->as_integer();
    }
    claim.host = std::hash<std::string_view>{}(object.text({"spec", "host"}));
    object.text({"status", "phase"}).copy(claim.phase, sizeof(claim.phase) - 1);
    return claim;
  };
  result.indexes.push_back(
      {"host", [](const shards::ObjectKey&, const Claim& claim, workers::IndexValues& values) {
         values.add({reinterpret_cast<const char*>(&claim.host), sizeof(claim.host)});
       }});
  return result;
}

/// An object of exactly `bytes` bytes, if that is room enough: half of it is managedFields.
std::string make_object(std::uint64_t i, std::size_t bytes) {
  const std::string number = std::to_string(i);
  std::string text =
      R"({"apiVersion":"delivery.kintsugi.dev/v1","kind":"Claim","metadata":{"annotations":{)"
      R"("kcp.io/cluster":"2bqfj6xlthg)" +
      std::to_string(10'000 + i % 1'000) + R"("},"creationTimestamp":"2026-01-02T03:04:05Z",)" +
      R"("generation":3,"labels":{"app":"web-)" + number + R"("},"managedFields":[)";
  for (int manager = 0; manager < 3; ++manager) {
    text += manager == 0 ? "" : ",";
    text += R"({"apiVersion":"delivery.kintsugi.dev/v1","fieldsType":"FieldsV1","fieldsV1":{)"
            R"("f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:host":{},)"
            R"("f:replicas":{}}},"manager":"kubectl","operation":"Update"})";
  }
  text += R"(],"name":"claim-)" + number + R"(","namespace":"default","resourceVersion":")" +
          std::to_string(1'000 + i) + R"(","uid":"0e4d9a7c-1111-4222-8333-)" +
          std::to_string(100'000'000'000 + i) + R"("},"spec":{"host":"host-)" +
          std::to_string(i % 500) + R"(","replicas":2,"template":")";
  const std::string tail = R"("},"status":{"phase":"Running"}})";
  const std::size_t used = text.size() + tail.size();
  return text + std::string(bytes > used ? bytes - used : 0, 'x') + tail;
}

class Source {
 public:
  Source(std::uint64_t count, std::size_t bytes) : count_(count), bytes_(bytes) {}
  /// Calls `take(bytes)` with pieces of 16 KiB of the stream.
  template <class Take>
  void watch(Take&& take) const {
    constexpr std::size_t kPiece = 16'384;
    std::string buffer;
    for (std::uint64_t i = 0; i < count_; ++i) {
      buffer += R"({"type":"ADDED","object":)" + make_object(i, bytes_) + "}\n";
      while (buffer.size() >= kPiece) {
        take(std::string_view(buffer).substr(0, kPiece));
        buffer.erase(0, kPiece);
      }
    }
    buffer += R"({"type":"BOOKMARK","object":{"kind":"Claim","metadata":{"resourceVersion":)"
              R"("900000","annotations":{"k8s.io/initial-events-end":"true"}}}})"
              "\n";
    take(buffer);
  }
  /// Calls `take(bytes)` with the bodies of pages.
  template <class Take>
  void pages(Take&& take) const {
    constexpr std::uint64_t kPage = 500;
    for (std::uint64_t i = 0; i < count_;) {
      std::string page = R"({"kind":"ClaimList","items":[)";
      for (const std::uint64_t end = std::min(count_, i + kPage); i < end; ++i) {
        page += (page.back() == '[' ? "" : ",") + make_object(i, bytes_);
      }
      page += R"(],"metadata":{"resourceVersion":"900000","continue":")";
      page += i < count_ ? "more\"}}" : "\"}}";
      take(page);
    }
  }

 private:
  std::uint64_t count_;
  std::size_t bytes_;
};

int run(const Flags& flags) {
  const std::uint64_t count = flags.number("objects", 100'000);
  const std::string what = flags.text("case", "watch");
  const Source source(count, flags.number("bytes", 1'536));
  const auto feed = [&](auto&& take) { what == "list" ? source.pages(take) : source.watch(take); };
  std::uint64_t bytes = 0;
  std::uint64_t began = cpu_us();
  feed([&](std::string_view piece) { bytes += piece.size(); });
  const std::uint64_t making = cpu_us() - began;

  const std::size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
  workers::ObjectCache<Claim> cache(projection(), "root");
  shards::InformerFsm fsm(shards::reflector_params("/claims", "Claim"), cache);
  cache.attach(fsm.keys());
  std::uint64_t told = 0;
  cache.add_handler([&](const workers::CacheChange&) { ++told; });
  const TimePoint now{};
  (void)fsm.start(now);
  (void)fsm.on_head(what == "list" ? 422 : 200, 0, now);
  began = cpu_us();
  feed([&](std::string_view piece) {
    (void)(what == "list" ? fsm.on_page(200, 0, piece, now) : fsm.on_data(piece, now));
  });
  const std::uint64_t cpu = cpu_us() - began;
  if (!cache.synced() || cache.size() != count || told != count) {
    die("the cache is not what was sent");
  }
  const std::size_t heap = mallinfo2().uordblks + mallinfo2().hblkhd - before;
  std::uint64_t found = 0;
  began = cpu_us();
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string cluster = "2bqfj6xlthg" + std::to_string(10'000 + i % 1'000);
    const std::string name = "claim-" + std::to_string(i);
    const auto at = cache.find({cluster, "default", name});
    found += at && *at != nullptr ? 1U : 0U;
  }
  const std::uint64_t finding = cpu_us() - began;
  rusage usage{};
  (void)::getrusage(RUSAGE_SELF, &usage);
  const auto per_object = [count](double value) { return value / static_cast<double>(count); };
  std::printf(
      "{\"case\":\"%s\",\"objects\":%llu,\"stream_bytes\":%llu,\"cpu_ms\":%.0f,\"us_per_object\":"
      "%.2f,\"heap_per_object\":%.1f,\"projection\":%zu,\"overhead_per_object\":%.1f,"
      "\"keys_per_object\":%.1f,\"find_ns\":%.0f,\"found\":%llu,\"peak_rss_mib\":%.1f}\n",
      what.c_str(), static_cast<unsigned long long>(count), static_cast<unsigned long long>(bytes),
      static_cast<double>(cpu - std::min(cpu, making)) / 1'000,
      per_object(static_cast<double>(cpu - std::min(cpu, making))),
      per_object(static_cast<double>(heap)), sizeof(Claim),
      per_object(static_cast<double>(heap)) - sizeof(Claim),
      per_object(static_cast<double>(fsm.keys().bytes())),
      per_object(static_cast<double>(finding) * 1'000), static_cast<unsigned long long>(found),
      static_cast<double>(usage.ru_maxrss) / 1'024);
  return 0;
}

}  // namespace
}  // namespace kintsugi::bench

int main(int argc, char** argv) { return kintsugi::bench::run({argc, argv}); }
