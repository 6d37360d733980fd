# SPDX-License-Identifier: Apache-2.0
# How tests are declared: vicinal_test for GoogleTest programs, vicinal_command_test for everything else.
#
# Each test has exactly one tier as a label: unit, conformance, integration or slow (docs/testing.md says which is which).
# Further labels say how a test is run: tsan (also under the thread sanitizer), static (looks at sources and files only),
# python (is a Python program), gpu (needs a GPU to say anything). A test without a tier does not configure.

set(VICINAL_TEST_TIERS unit conformance integration slow fuzz)
set(VICINAL_TEST_KINDS tsan static python gpu)
option(VICINAL_TEST_PROGRAMS "Register each unit or conformance program as one CTest test, not each TEST in it: few processes" OFF)

# Stops the configuration unless the labels are one tier and known kinds.
function(_vicinal_check_labels test)
  set(tiers ${ARGN})
  list(REMOVE_ITEM tiers ${VICINAL_TEST_KINDS})
  list(LENGTH tiers count)
  if(NOT count EQUAL 1 OR NOT tiers IN_LIST VICINAL_TEST_TIERS)
    message(FATAL_ERROR "test ${test} has the labels '${ARGN}': it needs exactly one of ${VICINAL_TEST_TIERS}, "
                        "and may have ${VICINAL_TEST_KINDS}")
  endif()
endfunction()

# What is tested is compiled as its preset says; the tests themselves without optimisation, which saves the compiler more
# time than they then take to run.
function(_vicinal_test_options target)
  target_compile_options(${target} PRIVATE -O0)
endfunction()

# vicinal_tests_LABEL builds the tests of a label and nothing else.
function(_vicinal_add_to_labels target)
  foreach(label IN LISTS ARGN)
    if(NOT TARGET vicinal_tests_${label})
      add_custom_target(vicinal_tests_${label})
    endif()
    add_dependencies(vicinal_tests_${label} ${target})
  endforeach()
endfunction()

# vicinal_test(NAME SOURCES ... DEPS ... LABELS unit|conformance|integration|slow [tsan] [WHOLE] [NO_TSAN] [TIMEOUT s]
#              [PRECOMPILED kind] [TSAN_FILTER filter])
# A GoogleTest program. Each TEST becomes one CTest test, unless WHOLE: then the program is one CTest test (for suites
# with thousands of parameters, where a process for each would cost more than the tests). With VICINAL_TEST_PROGRAMS every
# program of unit or conformance tests is one CTest test; GoogleTest's output still names the TEST that failed. Such a
# program leaves gtest/NAME.xml in the build folder, from which tests/run.sh counts the TESTs.
# Tests under tests/engine that are not slow also run under the thread sanitizer. NO_TSAN: what is tested starts no
# thread and takes no lock, runs with other models what another test runs under the thread sanitizer already, or counts
# allocations, which clang's thread sanitizer replaces as well.
# TSAN_FILTER: of a program that is WHOLE, the tests that start threads, as GoogleTest's filter; the rest say nothing to
# the thread sanitizer.
function(vicinal_test name)
  cmake_parse_arguments(ARG "WHOLE;NO_TSAN" "TIMEOUT;PRECOMPILED;TSAN_FILTER" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
    if(VICINAL_TEST_PROGRAMS)
      set(ARG_TIMEOUT 900)
    endif()
  endif()
  _vicinal_check_labels(${name} ${ARG_LABELS})
  # The engine is free of gRPC, so its tests also run under the thread sanitizer.
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "/tests/engine(/|$)" AND NOT ARG_NO_TSAN AND NOT "slow" IN_LIST ARG_LABELS)
    list(APPEND ARG_LABELS tsan)
    list(REMOVE_DUPLICATES ARG_LABELS)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  _vicinal_options(${name})
  _vicinal_test_options(${name})
  _vicinal_precompile_as(${name} "${ARG_PRECOMPILED}" TEST)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE
    VICINAL_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data" VICINAL_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}"
    VICINAL_LIB_DIR="${CMAKE_LIBRARY_OUTPUT_DIRECTORY}")
  if(ARG_WHOLE OR (VICINAL_TEST_PROGRAMS AND ARG_LABELS MATCHES "unit|conformance"))
    set(filter "")
    if(ARG_TSAN_FILTER AND VICINAL_SANITIZE STREQUAL "thread")
      set(filter "--gtest_filter=${ARG_TSAN_FILTER}")
    endif()
    add_test(NAME ${name} COMMAND ${name} ${filter})
    # A filter that fits nothing would pass.
    set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
      FAIL_REGULAR_EXPRESSION "Running 0 tests" ENVIRONMENT "GTEST_OUTPUT=xml:${CMAKE_BINARY_DIR}/gtest/${name}.xml")
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
  _vicinal_add_to_labels(${name} ${ARG_LABELS})
endfunction()

# vicinal_command_test(NAME COMMAND ... LABELS ... [PROGRAMS target ...] [TIMEOUT s] [ENVIRONMENT name=value ...]
#                      [SKIP_CODE n] [LONG])
# A script, or a program run in another way: one CTest test. PROGRAMS: targets that it runs; they are built with the tests
# of its labels. SKIP_CODE: the exit status that says that it skipped. LONG: among the longest, so that it starts first;
# CTest knows by itself only what ran before in the same build folder.
function(vicinal_command_test name)
  cmake_parse_arguments(ARG "LONG" "TIMEOUT;SKIP_CODE" "COMMAND;LABELS;PROGRAMS;ENVIRONMENT" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  _vicinal_check_labels(${name} ${ARG_LABELS})
  foreach(program IN LISTS ARG_PROGRAMS)
    _vicinal_add_to_labels(${program} ${ARG_LABELS})
  endforeach()
  add_test(NAME ${name} COMMAND ${ARG_COMMAND})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT "${ARG_ENVIRONMENT}")
  if(ARG_LONG)
    set_tests_properties(${name} PROPERTIES COST ${ARG_TIMEOUT})
  endif()
  if(ARG_SKIP_CODE)
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE ${ARG_SKIP_CODE})
  endif()
endfunction()
