# fathom_mlir: what every library links; fathom_library: one static library a
# folder, all sharing one precompiled header.

add_library(fathom_mlir INTERFACE)
if(NOT FATHOM_STATIC)
  target_link_libraries(fathom_mlir INTERFACE MLIR LLVM)
endif()

add_library(fathom_pch OBJECT ${CMAKE_SOURCE_DIR}/cmake/pch.cpp)
target_precompile_headers(fathom_pch PRIVATE ${CMAKE_SOURCE_DIR}/cmake/pch.h)

function(fathom_library name)
  add_library(${name} STATIC ${ARGN})
  target_link_libraries(${name} PUBLIC fathom_mlir fmt::fmt)
  target_precompile_headers(${name} REUSE_FROM fathom_pch)
endfunction()
