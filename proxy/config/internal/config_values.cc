#include "proxy/config/internal/config_values.h"

#include <algorithm>
#include <utility>

#include "net/address_rules.h"
#include "proxy/gates/cors.h"

namespace kintsugi::proxy {

using krm::ConfigValue;
using krm::Json;
using krm::must_be;

ConfigValue address_list(std::vector<std::string>& target) {
  ConfigValue list = krm::text_list(target);
  return {[&target, set = std::move(list.set)](const Json& value) -> std::string {
            std::string wrong = set(value);
            if (wrong.empty()) {
              if (const auto read = net::AddressList::parse(target); !read) {
                wrong = read.error().message();
              }
            }
            return wrong;
          },
          std::move(list.show), std::move(list.schema)};
}

ConfigValue port_list(std::vector<std::uint16_t>& target) {
  return {
      [&target](const Json& value) -> std::string {
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
      },
      [&target] {
        Json out = Json::array();
        for (const std::uint16_t port : target) {
          out.push_back(std::int64_t{port});
        }
        return out;
      },
      Json::object(
          {{"type", "array"},
           {"minItems", 1},
           {"items", Json::object({{"type", "integer"}, {"minimum", 1}, {"maximum", 65'535}})}})};
}

ConfigValue pattern_list(std::vector<std::string>& target) {
  ConfigValue list = krm::text_list(target);
  return {[&target, set = std::move(list.set)](const Json& value) -> std::string {
            std::string wrong = set(value);
            if (wrong.empty() && !std::all_of(target.begin(), target.end(), is_origin_pattern)) {
              wrong = must_be("a list of regular expressions");
            }
            return wrong;
          },
          std::move(list.show), std::move(list.schema)};
}

ConfigValue header_list(std::vector<std::string>& target) {
  return {[&target](const Json& value) -> std::string {
            std::vector<std::string> names;
            std::string wrong = krm::text_list(names).set(value);
            if (!names.empty()) {
              target = std::move(names);
            }
            return wrong;
          },
          [&target] { return krm::texts(target); }, krm::schema_of_texts()};
}

}  // namespace kintsugi::proxy
