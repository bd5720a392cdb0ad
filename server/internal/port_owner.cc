#include "server/internal/port_owner.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

#include "base/strings.h"

namespace kintsugi::server {
namespace {

/// As the kernel shows an address: each 32 bits as a number of this machine, in hex.
std::string shown(const void* bytes, std::size_t size) {
  std::string out;
  for (std::size_t i = 0; i < size; i += sizeof(std::uint32_t)) {
    std::uint32_t word = 0;
    std::memcpy(&word, static_cast<const char*>(bytes) + i, sizeof word);
    char text[9];
    (void)std::snprintf(text, sizeof text, "%08X", word);
    out += text;
  }
  return out;
}

struct Listening {
  std::string socket;  ///< "socket:[123]"
  uid_t user = 0;
};

/// Rows of /proc/net/tcp: sl local_address rem_address st … uid timeout inode
std::vector<Listening> sockets_in(const std::string& path, const std::string& address,
                                  std::uint16_t port) {
  constexpr std::size_t kLocal = 1, kState = 3, kUser = 7, kInode = 9;
  char number[5];
  (void)std::snprintf(number, sizeof number, "%04X", port);
  std::vector<Listening> out;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::vector<std::string> row;
    for (std::string word; words >> word;) {
      row.push_back(std::move(word));
    }
    if (row.size() <= kInode || row[kState] != "0A") {
      continue;
    }
    const std::size_t colon = std::min(row[kLocal].find(':'), row[kLocal].size());
    const std::string at = row[kLocal].substr(0, colon);
    const bool is_all = at.find_first_not_of('0') == std::string::npos;
    const auto user = parse_decimal<std::uint32_t>(row[kUser]);
    if (row[kLocal].substr(colon) == std::string(":") + number && (is_all || at == address) &&
        user) {
      out.push_back({"socket:[" + row[kInode] + "]", *user});
    }
  }
  return out;
}

bool has_descriptor(const std::filesystem::path& process, const std::string& socket) {
  std::error_code fault, unread;  // it may end while it is looked at
  for (std::filesystem::directory_iterator at(process / "fd", fault), end; !fault && at != end;
       at.increment(fault)) {
    if (std::filesystem::read_symlink(at->path(), unread) == socket) {
      return true;
    }
  }
  return false;
}

/// The least number of them: who has opened it, and those who got it from there, come later.
pid_t process_with(const std::string& root, const std::string& socket) {
  pid_t found = 0;
  std::error_code fault;
  for (std::filesystem::directory_iterator at(root + "/proc", fault), end; !fault && at != end;
       at.increment(fault)) {
    const auto number = parse_decimal<std::int32_t>(at->path().filename().string());
    if (number && (found == 0 || *number < found) && has_descriptor(at->path(), socket)) {
      found = *number;
    }
  }
  return found;
}

}  // namespace

std::optional<PortOwner> port_owner(const std::string& address, std::uint16_t port,
                                    const std::string& root) {
  in_addr v4{};
  in6_addr v6{};
  std::vector<Listening> found;
  if (::inet_pton(AF_INET, address.c_str(), &v4) == 1) {
    found = sockets_in(root + "/proc/net/tcp", shown(&v4, sizeof v4), port);
    // One for all IPv6 addresses may have those of IPv4 as well.
    for (Listening& one : sockets_in(root + "/proc/net/tcp6", "", port)) {
      found.push_back(std::move(one));
    }
  } else if (::inet_pton(AF_INET6, address.c_str(), &v6) == 1) {
    found = sockets_in(root + "/proc/net/tcp6", shown(&v6, sizeof v6), port);
  }
  if (found.empty()) {
    return std::nullopt;
  }
  return PortOwner{process_with(root, found.front().socket), found.front().user};
}

}  // namespace kintsugi::server
