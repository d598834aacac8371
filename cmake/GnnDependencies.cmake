# Where third-party code comes from: Debian packages, and LibTorch from the pinned wheels.

# One place for what is downloaded or built once per machine; scripts/setup fills it.
if(DEFINED ENV{XDG_CACHE_HOME} AND NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
  set(GNN_CACHE_DIR "$ENV{XDG_CACHE_HOME}/gnn-operator")
else()
  set(GNN_CACHE_DIR "$ENV{HOME}/.cache/gnn-operator")
endif()

find_package(Threads REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(spdlog 1.10 REQUIRED)
find_package(yaml-cpp 0.7 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(prometheus-cpp REQUIRED CONFIG)  # 1.0; its package names no version
find_package(PkgConfig REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED)
pkg_check_modules(libxxhash REQUIRED IMPORTED_TARGET libxxhash)

# Debian's METIS has no CMake or pkg-config file.
if(GNN_BUILD_WORKER)
  find_path(GNN_METIS_INCLUDE metis.h REQUIRED)
  find_library(GNN_METIS_LIBRARY metis REQUIRED)
  add_library(gnn_metis INTERFACE)
  add_library(gnn::metis ALIAS gnn_metis)
  target_include_directories(gnn_metis SYSTEM INTERFACE "${GNN_METIS_INCLUDE}")
  target_link_libraries(gnn_metis INTERFACE "${GNN_METIS_LIBRARY}")
endif()

# tl::expected and cpp-httplib are headers; Debian's CMake files for them differ between releases.
find_path(GNN_TL_EXPECTED_INCLUDE tl/expected.hpp REQUIRED)
find_path(GNN_HTTPLIB_INCLUDE httplib.h REQUIRED)
find_library(GNN_HTTPLIB_LIBRARY cpp-httplib REQUIRED)
add_library(gnn_httplib INTERFACE)
add_library(gnn::httplib ALIAS gnn_httplib)
target_include_directories(gnn_httplib SYSTEM INTERFACE "${GNN_HTTPLIB_INCLUDE}")
target_link_libraries(gnn_httplib INTERFACE "${GNN_HTTPLIB_LIBRARY}" Threads::Threads)

if(GNN_BUILD_WORKER)
  find_path(GNN_ASIO_INCLUDE asio.hpp REQUIRED)
  add_library(gnn_asio INTERFACE)
  add_library(gnn::asio ALIAS gnn_asio)
  target_include_directories(gnn_asio SYSTEM INTERFACE "${GNN_ASIO_INCLUDE}")
  # Without Boost, and without what newer versions lack.
  target_compile_definitions(gnn_asio INTERFACE ASIO_STANDALONE ASIO_NO_DEPRECATED)
  target_link_libraries(gnn_asio INTERFACE Threads::Threads)
endif()

if(GNN_BUILD_CONTROLLER)
  find_package(cpprestsdk 2.10 REQUIRED)
endif()

# The pinned virtual environment, with PyYAML and the linters; any Python 3 does for tests that need neither.
execute_process(
  COMMAND "${CMAKE_SOURCE_DIR}/scripts/setup" --print-dir dev
  OUTPUT_VARIABLE GNN_DEV_DIR
  OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_QUIET
)
# Not cached: the folder's name changes with the pins.
find_program(GNN_PYTHON python3 PATHS "${GNN_DEV_DIR}/bin" NO_DEFAULT_PATH NO_CACHE)
find_program(GNN_PYTHON python3 REQUIRED NO_CACHE)

if(GNN_BUILD_TESTS)
  find_package(GTest 1.12 REQUIRED)
  find_path(GNN_RAPIDCHECK_INCLUDE rapidcheck.h REQUIRED)
  find_library(GNN_RAPIDCHECK_LIBRARY rapidcheck REQUIRED)
  add_library(gnn_rapidcheck INTERFACE)
  add_library(gnn::rapidcheck ALIAS gnn_rapidcheck)
  target_include_directories(gnn_rapidcheck SYSTEM INTERFACE "${GNN_RAPIDCHECK_INCLUDE}")
  target_link_libraries(gnn_rapidcheck INTERFACE "${GNN_RAPIDCHECK_LIBRARY}")
endif()
if(GNN_BUILD_BENCH)
  find_package(benchmark 1.7 REQUIRED)
endif()

if(GNN_WITH_TORCH)
  find_package(LibTorch REQUIRED)
endif()

# ccache makes a second checkout warm; the base directory makes paths of checkouts comparable, and the
# sloppiness is what ccache's manual asks for with precompiled headers. Its keys hold the locale, of which the
# scripts, started by Python, have another one than a shell: the compiler gets the same from both.
find_program(GNN_CCACHE ccache)
if(GNN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(
    CMAKE_CXX_COMPILER_LAUNCHER
    "${CMAKE_COMMAND}" -E env --unset=LC_ALL --unset=LC_CTYPE --unset=LC_MESSAGES LANG=C.UTF-8
    "CCACHE_DIR=${GNN_CACHE_DIR}/ccache" "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=10G
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    "${GNN_CCACHE}"
  )
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${CMAKE_CXX_COMPILER_LAUNCHER}")
endif()
set(GNN_COMPILER_LAUNCHER "${CMAKE_CXX_COMPILER_LAUNCHER}" CACHE INTERNAL "Read by the test of the compiler cache")
