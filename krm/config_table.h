#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "krm/json.h"

/// Configuration documents: a table says which keys there are, what their values must be and where
/// they go. The same table reads a document and shows what is in force (OP-105, OP-106).
/// Threads: any, one at a time.
namespace kintsugi::krm {

/// Reads one value into its target, and shows it. The target must outlive it (config_values.h).
struct ConfigValue {
  /// @returns what is wrong, "" when nothing is; the target is as it was then, or replaced.
  std::function<std::string(const Json&)> set;
  std::function<Json()> show;
  /// What `set` takes, as JSON Schema, as far as that can tell.
  Json schema = {};
};

struct ConfigKey;

/// A list of sections, or sections by names that are free.
struct ConfigSections {
  bool named = false;
  /// Keys of a new section; what they set must stay where it is only until the next one is made.
  /// Of a name that may not be: nullopt.
  std::function<std::optional<std::vector<ConfigKey>>(const std::string& name)> add;
  /// Those that there are, by name or number.
  std::function<std::vector<std::pair<std::string, std::vector<ConfigKey>>>()> all;
};

/// One key of a table, or many sections below it.
struct ConfigKey {
  std::string path;  ///< from the section that the table is of: "listener.port"
  ConfigValue value = {};
  ConfigSections sections = {};
  std::size_t dots = 0;  ///< of the last name itself: 2 in "groups.apis.kcp.io"
};
using ConfigTable = std::vector<ConfigKey>;
inline constexpr std::string_view kConfigVersion = "kintsugi.dev/v1alpha1";
/// "listener", "port": the parts of its path.
[[nodiscard]] std::vector<std::string> key_names(const ConfigKey& key);

/// Where a value of what is in force is from.
struct ConfigSource {
  enum class Kind : std::uint8_t {
    kDefault,
    kFile,
    kEnvironment,
    kCommandLine
  } kind = Kind::kDefault;
  std::size_t line = 0;  ///< of the file
};

/// Reads one document and collects what is wrong with it.
class ConfigReader {
 public:
  /// @param head  what `kind` must be; `apiVersion` is kintsugi.dev/v1alpha1.
  /// @error kConfig  no YAML, a key twice, another kind or version: one line.
  [[nodiscard]] static Expected<ConfigReader> open(std::string_view text, std::string path,
                                                   std::string_view kind);
  /// Sets what the document says.
  void read(const ConfigTable& table) { read_section(document_, "", table); }
  /// Something that values have to do with each other. Without a line of its own it gets that of
  /// the nearest section.
  void fault(const std::string& key, std::string_view what);
  [[nodiscard]] bool has(const std::string& key) const { return lines_.contains(key); }
  [[nodiscard]] std::size_t line_of(const std::string& key) const;
  [[nodiscard]] bool is_right() const noexcept { return faults_.empty(); }
  /// All of them, "<path>:<line>: <key>: <what>" each on a line of its own, in the order of the
  /// file.
  [[nodiscard]] Error error() const;
  /// Where each key of the document stands.
  [[nodiscard]] const std::map<std::string, std::size_t>& lines() const noexcept { return lines_; }

 private:
  ConfigReader(Json document, std::string path, std::map<std::string, std::size_t> lines)
      : document_(std::move(document)), path_(std::move(path)), lines_(std::move(lines)) {}
  void read_section(const Json& section, const std::string& prefix, const ConfigTable& table);
  void read_key(const Json& value, const std::string& path, const ConfigKey& key);
  void unknown(const std::string& path, const std::string& prefix, const std::string& name,
               const ConfigTable& table);

  Json document_;
  std::string path_;
  std::map<std::string, std::size_t> lines_;
  std::vector<std::pair<std::size_t, std::string>> faults_;  // with their lines
  std::set<std::string> faulty_;                             // keys
};

/// A value that is in force.
struct ShownKey {
  /// Names from the outermost section on; that of an element of a list is its number in brackets.
  std::vector<std::string> names;
  Json value;
  ConfigSource source = {};
};
/// "listener.port", "topology.shards[0].name": as a reader's lines() have it.
[[nodiscard]] std::string path_of(const ShownKey& key);

/// Where the values of a configuration are from.
struct ConfigOrigin {
  std::map<std::string, std::size_t> lines;  ///< of the keys that the file has
  std::set<std::string> environment;         ///< keys that variables of the environment set
  std::set<std::string> amended;             ///< keys that the command line gave another value
  /// What changes `table`'s values from now on is the command line's, as amended_since() notes.
  [[nodiscard]] static std::map<std::string, std::string> values_of(const ConfigTable& table);
  void amended_since(const std::map<std::string, std::string>& before, const ConfigTable& table);
};

/// Every key of a table with what it has now, in alphabetical order of sections and keys.
[[nodiscard]] std::vector<ShownKey> shown_keys(const ConfigTable& table,
                                               const ConfigOrigin& origin = {});

/// A document that is read to the same values.
/// @param file  the document's name without folders: each value has its source behind it, `#
/// default`,
/// `# proxy.yaml:9`, `# env KINTSUGI_CFG_LISTENER_PORT`, `# command line`. nullopt: none has.
[[nodiscard]] std::string config_yaml(std::string_view kind, const std::vector<ShownKey>& keys,
                                      std::optional<std::string_view> file = {});
/// What --print-effective prints. @param form  "json", else YAML. @param path  of the document.
[[nodiscard]] std::string effective_config(std::string_view form, std::string_view kind,
                                           const std::vector<ShownKey>& keys,
                                           std::string_view path);
/// [{"key", "value", "source", "line"}]; line 0 where there is none. Ends in a newline.
[[nodiscard]] std::string config_json(const std::vector<ShownKey>& keys, std::string_view file);

}  // namespace kintsugi::krm
