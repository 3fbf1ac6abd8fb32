# What every folder's CMakeLists.txt is written with.

# fathom_mlir: MLIR and LLVM, which every library links.
add_library(fathom_mlir INTERFACE)
if(FATHOM_STATIC)
  include(Static)
else()
  target_link_libraries(fathom_mlir INTERFACE MLIR LLVM fmt::fmt)
endif()

add_library(fathom_pch OBJECT ${CMAKE_SOURCE_DIR}/cmake/pch.cpp)
target_precompile_headers(fathom_pch PRIVATE ${CMAKE_SOURCE_DIR}/cmake/pch.h)

# fathom_library(NAME SOURCE...): one static library a folder, all sharing one
# precompiled header.
function(fathom_library name)
  add_library(${name} STATIC ${ARGN})
  target_link_libraries(${name} PUBLIC fathom_mlir)
  target_precompile_headers(${name} REUSE_FROM fathom_pch)
endfunction()

# fathom_tool(NAME SOURCE... LINK LIBRARY...): a command. In a static build it
# becomes a part of the one executable `fathom` (tools/fathom).
function(fathom_tool name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LINK")
  if(NOT FATHOM_STATIC)
    add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
    target_link_libraries(${name} PRIVATE ${arg_LINK})
    install(TARGETS ${name})
    return()
  endif()
  add_library(${name} OBJECT ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC ${arg_LINK} fathom_mlir)
  string(MAKE_C_IDENTIFIER ${name} identifier)
  target_compile_definitions(${name} PRIVATE main=${identifier}_tool_main)
  set_property(GLOBAL APPEND PROPERTY FATHOM_TOOLS ${name})
endfunction()
