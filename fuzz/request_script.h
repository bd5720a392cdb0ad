#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Only for fuzz targets: requests as text that is easy to read and to change. A script is requests
/// between lines "---"; each is a line "<who> <method> <target>", lines "name: value", an empty
/// line and a body.
namespace kintsugi::fuzz {

struct ScriptRequest {
  std::string who, method, target;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
};
using Script = std::vector<ScriptRequest>;
inline constexpr std::size_t kMostRequests = 8;

inline std::string_view take_until(std::string_view& rest, std::string_view end) {
  const std::size_t at = rest.find(end);
  const std::string_view taken = rest.substr(0, at);
  rest.remove_prefix(at == std::string_view::npos ? rest.size() : at + end.size());
  return taken;
}

inline Script parse_script(std::string_view text) {
  Script script;
  while (!text.empty() && script.size() < kMostRequests) {
    std::string_view part = take_until(text, "\n---\n");
    std::string_view first = take_until(part, "\n");
    ScriptRequest request;
    request.who = take_until(first, " ");
    request.method = take_until(first, " ");
    request.target = first;
    while (!part.empty()) {
      std::string_view line = take_until(part, "\n");
      if (line.empty()) {
        break;
      }
      const std::string_view name = take_until(line, ": ");
      request.headers.emplace_back(name, line);
    }
    request.body = part;
    script.push_back(std::move(request));
  }
  return script;
}

inline std::string print_script(const Script& script) {
  std::string out;
  for (const ScriptRequest& request : script) {
    out.append(out.empty() ? "" : "\n---\n");
    out.append(request.who).append(" ").append(request.method).append(" ").append(request.target);
    for (const auto& [name, value] : request.headers) {
      out.append("\n").append(name).append(": ").append(value);
    }
    if (!request.body.empty()) {
      out.append("\n\n").append(request.body);
    }
  }
  return out;
}

/// What requests are made of.
struct ScriptWords {
  std::vector<std::string> who, methods, segments, queries, bodies;
  std::vector<std::pair<std::string, std::string>> headers;
};

/// One change, by the meaning of the parts. Never fails; equal for equal seeds.
inline void change_script(Script& script, const ScriptWords& words, std::mt19937& random) {
  const auto below = [&random](std::size_t count) {
    return count == 0 ? std::size_t{0} : static_cast<std::size_t>(random() % count);
  };
  const auto one_of = [&below](const auto& list) { return list[below(list.size())]; };
  if (script.empty()) {
    script.push_back({one_of(words.who), "GET", "/" + one_of(words.segments), {}, {}});
  }
  ScriptRequest& request = script[below(script.size())];
  std::string& target = request.target;
  const std::size_t question = std::min(target.find('?'), target.size());
  const std::size_t at = below(question + 1);
  static constexpr std::array<std::string_view, 14> kOdd = {"%2F",    "%2f", "//",  "/../", "/./",
                                                            "%2e%2e", "%00", "%3A", "%25",  ";",
                                                            "%C3%A4", ":",   "*",   "~"};
  switch (below(16)) {
    case 0:
      request.who = one_of(words.who);
      break;
    case 1:
      request.method = one_of(words.methods);
      break;
    case 2:  // a segment more
      target.insert(std::min(target.find('/', at), question), "/" + one_of(words.segments));
      break;
    case 3: {  // a segment less
      const std::size_t from = target.rfind('/', at);
      if (from != std::string::npos) {
        const std::size_t to = std::min(target.find('/', from + 1), question);
        target.erase(from, to - from);
      }
      break;
    }
    case 4: {  // another segment
      const std::size_t from = target.rfind('/', at);
      if (from != std::string::npos) {
        const std::size_t to = std::min(target.find('/', from + 1), question);
        target.replace(from + 1, to - from - 1, one_of(words.segments));
      }
      break;
    }
    case 5:
      target.insert(at, kOdd[below(kOdd.size())]);
      break;
    case 6: {  // one character, escaped
      if (at < question && target[at] != '%') {
        static constexpr char kHex[] = "0123456789ABCDEF";
        const auto byte = static_cast<unsigned char>(target[at]);
        target.replace(at, 1, {'%', kHex[byte >> 4], kHex[byte & 15]});
      }
      break;
    }
    case 7:
      target.append(question == target.size() ? "?" : "&").append(one_of(words.queries));
      break;
    case 8:
      target.resize(question);
      break;
    case 9:
    case 10:
      request.headers.push_back(one_of(words.headers));
      break;
    case 11:
      if (!request.headers.empty()) {
        request.headers.erase(request.headers.begin() +
                              static_cast<std::ptrdiff_t>(below(request.headers.size())));
      }
      break;
    case 12:  // the same field in another spelling
      if (!request.headers.empty()) {
        auto field = one_of(request.headers);
        for (char& c : field.first) {
          c = c == '-' && below(2) == 0 ? '_' : c;
        }
        request.headers.push_back(std::move(field));
      }
      break;
    case 13:
      request.body = one_of(words.bodies);
      break;
    case 14:
      if (!request.body.empty()) {
        request.body[below(request.body.size())] = static_cast<char>(random());
      }
      break;
    default:
      if (script.size() < kMostRequests) {
        script.push_back(request);
        return;  // `request` is elsewhere now
      }
  }
  if (target.size() > 4'096 || request.headers.size() > 40) {
    target.resize(std::min<std::size_t>(target.size(), 4'096));
    request.headers.resize(std::min<std::size_t>(request.headers.size(), 40));
  }
}

/// The body of LLVMFuzzerCustomMutator.
inline std::size_t mutate_script(std::uint8_t* data, std::size_t size, std::size_t most,
                                 unsigned seed, const ScriptWords& words) {
  std::mt19937 random(seed);
  Script script = parse_script({reinterpret_cast<const char*>(data), size});
  for (std::size_t changes = 1 + random() % 4; changes > 0; --changes) {
    change_script(script, words, random);
  }
  std::string text = print_script(script);
  text.resize(std::min(text.size(), most));
  std::copy(text.begin(), text.end(), data);
  return text.size();
}

}  // namespace kintsugi::fuzz
