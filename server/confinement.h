#pragma once

#include <string>

#include "base/error.h"

/// What a serving process gives up, so that a fault in it gives an attacker little (SE-184,
/// SE-185). Main thread, at the start of the program.
namespace kintsugi::server {

struct Confinement {
  bool sandbox = true;      ///< --sandbox: system calls are restricted after the start
  bool core_dumps = false;  ///< --core-dumps: memory, and keys in it, may be written to disk
  bool allow_root = false;  ///< --allow-root: it is meant to be root
};

/// At the begin of a process, before it reads a file: new files are for its user alone, it gains no
/// privileges by exec, writes no core and is not traced by other processes of its user; inherited
/// descriptors but standard ones, and those of net/inherited_sockets.h, are closed, and of its
/// capabilities it keeps the one for ports below 1024: root is then bound by the modes of files as
/// others are.
/// @error kConfig: the kernel refuses one of these; the text names it.
[[nodiscard]] Expected<void> confine(const Confinement& wanted);

/// After the start: warns who is root without wanting to (a start that fails says one line and no
/// more, FP-101). This thread, and those that it makes, give up the last capability. For all
/// threads and for good: system calls other than those that a server of
/// this program makes fail with EPERM; those that only an intruder makes (running programs,
/// tracing, namespaces, mounts, kernel modules, executable memory) end the process with SIGSYS.
/// Sanitizers and profilers make others: it says so and does nothing under them.
/// @error kConfig: the kernel has no seccomp filters.
[[nodiscard]] Expected<void> enter_sandbox(const Confinement& wanted);

}  // namespace kintsugi::server
