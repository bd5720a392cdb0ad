# Third-party libraries, as Debian 12 packages them. Each is used by one module (docs/architecture.md).
find_package(Threads REQUIRED)
find_package(OpenSSL 3.0 REQUIRED)
# All parts of Boost have one version; Debian's default is an older one.
find_package(Boost 1.81 EXACT REQUIRED COMPONENTS program_options)
target_compile_definitions(Boost::headers INTERFACE BOOST_ERROR_CODE_HEADER_ONLY BOOST_ASIO_NO_DEPRECATED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(NGHTTP2 REQUIRED IMPORTED_TARGET libnghttp2)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(RE2 REQUIRED IMPORTED_TARGET re2)
find_library(LMDB_LIBRARY lmdb REQUIRED)
if(KINTSUGI_TESTS STREQUAL TARGET)
  find_package(GTest)
  if(NOT GTest_FOUND)
    set(KINTSUGI_TESTS OFF)  # ./dev up needs none
  endif()
elseif(KINTSUGI_TESTS)
  find_package(GTest REQUIRED)
endif()
