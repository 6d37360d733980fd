# SPDX-License-Identifier: Apache-2.0
# Compiles through ccache, where it is installed. A second clone of this repository on the same machine finds what the first
# compiled: paths are taken relative to it. CCACHE_SLOPPINESS is what ccache's manual asks for with precompiled headers
# (cmake/VicinalPrecompiled.cmake).
find_program(VICINAL_CCACHE ccache)
if(VICINAL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros "${VICINAL_CCACHE}")
endif()

# vicinal_cache_by_includes(TARGET)
# ccache compares the contents of all files that the compiler says it read, in place of the preprocessor's output.
function(vicinal_cache_by_includes target)
  if(CMAKE_CXX_COMPILER_LAUNCHER)
    set_target_properties(${target} PROPERTIES
      CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND};-E;env;CCACHE_DEPEND=1;${CMAKE_CXX_COMPILER_LAUNCHER}")
  endif()
endfunction()
