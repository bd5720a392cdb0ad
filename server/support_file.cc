#include "server/support_file.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "http/gzip.h"

namespace kintsugi::server {
namespace {

constexpr std::size_t kBlock = 512;             // of tar
constexpr std::size_t kContents = 256U << 10U;  // kept free for contents.txt
constexpr std::size_t kLongestName = 99;

std::string packed(std::string_view bytes) {
  std::string out;
  http::Gzip().write(bytes, true, out);
  return out;
}

std::string usable_name(std::string_view name) {
  std::string out(name);
  std::replace_if(
      out.begin(), out.end(),
      [](char c) {
        return !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                 c == '.' || c == '_' || c == '-' || c == '/');
      },
      '_');
  for (std::size_t at = out.find(".."); at != std::string::npos; at = out.find("..")) {
    out.replace(at, 2, "__");
  }
  return out;
}

/// POSIX.1-1988 ustar.
std::string header(const std::string& name, std::size_t size, std::int64_t now) {
  std::string out(kBlock, '\0');
  const auto put = [&out](std::size_t at, std::string_view text) {
    out.replace(at, text.size(), text);
  };
  const auto octal = [&put](std::size_t at, int digits, std::uint64_t value) {
    std::array<char, 24> text{};
    (void)std::snprintf(text.data(), text.size(), "%0*llo", digits,
                        static_cast<unsigned long long>(value));
    put(at, text.data());
  };
  put(0, name);
  octal(100, 7, 0600);
  octal(108, 7, 0);
  octal(116, 7, 0);
  octal(124, 11, size);
  octal(136, 11, static_cast<std::uint64_t>(std::max<std::int64_t>(now, 0)));
  put(148, "        ");
  put(156, "0");
  put(257, "ustar");
  put(263, "00");
  std::uint64_t sum = 0;
  for (const char c : out) {
    sum += static_cast<unsigned char>(c);
  }
  octal(148, 6, sum);
  out[154] = '\0';
  return out;
}

}  // namespace

SupportFile::SupportFile(std::string folder, std::size_t most, std::int64_t now)
    : folder_(std::move(folder)), most_(most), now_(now) {}

std::string SupportFile::member(const std::string& name, std::string_view text) const {
  std::string entry =
      header((folder_ + "/" + name).substr(0, kLongestName), text.size(), now_) + std::string(text);
  entry.resize((entry.size() + kBlock - 1) / kBlock * kBlock);
  return packed(entry);
}

void SupportFile::add(std::string_view name, std::string_view text, std::string_view about) {
  const std::string usable = usable_name(name);
  std::string made = member(usable, text);
  if (size_ + made.size() + kContents > most_) {
    miss(name, "the bundle would be larger than " + std::to_string(most_ >> 20U) + " MiB");
    return;
  }
  size_ += made.size();
  members_.push_back(std::move(made));
  lines_.push_back(usable + "  " + std::to_string(text.size()) + " bytes  " + std::string(about));
}

void SupportFile::miss(std::string_view name, std::string_view why) {
  lines_.push_back(usable_name(name) + "  is not here: " + std::string(why));
}

std::string SupportFile::finish() {
  std::string contents;
  for (const std::string& line : lines_) {
    if (contents.size() + line.size() > kContents / 2) {
      contents += "…\n";
      break;
    }
    contents += line + "\n";
  }
  std::string out = member("contents.txt", contents);
  for (const std::string& one : members_) {
    out += one;
  }
  return out + packed(std::string(2 * kBlock, '\0'));
}

std::string_view last_lines(std::string_view text, std::size_t lines, std::size_t bytes) {
  const bool is_cut = text.size() > bytes;
  std::string_view rest = is_cut ? text.substr(text.size() - bytes) : text;
  if (is_cut) {  // the first one may be a part of a line
    rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
  }
  std::size_t begin = rest.size();
  std::size_t seen = 0;
  while (begin > 0) {
    const bool ends_line = rest[begin - 1] == '\n' && begin != rest.size();
    if (ends_line && ++seen == lines) {
      break;
    }
    --begin;
  }
  return rest.substr(begin);
}

}  // namespace kintsugi::server
