# gnn_library, gnn_executable, gnn_test: the only ways our targets are made.

# -g1 keeps line tables for sanitizers and stack traces at a third of the size. Instrumented code takes twice as long to
# compile with -O2 as with -O1, and shows the same faults.
if(GNN_SANITIZE)
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
else()
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O3")
set(
  GNN_HARDENING_FLAGS
  -fstack-protector-strong
  $<$<CONFIG:Release>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>
)

# What the compiler cache needs to hold files that use a precompiled header.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(GNN_PCH_FLAGS -fpch-preprocess)
else()
  set(GNN_PCH_FLAGS "SHELL:-Xclang -fno-pch-timestamp")
endif()

# A test's own code takes half its compile time to optimise.
set(GNN_TEST_FLAGS $<$<CONFIG:RelWithDebInfo>:-O0>)

# _gnn_precompiled_headers(kind WARNINGS target HEADERS header... [LINK lib...])
# What many sources include, parsed once: gnn_KIND_pch, and gnn_KIND_test_pch with GoogleTest for what has GNN_TEST_FLAGS.
# A target that reuses one has its flags. Whether a header names all that it needs is for tools/lint/headers.py to see.
function(_gnn_precompiled_headers kind)
  cmake_parse_arguments(arg "" "WARNINGS" "HEADERS;LINK" ${ARGN})
  set(pchs gnn_${kind}_pch)
  if(GNN_BUILD_TESTS)
    list(APPEND pchs gnn_${kind}_test_pch)
  endif()
  foreach(pch ${pchs})
    file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/${pch}.cpp" CONTENT "// Carries the precompiled header.\n")
    add_library(${pch} OBJECT "${CMAKE_BINARY_DIR}/${pch}.cpp")
    target_link_libraries(${pch} PRIVATE ${arg_WARNINGS} ${arg_LINK})
    target_compile_options(${pch} PRIVATE ${GNN_HARDENING_FLAGS} ${GNN_PCH_FLAGS})
    target_include_directories(${pch} PRIVATE "${CMAKE_SOURCE_DIR}")
    target_precompile_headers(${pch} PRIVATE ${arg_HEADERS})
  endforeach()
  if(GNN_BUILD_TESTS)
    target_link_libraries(gnn_${kind}_test_pch PRIVATE GTest::gmock)
    target_compile_options(gnn_${kind}_test_pch PRIVATE ${GNN_TEST_FLAGS})
    target_precompile_headers(gnn_${kind}_test_pch PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
  endif()
endfunction()

set(
  _gnn_std_headers
  <algorithm> <array> <atomic> <charconv> <chrono> <cmath> <condition_variable> <cstdint> <cstdlib> <cstring> <filesystem>
  <fstream> <functional> <future> <limits> <map> <memory> <mutex> <optional> <set> <span> <sstream> <stdexcept> <string>
  <string_view> <thread> <unordered_map> <utility> <variant> <vector>
)
_gnn_precompiled_headers(std WARNINGS gnn_strict_warnings HEADERS ${_gnn_std_headers})
# The controller speaks JSON in nearly every source.
if(GNN_BUILD_CONTROLLER)
  _gnn_precompiled_headers(json WARNINGS gnn_strict_warnings HEADERS ${_gnn_std_headers} <nlohmann/json.hpp>)
endif()
# Not <torch/torch.h>, which nothing of ours includes: its templates are made anew in every file that sees it, precompiled
# or not, and that takes 12 s of CPU; those below take 4.
if(GNN_WITH_TORCH)
  _gnn_precompiled_headers(
    torch
    WARNINGS gnn_warnings
    HEADERS
      <ATen/ATen.h>
      <torch/csrc/autograd/custom_function.h>
      <torch/nn/module.h>
      <torch/nn/modules/linear.h>
      <torch/nn/pimpl.h>
      <torch/types.h>
      <torch/utils.h>
    LINK LibTorch::cpu
  )
endif()

# _gnn_target_defaults(target torch [_test]): with _test for what has GNN_TEST_FLAGS.
function(_gnn_target_defaults target torch)
  target_include_directories(${target} PUBLIC "${CMAKE_SOURCE_DIR}")
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${GNN_HARDENING_FLAGS};${GNN_PCH_FLAGS}>)
  if(torch)
    set(kind torch)
    target_link_libraries(${target} PRIVATE gnn_warnings PUBLIC LibTorch::cpu)
  else()
    set(kind std)
    # Below the checkout, which may lie in a folder of any name.
    file(RELATIVE_PATH folder "${CMAKE_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
    if(folder MATCHES "(^|/)controller(/|$)")
      set(kind json)
    endif()
    target_link_libraries(${target} PRIVATE gnn_strict_warnings)
  endif()
  if(TARGET gnn_${kind}${ARGN}_pch)
    target_precompile_headers(${target} REUSE_FROM gnn_${kind}${ARGN}_pch)
  endif()
endfunction()

# _gnn_unity(out target batch source...)
# The sources of a target, `batch` at a time as one that includes them (a unity build); a source with options of its own stays
# alone. CMake's own unity build names sources by absolute path: in another checkout the compiler cache would find none.
function(_gnn_unity out target batch)
  set(sources)
  set(numbers)
  set(number 0)
  foreach(source ${ARGN})
    get_source_file_property(options "${source}" COMPILE_OPTIONS)
    if(batch LESS 2 OR options OR NOT source MATCHES "\\.cpp$")
      list(APPEND sources "${source}")
      continue()
    endif()
    math(EXPR unity "${number} / ${batch}")
    math(EXPR number "${number} + 1")
    get_filename_component(path "${source}" ABSOLUTE)
    file(RELATIVE_PATH path "${CMAKE_SOURCE_DIR}" "${path}")
    string(APPEND content_${unity} "#include \"${path}\"\n")
    list(APPEND numbers ${unity})
  endforeach()
  list(REMOVE_DUPLICATES numbers)
  foreach(unity ${numbers})
    set(file "${CMAKE_CURRENT_BINARY_DIR}/unity/${target}_${unity}.cpp")
    file(CONFIGURE OUTPUT "${file}" CONTENT "${content_${unity}}")
    list(APPEND sources "${file}")
  endforeach()
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

# gnn_library(name [TORCH] [SOURCES file...] [PUBLIC lib...] [PRIVATE lib...])
# A module of the product; `gnn_x` gets the alias `gnn::x`. Without SOURCES it is headers only.
function(gnn_library name)
  cmake_parse_arguments(arg "TORCH" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "gnn_library(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(arg_TORCH AND NOT GNN_WITH_TORCH)
    return()
  endif()
  if(arg_SOURCES)
    _gnn_unity(sources ${name} ${GNN_UNITY} ${arg_SOURCES})
    add_library(${name} STATIC ${sources})
    _gnn_target_defaults(${name} "${arg_TORCH}")
    target_link_libraries(${name} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE "${CMAKE_SOURCE_DIR}")
    target_link_libraries(${name} INTERFACE ${arg_PUBLIC})
    if(arg_TORCH)
      target_link_libraries(${name} INTERFACE LibTorch::cpu)
    endif()
  endif()
  string(REGEX REPLACE "^gnn_" "" short ${name})
  add_library(gnn::${short} ALIAS ${name})
endfunction()

# gnn_executable(name [TORCH] SOURCES file... [PRIVATE lib...] [COMPONENT component])
# COMPONENT installs it to bin: images copy a component, never a build tree.
function(gnn_executable name)
  cmake_parse_arguments(arg "TORCH" "COMPONENT" "SOURCES;PRIVATE" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "gnn_executable(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(arg_TORCH AND NOT GNN_WITH_TORCH)
    return()
  endif()
  _gnn_unity(sources ${name} ${GNN_UNITY} ${arg_SOURCES})
  add_executable(${name} ${sources})
  _gnn_target_defaults(${name} "${arg_TORCH}")
  target_link_libraries(${name} PRIVATE ${arg_PRIVATE})
  target_link_options(${name} PRIVATE LINKER:-z,relro,-z,now)
  if(arg_COMPONENT)
    set_target_properties(${name} PROPERTIES INSTALL_RPATH "${GNN_INSTALL_RPATH}")
    install(TARGETS ${name} RUNTIME DESTINATION bin COMPONENT ${arg_COMPONENT})
  endif()
endfunction()

# gnn_test(name [TORCH] [OPTIMIZED] SOURCES file... [LINK lib...] LABELS label... [TIMEOUT seconds] [ENV "A=b"...])
# One GoogleTest binary and one CTest entry. Its XML report goes to ${CMAKE_BINARY_DIR}/reports, where
# scripts/test counts the cases. gnn_tests_label_unit builds all tests with the label unit, and so on.
# The label asan marks the unit tests that scripts/test runs under the address sanitizer by default; --full runs all of them.
# OPTIMIZED is for tests of product code that lives in headers.
function(gnn_test name)
  cmake_parse_arguments(arg "TORCH;OPTIMIZED" "TIMEOUT" "SOURCES;LINK;LABELS;ENV" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "gnn_test(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(arg_TORCH AND NOT GNN_WITH_TORCH)
    return()
  endif()
  foreach(label ${arg_LABELS})
    if(NOT label MATCHES "^(unit|asan|integration|e2e|gpu|slow)$")
      message(FATAL_ERROR "gnn_test(${name}): unknown label ${label}")
    endif()
  endforeach()
  if(NOT arg_LABELS)
    message(FATAL_ERROR "gnn_test(${name}): a label is missing")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(GNN_SANITIZE)
    math(EXPR arg_TIMEOUT "3 * ${arg_TIMEOUT}")
  endif()
  # Several files of tests are compiled as one: what they share takes longer than they do.
  set(batch ${GNN_UNITY})
  if(batch LESS 4)
    set(batch 4)
  endif()
  _gnn_unity(sources ${name} ${batch} ${arg_SOURCES})
  add_executable(${name} ${sources})
  # gnn_warnings has it where every target is compiled so; CMake would drop the second one, which counts.
  if(GNN_UNITY LESS 2)
    target_compile_options(${name} PRIVATE -Wno-shadow)
  endif()
  # Few tests with torch have a sanitizer: they share the library's precompiled header.
  if(arg_OPTIMIZED OR (arg_TORCH AND GNN_SANITIZE))
    _gnn_target_defaults(${name} "${arg_TORCH}")
  else()
    _gnn_target_defaults(${name} "${arg_TORCH}" _test)
    target_compile_options(${name} PRIVATE ${GNN_TEST_FLAGS})
  endif()
  target_link_libraries(${name} PRIVATE ${arg_LINK} gnn::source_dir GTest::gmock GTest::gtest GTest::gtest_main)
  add_test(
    NAME ${name}
    COMMAND ${name} "--gtest_output=xml:${CMAKE_BINARY_DIR}/reports/${name}.xml"
  )
  set_tests_properties(
    ${name}
    PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} ENVIRONMENT "${arg_ENV}"
  )
  foreach(label ${arg_LABELS})
    if(NOT TARGET gnn_tests_label_${label})
      add_custom_target(gnn_tests_label_${label})
    endif()
    add_dependencies(gnn_tests_label_${label} ${name})
  endforeach()
endfunction()

# gnn_test_again(name OF test LABELS label... ENV "A=b"...)
# The cases of another gnn_test as a CTest entry of its own, in another environment.
function(gnn_test_again name)
  cmake_parse_arguments(arg "" "OF" "LABELS;ENV" ${ARGN})
  if(NOT TARGET ${arg_OF})
    return()
  endif()
  add_test(
    NAME ${name}
    COMMAND ${arg_OF} "--gtest_output=xml:${CMAKE_BINARY_DIR}/reports/${name}.xml"
  )
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT 300 ENVIRONMENT "${arg_ENV}")
endfunction()

# gnn_python_test(name SCRIPT file.py [TOOLS folder...] LABELS label... [TIMEOUT seconds] [ENV "A=b"...])
# A file of Python's unittest as one CTest entry, with the same kind of report as gnn_test's.
# TOOLS: folders of tools/ whose modules the test imports. Each has the label python besides its own.
function(gnn_python_test name)
  cmake_parse_arguments(arg "" "SCRIPT;TIMEOUT" "TOOLS;LABELS;ENV" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SCRIPT OR NOT arg_LABELS)
    message(FATAL_ERROR "gnn_python_test(${name}): wrong arguments ${ARGN}")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  list(TRANSFORM arg_TOOLS PREPEND "${CMAKE_SOURCE_DIR}/tools/")
  list(JOIN arg_TOOLS ":" path)
  add_test(
    NAME ${name}
    COMMAND
      "${GNN_PYTHON}" "${CMAKE_SOURCE_DIR}/tests/support/run_python_tests.py"
      "${CMAKE_CURRENT_SOURCE_DIR}/${arg_SCRIPT}" "${CMAKE_BINARY_DIR}/reports/${name}.xml"
  )
  set_tests_properties(
    ${name}
    PROPERTIES LABELS "${arg_LABELS};python" TIMEOUT ${arg_TIMEOUT}
               ENVIRONMENT "PYTHONPATH=${path};GNN_BUILD_DIR=${CMAKE_BINARY_DIR};${arg_ENV}"
  )
endfunction()

# gnn_gpu_bench(name [NO_TORCH] STAGE stage SOURCES file... [PRIVATE lib...])
# A benchmark that needs a GPU, which scripts/gpu-check runs in that stage of its own: `name --json FILE` writes its figures.
function(gnn_gpu_bench name)
  cmake_parse_arguments(arg "NO_TORCH" "STAGE" "SOURCES;PRIVATE" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_STAGE OR NOT arg_SOURCES)
    message(FATAL_ERROR "gnn_gpu_bench(${name}): wrong arguments ${ARGN}")
  endif()
  if(arg_NO_TORCH)
    gnn_executable(${name} SOURCES ${arg_SOURCES} PRIVATE ${arg_PRIVATE})
    target_include_directories(${name} SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  else()
    gnn_executable(${name} TORCH SOURCES ${arg_SOURCES} PRIVATE gnn_gpu_bench_support ${arg_PRIVATE})
  endif()
  add_dependencies(gnn_gpu_benches ${name})
  file(
    GENERATE
    OUTPUT "${CMAKE_BINARY_DIR}/gpu-benches/${name}.json"
    CONTENT "{\"name\": \"${name}\", \"stage\": \"${arg_STAGE}\", \"program\": \"$<TARGET_FILE:${name}>\"}\n"
  )
endfunction()
