# SPDX-License-Identifier: Apache-2.0
# The helpers that every folder's CMakeLists.txt uses: vicinal_library, vicinal_executable, vicinal_test.
# They carry the compile options (warnings as errors, sanitizers), so that no folder sets flags of its own.
include(VicinalPrecompiled)

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

# The kind of precompiled headers (cmake/VicinalPrecompiled.cmake) is plain unless PRECOMPILED says messages, grpc or none.
function(_vicinal_precompile_as target kind)
  if(NOT kind)
    set(kind plain)
  endif()
  if(NOT kind STREQUAL "none")
    vicinal_precompile(${target} ${kind} ${ARGN})
  endif()
endfunction()

# vicinal_library(NAME [OBJECT|SHARED|STATIC] SOURCES ... HEADERS ... DEPS ... [PRECOMPILED kind])
# A folder's library. HEADERS are the folder's public headers: each is also compiled alone (target vicinal_headers).
function(vicinal_library name)
  cmake_parse_arguments(ARG "OBJECT;SHARED;STATIC" "PRECOMPILED" "SOURCES;HEADERS;DEPS" ${ARGN})
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
    target_link_libraries(${name} PUBLIC ${ARG_DEPS})
    _vicinal_precompile_as(${name} "${ARG_PRECOMPILED}")
  endif()
  _vicinal_header_checks(${name} "${ARG_HEADERS}")
endfunction()

# Compiles each header of a library alone: a header must include what it uses.
function(_vicinal_header_checks name headers)
  if(NOT VICINAL_BUILD_TESTS OR NOT headers)
    return()
  endif()
  set(sources "")
  foreach(header IN LISTS headers)
    file(RELATIVE_PATH relative "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}/${header}")
    string(MAKE_C_IDENTIFIER "${relative}" id)
    set(source "${CMAKE_BINARY_DIR}/header_checks/${id}.cc")
    file(CONFIGURE OUTPUT "${source}" CONTENT "#include \"${relative}\"\n#include \"${relative}\"\n")
    list(APPEND sources "${source}")
  endforeach()
  add_library(${name}_headers OBJECT EXCLUDE_FROM_ALL ${sources})
  set_target_properties(${name}_headers PROPERTIES UNITY_BUILD OFF)
  _vicinal_options(${name}_headers)
  target_compile_options(${name}_headers PRIVATE -fsyntax-only)
  if(CMAKE_CXX_COMPILER_LAUNCHER)
    # A check costs little more than the preprocessor, which ccache would run first.
    set_target_properties(${name}_headers PROPERTIES
      CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND};-E;env;CCACHE_DEPEND=1;${CMAKE_CXX_COMPILER_LAUNCHER}")
  endif()
  target_link_libraries(${name}_headers PRIVATE ${name})
  if(NOT TARGET vicinal_headers)
    add_custom_target(vicinal_headers)
  endif()
  add_dependencies(vicinal_headers ${name}_headers)
endfunction()

# vicinal_executable(NAME SOURCES ... DEPS ...)
function(vicinal_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  _vicinal_options(${name})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
endfunction()

# What is tested is compiled as its preset says; the tests themselves with less optimisation, which saves the compiler more
# time than they then take to run.
function(_vicinal_test_options target)
  if(VICINAL_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  else()
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()

# vicinal_test(NAME SOURCES ... DEPS ... [LABELS fast|slow|integration|tsan ...] [WHOLE] [NO_TSAN] [TIMEOUT s]
#              [PRECOMPILED kind] [TSAN_FILTER filter])
# A GoogleTest program. Each TEST becomes one CTest test, unless WHOLE: then the program is one CTest test (for suites
# with thousands of parameters, where a process for each would cost more than the tests). NO_TSAN: what is tested starts no
# thread and takes no lock, or runs with other models what another test runs under the thread sanitizer already.
# TSAN_FILTER: of a program that is WHOLE, the tests that start threads, as GoogleTest's filter; the rest say nothing to
# the thread sanitizer.
function(vicinal_test name)
  cmake_parse_arguments(ARG "WHOLE;NO_TSAN" "TIMEOUT;PRECOMPILED;TSAN_FILTER" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS fast)
  endif()
  # The engine is free of gRPC, so its tests also run under the thread sanitizer (label tsan).
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "/tests/engine(/|$)" AND "fast" IN_LIST ARG_LABELS AND NOT "tsan" IN_LIST ARG_LABELS
     AND NOT ARG_NO_TSAN)
    list(APPEND ARG_LABELS tsan)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  _vicinal_options(${name})
  _vicinal_test_options(${name})
  _vicinal_precompile_as(${name} "${ARG_PRECOMPILED}" TEST)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE
    VICINAL_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data" VICINAL_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}"
    VICINAL_LIB_DIR="${CMAKE_LIBRARY_OUTPUT_DIRECTORY}")
  if(ARG_WHOLE)
    set(filter "")
    if(ARG_TSAN_FILTER AND VICINAL_SANITIZE STREQUAL "thread")
      set(filter "--gtest_filter=${ARG_TSAN_FILTER}")
    endif()
    add_test(NAME ${name} COMMAND ${name} ${filter})
    # A filter that fits nothing would pass.
    set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
      FAIL_REGULAR_EXPRESSION "Running 0 tests")
  else()
    include(GoogleTest)
    gtest_discover_tests(${name} TEST_PREFIX "${name}." TEST_LIST tests PROPERTIES TIMEOUT ${ARG_TIMEOUT}
      DISCOVERY_TIMEOUT 60)
    # gtest_discover_tests splits a list of labels into arguments, so they are set by a script that ctest reads after it.
    set(labels_file "${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake")
    file(CONFIGURE OUTPUT "${labels_file}" @ONLY
      CONTENT "foreach(test IN LISTS tests)\n  set_tests_properties(\"\${test}\" PROPERTIES LABELS \"@ARG_LABELS@\")\nendforeach()\n")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${labels_file}")
  endif()
  # vicinal_tests_LABEL builds the tests of a label and nothing else.
  foreach(label IN LISTS ARG_LABELS)
    if(NOT TARGET vicinal_tests_${label})
      add_custom_target(vicinal_tests_${label})
    endif()
    add_dependencies(vicinal_tests_${label} ${name})
  endforeach()
endfunction()
