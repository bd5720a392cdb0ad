#include "proxy/config/internal/config_values.h"

#include <algorithm>
#include <filesystem>

#include "net/address_rules.h"
#include "proxy/gates/cors.h"

namespace kintsugi::proxy {

using krm::Json;

std::string must_be(std::string_view what) { return "must be " + std::string(what); }

ConfigSetter text(std::string& target) {
  return [&target](const Json& value) -> std::string {
    if (!value.is_string()) {
      return must_be("text");
    }
    target = value.as_string();
    return {};
  };
}

ConfigSetter file(std::string& target, const std::string& folder) {
  return [&target, folder](const Json& value) -> std::string {
    if (!value.is_string() || value.as_string().empty()) {
      return must_be("a file name");
    }
    const std::filesystem::path path(value.as_string());
    target = path.is_absolute() ? path.string() : (std::filesystem::path(folder) / path).string();
    return {};
  };
}

ConfigSetter milliseconds_of(Duration& target, std::int64_t low) {
  return [&target, low](const Json& value) -> std::string {
    if (!value.is_integer() || value.as_integer() < low || value.as_integer() > 3'600'000) {
      return must_be("milliseconds from " + std::to_string(low) + " to 3600000");
    }
    target = milliseconds(value.as_integer());
    return {};
  };
}

ConfigSetter share(double& target, double most) {
  return [&target, most](const Json& value) -> std::string {
    if (!value.is_number() || value.as_double() < 0 || value.as_double() > most) {
      return must_be("a number from 0 to 0.02");
    }
    target = value.as_double();
    return {};
  };
}

ConfigSetter boolean(bool& target) {
  return [&target](const Json& value) -> std::string {
    if (!value.is_bool()) {
      return must_be("true or false");
    }
    target = value.as_bool();
    return {};
  };
}

ConfigSetter text_list(std::vector<std::string>& target) {
  return [&target](const Json& value) -> std::string {
    target.clear();
    if (!value.is_array()) {
      return must_be("a list of texts");
    }
    for (const Json& item : value.items()) {
      if (!item.is_string() || item.as_string().empty()) {
        return must_be("a list of texts");
      }
      target.emplace_back(item.as_string());
    }
    return {};
  };
}

ConfigSetter address_list(std::vector<std::string>& target) {
  return [&target, read = text_list(target)](const Json& value) -> std::string {
    std::string wrong = read(value);
    if (wrong.empty()) {
      if (const auto list = net::AddressList::parse(target); !list) {
        wrong = list.error().message();
      }
    }
    return wrong;
  };
}

ConfigSetter port_list(std::vector<std::uint16_t>& target) {
  return [&target](const Json& value) -> std::string {
    std::vector<std::uint16_t> ports;
    for (const Json& one : value.is_array() ? value.items() : std::vector<Json>()) {
      if (!one.is_integer() || one.as_integer() < 1 || one.as_integer() > 65'535) {
        return must_be("a list of ports");
      }
      ports.push_back(static_cast<std::uint16_t>(one.as_integer()));
    }
    if (ports.empty()) {
      return must_be("a list of ports");
    }
    target = std::move(ports);
    return {};
  };
}

ConfigSetter pattern_list(std::vector<std::string>& target) {
  return [set = text_list(target), &target](const Json& value) -> std::string {
    std::string fault = set(value);
    if (fault.empty() && !std::all_of(target.begin(), target.end(), is_origin_pattern)) {
      fault = must_be("a list of regular expressions");
    }
    return fault;
  };
}

ConfigSetter text_map(std::vector<std::pair<std::string, std::string>>& target) {
  return [&target](const Json& value) -> std::string {
    target.clear();
    for (const krm::JsonMember& member : value.members()) {
      if (!member.value.is_string()) {
        return must_be("texts by name");
      }
      target.emplace_back(member.key, member.value.as_string());
    }
    std::sort(target.begin(), target.end());
    return value.is_object() ? std::string() : must_be("texts by name");
  };
}

ConfigSetter file_list(std::vector<std::string>& target, const std::string& folder) {
  return [set = text_list(target), &target, folder](const Json& value) -> std::string {
    std::string fault = set(value);
    for (std::string& name : target) {
      const std::filesystem::path path(name);
      name = path.is_absolute() ? path.string() : (std::filesystem::path(folder) / path).string();
    }
    return fault;
  };
}

ConfigSetter header_list(std::vector<std::string>& target) {
  return [&target](const Json& value) -> std::string {
    std::vector<std::string> names;
    std::string fault = text_list(names)(value);
    target = names.empty() ? target : names;
    return fault;
  };
}

}  // namespace kintsugi::proxy
