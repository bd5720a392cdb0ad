/// Prints what a unit of everything costs, and the cost of a region that is lost (docs/scaling.md).
/// Flags: --shards 1000 --clusters 1000000 --watches 1000000 --seed 1
/// stdout: a JSON line per figure, {"name", "value", "unit"}.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>

#include "bench/flags.h"
#include "bench/scale_model.h"

namespace kintsugi::bench {
namespace {

void print(const Figures& figures) {
  for (const Figure& one : figures) {
    std::printf("{\"name\":\"%s\",\"value\":%.6g,\"unit\":\"%s\"}\n", one.name.c_str(), one.value,
                one.unit.c_str());
  }
  std::fflush(stdout);
}

}  // namespace
}  // namespace kintsugi::bench

int main(int argc, char** argv) {
  using namespace kintsugi::bench;
  const Flags flags(argc, argv);
  ScaleSize size;
  size.shards = flags.number("--shards", size.shards);
  size.clusters = flags.number("--clusters", size.clusters);
  size.watches = flags.number("--watches", size.watches);
  size.seed = flags.number("--seed", size.seed);
  const auto begin = std::chrono::steady_clock::now();
  print(index_figures(size));
  print(position_figures(size));
  print(storm_figures(size, {}));
  rusage used{};
  (void)::getrusage(RUSAGE_SELF, &used);
  print({{"all of it",
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), "s"},
         {"all of it: most memory", static_cast<double>(used.ru_maxrss) / 1024, "MiB resident"}});
}
