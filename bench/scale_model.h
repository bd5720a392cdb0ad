#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// What control costs where there is much of everything, by the classes that the proxy itself has:
/// no sockets, and time that is counted where it would be waited for (GR-801, GR-802).
/// docs/scaling.md has the figures.
namespace kintsugi::bench {

struct Figure {
  std::string name;
  double value = 0;
  std::string unit;  ///< "us" and "s" are of the machine; all others are the same everywhere
};
using Figures = std::vector<Figure>;

struct ScaleSize {
  std::size_t shards = 1'000;
  std::size_t clusters = 1'000'000;  ///< each with its Workspace, a thousand in each parent
  std::size_t watches = 1'000'000;
  std::uint64_t seed = 1;
};

/// The index of the topology: memory, changes, snapshots, paths.
[[nodiscard]] Figures index_figures(const ScaleSize& size);
/// Slot tables and cursors.
[[nodiscard]] Figures position_figures(const ScaleSize& size);
/// A third of the proxies is lost; the clients of these come back at the others, whose loops do one
/// thing after another.
struct StormCosts {
  double connection_us = 330;  ///< a resumed TLS session (docs/performance.md, R1)
  double watch_us = 24;        ///< begin of a merged watch (the same)
  std::size_t loops = 30;      ///< of all proxies, before
  std::size_t streams = 100;   ///< watches of a connection
};
[[nodiscard]] Figures storm_figures(const ScaleSize& size, const StormCosts& costs);

}  // namespace kintsugi::bench
