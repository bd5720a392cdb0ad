// Manual pages, from the tables that help comes from.
#include "cmd/kintsugi/manual_pages.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/strings.h"
#include "server/files.h"

namespace kintsugi::cmd {
namespace {

/// Text as it is, for groff: no escapes, no hyphens that are typographic, no macro at its begin.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) {
      out.append("\\&") += c;
    } else {
      out += c;
    }
  }
  return out;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  });
  return text;
}

std::string head(const std::string& name, const BuildData& data) {
  return ".\\\" Made by `kintsugi manual-pages`.\n.TH " + upper(name) + " 1 \"" +
         std::string(data.build_date.substr(0, 10)) + "\" \"kintsugi " + std::string(data.version) +
         "\" \"Kintsugi\"\n.ad l\n";
}

/// Lines that are indented, or have columns, stay as they are typed; others are filled.
std::string description(std::string_view text) {
  std::string out;
  bool typed = false;
  for (const std::string_view line : split(text, '\n')) {
    const bool as_typed = line.starts_with(' ') || line.find("  ") != std::string_view::npos;
    if (line.empty()) {
      out += typed ? ".fi\n.PP\n" : ".PP\n";
      typed = false;
      continue;
    }
    if (as_typed != typed) {
      out += as_typed ? ".PP\n.nf\n" : ".fi\n";
      typed = as_typed;
    }
    out.append(plain(line)) += '\n';
  }
  return out + (typed ? ".fi\n" : "");
}

std::string option(const Flag& flag) {
  const bool is_short = flag.name.size() == 1;
  std::string out = ".TP\n\\fB" + plain((is_short ? "-" : "--") + flag.name) + "\\fR";
  if (!flag.argument.empty()) {
    out += (is_short ? " \\fI" : "=\\fI") + plain(flag.argument) + "\\fR";
  }
  out.append("\n").append(plain(flag.help));
  if (!flag.default_text.empty()) {
    out += " (default " + plain(flag.default_text) + ")";
  }
  return out + "\n";
}

constexpr const char* kStatus =
    ".SH \"EXIT STATUS\"\n0: done, or ended in order by SIGINT or SIGTERM. 1: it could not start, "
    "or "
    "failed\nlater. 2: wrong usage. What else there is, the description tells.\n";

}  // namespace

std::string manual_page(const Command& command, const BuildData& data) {
  const CommandAbout about = command.about();
  const std::string name = std::string("kintsugi-") + command.name;
  std::string out = head(name, data) + ".SH NAME\n" + plain(name) + " \\- " + plain(command.help) +
                    "\n.SH SYNOPSIS\n.nf\n" + plain(about.usage) + "\n.fi\n.SH DESCRIPTION\n" +
                    description(about.description) + ".SH OPTIONS\n";
  for (const FlagGroup& group : about.flags) {
    out += ".SS \"" + plain(group.title) + "\"\n";
    for (const Flag& flag : group.flags) {
      out += option(flag);
    }
  }
  return out +
         ".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nthe same as this page, on the standard output\n" +
         kStatus + ".SH \"SEE ALSO\"\n.BR kintsugi (1)\n";
}

std::string manual_overview(const BuildData& data) {
  std::string out =
      head("kintsugi", data) +
      ".SH NAME\nkintsugi \\- one API endpoint in front of many control planes\n.SH SYNOPSIS\n"
      ".B kintsugi\n.I command\n.RI [ options ]\n.SH DESCRIPTION\nAn HTTP/2 front proxy that joins "
      "many control planes in the manner of Kubernetes, called shards, into\none endpoint: shards "
      "of kcp, plain Kubernetes servers, or its own embedded ones.\n.SH COMMANDS\n";
  for (const Command& command : commands()) {
    if (command.help != nullptr) {
      out += ".TP\n.BR kintsugi\\-" + plain(command.name) + " (1)\n" + plain(command.help) + "\n";
    }
  }
  return out +
         ".SH FILES\n.TP\n.I /etc/kintsugi\nconfiguration of the services\n.TP\n.I "
         "/var/lib/kintsugi\nwhat they keep\n.TP\n.I /usr/share/doc/kintsugi\n"
         "configuration key by key, metrics, operation\n.SH \"SEE ALSO\"\n.BR systemctl (1)\n";
}

CommandAbout manual_pages_about() {
  return {"kintsugi manual-pages DIR", "Writes the manual pages into a folder.", {}, {}};
}

int run_manual_pages(const std::vector<std::string>& arguments) {
  const auto words = take_arguments("manual-pages", {}, manual_pages_about, arguments);
  if (!words) {
    return words.error();
  }
  if (words->size() != 1) {
    return wrong_usage("manual-pages", "say a folder");
  }
  const std::string folder = words->front() + "/kintsugi";
  auto written = server::write_file(folder + ".1", manual_overview(build_data()), 0644);
  for (const Command& command : commands()) {
    if (written && command.help != nullptr) {
      written = server::write_file(folder + "-" + command.name + ".1",
                                   manual_page(command, build_data()), 0644);
    }
  }
  return written ? 0 : complain("manual-pages", written.error());
}

}  // namespace kintsugi::cmd
