# kintsugi_precompiled(<target> program|tests): where several files are compiled at a time (KINTSUGI_UNITY), the standard headers that
# most of them read come precompiled: one file for what is shipped and one for tests, which have other flags and GoogleTest besides.
# No header of this tree is in it, so none makes everything stale. The presets `dev` and `clang` do without and find a missing include.
set(headers algorithm array atomic charconv chrono cstdint deque functional limits list map memory mutex optional set span string
  string_view unordered_map unordered_set utility variant vector)
list(TRANSFORM headers REPLACE "(.+)" "<\\1>")
if(KINTSUGI_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled.cc CONTENT "\n")
  foreach(kind program tests)
    add_library(kintsugi_precompiled_${kind} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/precompiled.cc)
    target_precompile_headers(kintsugi_precompiled_${kind} PRIVATE ${headers})
  endforeach()
  if(KINTSUGI_TESTS)
    target_precompile_headers(kintsugi_precompiled_tests PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
    target_link_libraries(kintsugi_precompiled_tests PRIVATE GTest::gmock GTest::gtest)
    kintsugi_test_options(kintsugi_precompiled_tests)
  endif()
endif()

function(kintsugi_precompiled target kind)
  if(TARGET kintsugi_precompiled_${kind})
    target_precompile_headers(${target} REUSE_FROM kintsugi_precompiled_${kind})
    # g++ 12 no longer knows that what it inlined from there is the library's, and warns of what cannot be. `dev` and `clang` warn.
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread)
  endif()
endfunction()
