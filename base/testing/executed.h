#pragma once

#include <dlfcn.h>
#include <ucontext.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

/// Only for tests.
namespace kintsugi {

/// What this thread executes while it runs: the processor stops after each instruction (x86-64's
/// trap flag), so that what a piece of code does can be counted instead of timed, in this program
/// and in every library that it uses. Not under a sanitizer, whose own instructions would count.
/// Cost: about 6 µs per instruction. Threads: one of these at a time.
class Executed {
 public:
  /// @param functions  names of exported functions whose calls are counted; unknown ones abort.
  explicit Executed(const std::vector<std::string>& functions = {}) {
    for (const std::string& name : functions) {
      void* const address = ::dlsym(RTLD_DEFAULT, name.c_str());
      if (address == nullptr) {
        std::abort();
      }
      functions_.push_back(reinterpret_cast<std::uintptr_t>(address));
    }
    current() = this;
    struct sigaction action {};
    action.sa_sigaction = on_step;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGTRAP, &action, &before_);
  }
  ~Executed() {
    ::sigaction(SIGTRAP, &before_, nullptr);
    current() = nullptr;
  }
  Executed(const Executed&) = delete;
  Executed& operator=(const Executed&) = delete;

  /// Runs `function` and counts.
  template <class Function>
  void run(const Function& function) {
    set_trap_flag(true);
    function();
    set_trap_flag(false);
  }

  struct Counts {
    std::uint64_t instructions = 0;
    std::uint64_t locked = 0;  ///< atomic read-modify-writes, those inside of locks as well
    std::uint64_t calls = 0;   ///< of the functions
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

  /// LOCK before the opcode, or an XCHG with memory, which locks by itself.
  [[nodiscard]] static bool is_locked(const unsigned char* at) noexcept {
    const auto is_prefix = [](unsigned char byte) {
      return byte == 0x66 || byte == 0x67 || byte == 0xf2 || byte == 0xf3 || byte == 0x2e ||
             byte == 0x36 || byte == 0x3e || byte == 0x26 || byte == 0x64 || byte == 0x65;
    };
    while (is_prefix(*at)) {
      ++at;
    }
    if (*at == 0xf0) {
      return true;
    }
    if ((*at & 0xf0) == 0x40) {  // REX
      ++at;
    }
    return (at[0] == 0x86 || at[0] == 0x87) && at[1] < 0xc0;
  }

 private:
  static Executed*& current() noexcept {
    static Executed* one = nullptr;
    return one;
  }

  static void on_step(int /*signal*/, siginfo_t* /*info*/, void* context) {
    const auto at = static_cast<std::uintptr_t>(
        static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
    Counts& counts = current()->counts_;
    ++counts.instructions;
    counts.locked += is_locked(reinterpret_cast<const unsigned char*>(at)) ? 1 : 0;
    for (const std::uintptr_t function : current()->functions_) {
      counts.calls += function == at ? 1 : 0;
    }
  }

  /// 128 bytes below the stack's end are the compiler's.
  static void set_trap_flag(bool on) noexcept {
    if (on) {
      asm volatile(
          "lea -128(%%rsp), %%rsp; pushfq; orq $0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::
              : "memory", "cc");
    } else {
      asm volatile(
          "lea -128(%%rsp), %%rsp; pushfq; andq $~0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::
              : "memory", "cc");
    }
  }

  std::vector<std::uintptr_t> functions_;
  Counts counts_;
  struct sigaction before_ {};
};

/// While it lives the process has a second thread, and shortcuts for single-threaded ones are off.
class SecondThread {
 public:
  SecondThread() : thread_([this] { end_.wait(false); }) {}
  ~SecondThread() {
    end_.store(true);
    end_.notify_one();
    thread_.join();
  }
  SecondThread(const SecondThread&) = delete;
  SecondThread& operator=(const SecondThread&) = delete;

 private:
  std::atomic<bool> end_{false};
  std::thread thread_;
};

}  // namespace kintsugi
