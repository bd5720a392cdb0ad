#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "krm/json.h"

/// How a WorkerConfiguration is read: a table of keys for each section.
namespace kintsugi::server {

/// @returns what is wrong, "" when nothing is.
using WorkerSetter = std::function<std::string(const krm::Json&)>;

struct WorkerKey {
  std::string name;
  WorkerSetter set;                  ///< empty: a section
  std::vector<WorkerKey> keys = {};  ///< of the section
  /// Keys of a section by its name, where names are free; empty: they are not.
  std::function<std::vector<WorkerKey>(const std::string& name)> named = {};
};

/// Reads one document; knows the lines of its keys. Refers to what it is given.
class WorkerReader {
 public:
  WorkerReader(const std::string& path, const std::map<std::string, std::size_t>& lines)
      : path_(path), lines_(lines) {}
  /// @error kConfig  the first key that is not known or has a wrong value.
  [[nodiscard]] Expected<void> read(const krm::Json& section, const std::string& prefix,
                                    const std::vector<WorkerKey>& keys) const;
  /// "<path>:<line>: <key>: <what>"; the line of the nearest section where the key is missing.
  [[nodiscard]] Error fault(const std::string& key, std::string_view what) const;

 private:
  const std::string& path_;
  const std::map<std::string, std::size_t>& lines_;
};

/// @{ Setters. What they set outlives them.
[[nodiscard]] WorkerSetter worker_text(std::string& target);
/// @param folder  what relative names start at.
[[nodiscard]] WorkerSetter worker_file(std::string& target, const std::string& folder);
/// Texts of which none is empty.
[[nodiscard]] WorkerSetter worker_texts(std::vector<std::string>& target);
[[nodiscard]] WorkerSetter worker_bytes(std::size_t& target, std::size_t low, std::size_t high);
/// A number above 0, at most `high`.
[[nodiscard]] WorkerSetter worker_number(double& target, double low, double high);
/// "15s", "500ms", "1m": from `low` to an hour.
[[nodiscard]] WorkerSetter worker_duration(Duration& target, Duration low);
/// @}

/// "15s", "1m0.5s": what worker_duration() reads.
[[nodiscard]] std::string duration_text(Duration time);

}  // namespace kintsugi::server
