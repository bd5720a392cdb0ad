# kintsugi_unity(<variable> <name> <sources…>): with KINTSUGI_UNITY the variable becomes the files that compile these sources
# several at a time (tools/unity_groups.py says which fit together), else the sources as they are.
# Groups are looked at again when a source has changed, since that may give it a name that another one has.
function(kintsugi_unity variable name)
  if(NOT KINTSUGI_UNITY)
    set(${variable} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  execute_process(
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/unity_groups.py ${CMAKE_BINARY_DIR}/unity/${name} ${ARGN}
    OUTPUT_VARIABLE groups OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" groups "${groups}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN} ${PROJECT_SOURCE_DIR}/tools/unity_groups.py)
  set(${variable} ${groups} PARENT_SCOPE)
endfunction()
