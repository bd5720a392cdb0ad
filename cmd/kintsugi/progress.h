#pragma once

#include <string>

#include "base/time.h"

namespace kintsugi::cmd {

/// Tells on stderr what a command waits for: on a terminal one line that is written over, with the
/// time that has passed; elsewhere a line whenever the text changes.
class Progress {
 public:
  explicit Progress(std::string subject);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// @param state for example "Initializing".
  void show(const std::string& state);

 private:
  std::string subject_, shown_;
  TimePoint begin_;
  bool terminal_;
};

}  // namespace kintsugi::cmd
