# FATHOM_STATIC: everything but libc and libm inside, to run on machines without
# LLVM and with a glibc from 2.35 on.
#
# Debian's exported MLIR targets name the shared LLVM in their interfaces, so
# the archives are linked as files. The linker takes from all of them only the
# members that are referred to; --gc-sections drops the rest.

if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
  message(FATAL_ERROR "FATHOM_STATIC: expected clang++-22, whose linker takes the archives "
    "in any order, got ${CMAKE_CXX_COMPILER}")
endif()

get_property(mlir_archives GLOBAL PROPERTY MLIR_ALL_LIBS)
set(archives ${mlir_archives} ${LLVM_AVAILABLE_LIBS})
list(FILTER archives EXCLUDE REGEX "^(Polly|PollyISL|MLIRMlirOptMain)$")
foreach(archive IN LISTS archives)
  if(TARGET ${archive})
    get_target_property(type ${archive} TYPE)
    if(type STREQUAL STATIC_LIBRARY)
      target_link_libraries(fathom_mlir INTERFACE $<TARGET_FILE:${archive}>)
    endif()
  endif()
endforeach()

find_library(zlib_archive libz.a REQUIRED)
find_library(zstd_archive libzstd.a REQUIRED)
add_library(fathom_compat STATIC ${CMAKE_SOURCE_DIR}/cmake/compat.cpp)
target_link_libraries(fathom_mlir INTERFACE ${zlib_archive} ${zstd_archive}
  fathom_compat fmt::fmt-header-only Threads::Threads m)
target_link_options(fathom_mlir INTERFACE -static-libstdc++ -static-libgcc -s)

set(CPACK_GENERATOR TXZ)
set(CPACK_PACKAGE_FILE_NAME fathom-${PROJECT_VERSION}-linux-x86_64)
set(CPACK_THREADS 0)
include(CPack)
