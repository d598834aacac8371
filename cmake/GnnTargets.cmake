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

# One precompiled header for all that includes torch: 26 s once instead of 10 s in each file.
if(GNN_WITH_TORCH)
  file(WRITE "${CMAKE_BINARY_DIR}/gnn_torch_pch.cpp.in" "// Carries the shared precompiled header.\n")
  configure_file("${CMAKE_BINARY_DIR}/gnn_torch_pch.cpp.in" "${CMAKE_BINARY_DIR}/gnn_torch_pch.cpp" COPYONLY)
  add_library(gnn_torch_pch OBJECT "${CMAKE_BINARY_DIR}/gnn_torch_pch.cpp")
  target_link_libraries(gnn_torch_pch PUBLIC LibTorch::cpu PRIVATE gnn_warnings)
  target_compile_options(gnn_torch_pch PRIVATE ${GNN_HARDENING_FLAGS} -fpch-preprocess)
  target_include_directories(gnn_torch_pch PUBLIC "${CMAKE_SOURCE_DIR}")
  target_precompile_headers(gnn_torch_pch PRIVATE <torch/torch.h>)
endif()

function(_gnn_target_defaults target torch)
  target_include_directories(${target} PUBLIC "${CMAKE_SOURCE_DIR}")
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${GNN_HARDENING_FLAGS}>)
  if(torch)
    target_link_libraries(${target} PRIVATE gnn_warnings PUBLIC LibTorch::cpu)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
    target_precompile_headers(${target} REUSE_FROM gnn_torch_pch)
  else()
    target_link_libraries(${target} PRIVATE gnn_strict_warnings)
  endif()
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
    add_library(${name} STATIC ${arg_SOURCES})
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
  add_executable(${name} ${arg_SOURCES})
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
    if(NOT label MATCHES "^(unit|integration|e2e|gpu|slow)$")
      message(FATAL_ERROR "gnn_test(${name}): unknown label ${label}")
    endif()
  endforeach()
  if(NOT arg_LABELS)
    message(FATAL_ERROR "gnn_test(${name}): a label is missing")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  add_executable(${name} ${arg_SOURCES})
  _gnn_target_defaults(${name} "${arg_TORCH}")
  target_link_libraries(${name} PRIVATE ${arg_LINK} GTest::gmock GTest::gtest GTest::gtest_main)
  # A test's own code takes half its compile time to optimise. With torch it shares the precompiled header, which wants the
  # library's flags.
  if(NOT arg_TORCH AND NOT arg_OPTIMIZED)
    target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O0>)
  endif()
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

# gnn_python_test(name SCRIPT file.py LABELS label... [TIMEOUT seconds] [ENV "A=b"...])
# A file of Python's unittest as one CTest entry, with the same kind of report as gnn_test's.
function(gnn_python_test name)
  cmake_parse_arguments(arg "" "SCRIPT;TIMEOUT" "LABELS;ENV" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SCRIPT OR NOT arg_LABELS)
    message(FATAL_ERROR "gnn_python_test(${name}): wrong arguments ${ARGN}")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  add_test(
    NAME ${name}
    COMMAND
      "${GNN_PYTHON}" "${CMAKE_SOURCE_DIR}/tests/support/run_python_tests.py"
      "${CMAKE_CURRENT_SOURCE_DIR}/${arg_SCRIPT}" "${CMAKE_BINARY_DIR}/reports/${name}.xml"
  )
  set_tests_properties(
    ${name}
    PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
               ENVIRONMENT "PYTHONPATH=${CMAKE_SOURCE_DIR};GNN_BUILD_DIR=${CMAKE_BINARY_DIR};${arg_ENV}"
  )
endfunction()
