# SPDX-License-Identifier: Apache-2.0
# The helpers that every folder's CMakeLists.txt uses: vicinal_library, vicinal_executable. Tests: VicinalTests.cmake.
# They carry the compile options (warnings as errors, sanitizers), so that no folder sets flags of its own.
include(VicinalPrecompiled)
include(VicinalHeaderChecks)

set(VICINAL_WARNINGS -Wall -Wextra -Wnon-virtual-dtor -Wno-sign-compare -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 sees these inside its own std::string and std::regex where they are not (GCC bugs 105651, 105562), the latter
  # three where these headers are precompiled.
  list(APPEND VICINAL_WARNINGS -Wno-restrict -Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow
       -Wno-stringop-overread)
endif()
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Of a source that another one includes it believes that it is a header.
  list(APPEND VICINAL_WARNINGS -Wno-subobject-linkage)
endif()

function(_vicinal_options target)
  target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_compile_options(${target} PRIVATE ${VICINAL_WARNINGS})
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    target_compile_options(${target} PRIVATE -Wthread-safety)
  endif()
  if(VICINAL_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${VICINAL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(${target} PRIVATE -fsanitize=${VICINAL_SANITIZE})
  endif()
endfunction()

# The counters that lead libFuzzer, in libraries alone: they would take more than a third of the time that tests take to compile.
function(_vicinal_fuzz_options target)
  if(VICINAL_FUZZ)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# The kind of precompiled headers (cmake/VicinalPrecompiled.cmake) is plain unless PRECOMPILED says messages, grpc or none.
function(_vicinal_precompile_as target kind)
  if(NOT kind)
    set(kind plain)
  endif()
  if(NOT kind STREQUAL "none")
    vicinal_precompile(${target} ${kind} ${ARGN})
  endif()
endfunction()

# vicinal_library(NAME [OBJECT|SHARED|STATIC] SOURCES ... HEADERS ... DEPS ... [PRECOMPILED kind] [NO_FUZZ])
# A folder's library. HEADERS are the folder's public headers: each is also compiled alone (target vicinal_headers).
# NO_FUZZ: no input that is parsed gets this far, so that libFuzzer need not see its branches.
function(vicinal_library name)
  cmake_parse_arguments(ARG "OBJECT;SHARED;STATIC;NO_FUZZ" "PRECOMPILED" "SOURCES;HEADERS;DEPS" ${ARGN})
  set(kind STATIC)
  if(ARG_OBJECT)
    set(kind OBJECT)
  elseif(ARG_SHARED)
    set(kind SHARED)
  endif()
  if(NOT ARG_SOURCES AND NOT ARG_SHARED)
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE "${PROJECT_SOURCE_DIR}")
    target_link_libraries(${name} INTERFACE ${ARG_DEPS})
  else()
    add_library(${name} ${kind} ${ARG_SOURCES})
    _vicinal_options(${name})
    if(NOT ARG_NO_FUZZ)
      _vicinal_fuzz_options(${name})
    endif()
    target_link_libraries(${name} PUBLIC ${ARG_DEPS})
    _vicinal_precompile_as(${name} "${ARG_PRECOMPILED}")
  endif()
  _vicinal_header_checks(${name} "${ARG_HEADERS}")
endfunction()

# vicinal_executable(NAME SOURCES ... DEPS ...)
function(vicinal_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  _vicinal_options(${name})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
endfunction()
