#pragma once

#include <map>
#include <string>
#include <string_view>

#include "proxy/console/internal/row_page.h"

namespace kintsugi::proxy {

/// What those who look at one view have been told, and what is new of it, as lines of JSON
/// (OP-705). Threads: one loop.
class ViewChanges {
 public:
  explicit ViewChanges(std::string_view view) : view_(view) {}
  /// Takes the rows as they are now. @return the lines `upsert` and `remove`, "" where nothing has
  /// changed.
  [[nodiscard]] std::string take(const ViewRows& rows);
  /// One line `reset` with everything that was taken last.
  [[nodiscard]] std::string reset() const;

 private:
  std::string view_;
  std::map<std::string, std::string, std::less<>> rows_;  ///< by id: as they are written
};

/// Of no view: the stream lives.
[[nodiscard]] std::string tick_line(std::string_view generated);

}  // namespace kintsugi::proxy
