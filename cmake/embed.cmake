# kintsugi_embed(<target> <files…>): these files of configs/ are part of the target, as server/internal/embedded_files.h has them.
# With -P it is what writes the source, from OUT, ROOT and FILES.
if(CMAKE_SCRIPT_MODE_FILE)
  set(text "#include \"server/internal/embedded_files.h\"\n\nnamespace kintsugi::server {\nnamespace {\nconstexpr EmbeddedFile kFiles[] = {\n")
  string(REPLACE "|" ";" FILES "${FILES}")
  foreach(file ${FILES})
    file(READ ${ROOT}/${file} content)
    string(APPEND text "    {\"${file}\", R\"~embedded~(${content})~embedded~\"},\n")
  endforeach()
  string(APPEND text "};\n}  // namespace\nstd::span<const EmbeddedFile> embedded_files() { return kFiles; }\n}  // namespace kintsugi::server\n")
  file(WRITE ${OUT} "${text}")
  return()
endif()

function(kintsugi_embed target)
  set(root ${PROJECT_SOURCE_DIR}/configs)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/embedded_files.cc)
  set(names)
  foreach(file ${ARGN})
    file(RELATIVE_PATH name ${root} ${file})
    list(APPEND names ${name})
  endforeach()
  string(REPLACE ";" "|" names "${names}")
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DROOT=${root} "-DFILES=${names}" -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${ARGN} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()
