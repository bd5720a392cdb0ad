#pragma once

#include <cstddef>
#include <string>

namespace kintsugi::store {

/// While it lives, a page of a mapped file that cannot be read (the file was cut, or the disk does
/// not give it) ends the process with a line on stderr that names file and page, and exit code 70,
/// instead of a bare SIGBUS (GR-414): the next start looks at every page and serves what is left.
/// A SIGBUS at any other address does what it did before. Up to 16 at a time; more have none.
class MapGuard {
 public:
  /// @param file  is mapped by this process, from its begin
  explicit MapGuard(const std::string& file);
  ~MapGuard();
  MapGuard(const MapGuard&) = delete;
  MapGuard& operator=(const MapGuard&) = delete;

  /// The map was found, and there was room.
  [[nodiscard]] bool is_active() const noexcept { return slot_ >= 0; }

 private:
  int slot_ = -1;
};

}  // namespace kintsugi::store
