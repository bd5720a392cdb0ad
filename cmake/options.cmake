# Language level, warnings and build switches that every target shares.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

set(KINTSUGI_TESTS ON CACHE STRING "Unit tests: ON, OFF, or TARGET: where GoogleTest is, built by target `tests` only")
option(KINTSUGI_UNITY "Compile several files of a module at a time: a cold build takes half the time" OFF)
option(KINTSUGI_FUZZ "Build libFuzzer programs (clang only); everything is instrumented for them" OFF)
option(KINTSUGI_HARDEN "What a shipped program has against faults in itself (SE-180); `./dev check hardening` looks for it" OFF)
option(KINTSUGI_COVERAGE "Tests and corpora count the lines of the parsers of tools/parser_coverage.py that they reach" OFF)
set(KINTSUGI_SANITIZE "" CACHE STRING "Value for -fsanitize=, empty for none")

find_program(CCACHE ccache)
if(CCACHE)
  # Relative paths: all checkouts on a machine share what was compiled. Sloppiness: without it nothing is kept of what reads a
  # precompiled header (no source here uses __TIME__, and flags decide what the header defines).
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
    CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()

add_compile_options(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -Werror=unused-result
  -fno-omit-frame-pointer -pthread)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Garbage is collected once, if at all: a twelfth of the time. A compiler then takes up to 1.2 GB.
  add_compile_options(--param=ggc-min-heapsize=524288 -fpch-preprocess)
endif()
if(KINTSUGI_HARDEN)
  add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -D_GLIBCXX_ASSERTIONS -fstack-protector-strong
    -fstack-clash-protection -fcf-protection=full -fPIE -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.)
  add_link_options(-pie -Wl,-z,relro,-z,now,-z,noexecstack)
endif()
if(KINTSUGI_SANITIZE)
  add_compile_options(-fsanitize=${KINTSUGI_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${KINTSUGI_SANITIZE})
endif()
if(KINTSUGI_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link,address)
  add_link_options(-fsanitize=address)
endif()
if(KINTSUGI_UNITY)
  # What headers of one file do to names of another one. The other presets compile each file by itself, with these warnings.
  add_compile_options(-Wno-shadow $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()
include_directories(${CMAKE_SOURCE_DIR})
