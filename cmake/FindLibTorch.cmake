# LibTorch::cpu, and LibTorch::cuda where the CUDA libraries are there too.
#
# GNN_LIBTORCH_ROOT names where LibTorch is: a folder of installed wheels (holds torch/lib) or an unpacked
# official LibTorch zip (holds lib and include). Empty: the pinned wheels that scripts/setup installed.
# GNN_CUDA_ROOT names the CUDA toolkit for such a zip, which has none: a folder with bin/nvcc, include and lib or
# lib64. Empty: the pinned wheels that `scripts/setup --cuda` installed.
# The wheel's own TorchConfig.cmake insists on a CUDA toolkit even for CPU programs, hence this file.

set(GNN_LIBTORCH_ROOT "" CACHE PATH "Folder of LibTorch: installed wheels, or an unpacked LibTorch zip")
set(GNN_CUDA_ROOT "" CACHE PATH "CUDA toolkit beside an unpacked LibTorch zip; empty: the pinned wheels")
set(_tested_version 2.11)

function(_gnn_wheel_dir output kind)
  execute_process(
    COMMAND "${CMAKE_SOURCE_DIR}/scripts/setup" --print-dir ${kind}
    OUTPUT_VARIABLE dir
    OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE code
  )
  if(NOT code EQUAL 0)
    set(dir "")
  endif()
  set(${output} "${dir}" PARENT_SCOPE)
endfunction()

set(_want_cuda OFF)
if(GNN_WITH_NCCL OR GNN_WITH_CUDA_KERNELS)
  set(_want_cuda ON)
endif()
set(_root "${GNN_LIBTORCH_ROOT}")
set(_remedy "run scripts/setup, or name an unpacked LibTorch by -DGNN_LIBTORCH_ROOT=PATH")
if(_root)
  # find_package_handle_standard_args() takes the message apart at semicolons.
  set(_remedy "expected '${_root}', which GNN_LIBTORCH_ROOT names, to hold lib/libtorch_cpu.so and include/ATen (an \
unpacked LibTorch zip) or torch/lib/libtorch_cpu.so (installed wheels)")
  if(NOT IS_DIRECTORY "${_root}")
    message(FATAL_ERROR "GNN_LIBTORCH_ROOT names '${_root}', which is no folder")
  endif()
elseif(_want_cuda)
  _gnn_wheel_dir(_root cuda)
else()
  _gnn_wheel_dir(_root torch)
endif()

if(EXISTS "${_root}/torch/lib")
  set(LibTorch_PREFIX "${_root}/torch")
  set(LibTorch_CUDA_PREFIX "${_root}/nvidia/cu13")
else()
  set(LibTorch_PREFIX "${_root}")
  set(LibTorch_CUDA_PREFIX "")
  if(_want_cuda)
    set(LibTorch_CUDA_PREFIX "${GNN_CUDA_ROOT}")
    if(NOT LibTorch_CUDA_PREFIX)
      _gnn_wheel_dir(_cuda_wheels cuda)
      set(LibTorch_CUDA_PREFIX "${_cuda_wheels}/nvidia/cu13")
    endif()
  endif()
endif()

find_path(
  LibTorch_INCLUDE_DIR ATen/ATen.h
  PATHS "${LibTorch_PREFIX}/include" NO_DEFAULT_PATH NO_CACHE
)
foreach(lib c10 torch_cpu)
  find_library(LibTorch_${lib}_LIBRARY ${lib} PATHS "${LibTorch_PREFIX}/lib" NO_DEFAULT_PATH NO_CACHE)
endforeach()
# Optional here; required below for CUDA.
foreach(lib c10_cuda torch_cuda)
  find_library(LibTorch_${lib}_LIBRARY ${lib} PATHS "${LibTorch_PREFIX}/lib" NO_DEFAULT_PATH NO_CACHE)
endforeach()
# ProcessGroupGloo.hpp includes gloo's headers, which the wheel leaves out; Debian's declare the same classes.
find_path(LibTorch_GLOO_INCLUDE_DIR gloo/config.h PATHS "${LibTorch_PREFIX}/include" NO_CACHE)

if(LibTorch_torch_cpu_LIBRARY AND LibTorch_INCLUDE_DIR AND NOT LibTorch_GLOO_INCLUDE_DIR)
  set(_remedy "gloo's headers are missing: run 'apt-get install libgloo-dev'")
endif()
if(EXISTS "${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h")
  file(READ "${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h" _version)
  string(REGEX MATCH "VERSION_MAJOR ([0-9]+).*VERSION_MINOR ([0-9]+).*VERSION_PATCH ([0-9]+)" _version "${_version}")
  set(LibTorch_VERSION "${CMAKE_MATCH_1}.${CMAKE_MATCH_2}.${CMAKE_MATCH_3}")
endif()
if(LibTorch_INCLUDE_DIR AND NOT LibTorch_VERSION MATCHES "^${_tested_version}\\.")
  message(WARNING "this LibTorch ('${LibTorch_VERSION}' in '${_root}') is not ${_tested_version}, which is what is tested")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  LibTorch
  REQUIRED_VARS LibTorch_torch_cpu_LIBRARY LibTorch_c10_LIBRARY LibTorch_INCLUDE_DIR LibTorch_GLOO_INCLUDE_DIR
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "${_remedy}"
)

if(LibTorch_FOUND AND NOT TARGET LibTorch::cpu)
  add_library(LibTorch::cpu INTERFACE IMPORTED)
  set_target_properties(
    LibTorch::cpu
    PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES
        "${LibTorch_INCLUDE_DIR};${LibTorch_INCLUDE_DIR}/torch/csrc/api/include;${LibTorch_GLOO_INCLUDE_DIR}"
      INTERFACE_COMPILE_DEFINITIONS "USE_DISTRIBUTED;USE_C10D_GLOO"
      INTERFACE_LINK_LIBRARIES "${LibTorch_torch_cpu_LIBRARY};${LibTorch_c10_LIBRARY}"
  )
  set(_rpath "${LibTorch_PREFIX}/lib")
  if(LibTorch_CUDA_PREFIX)
    # libtorch_cpu.so of the wheel loads libcudart and libcupti itself.
    list(APPEND _rpath "${LibTorch_CUDA_PREFIX}/lib")
  endif()
  foreach(_folder ${_rpath})
    set_property(TARGET LibTorch::cpu APPEND PROPERTY INTERFACE_LINK_OPTIONS "LINKER:-rpath-link,${_folder}")
  endforeach()
  list(APPEND CMAKE_BUILD_RPATH ${_rpath})
endif()

if(LibTorch_FOUND AND _want_cuda AND NOT TARGET LibTorch::cuda)
  set(_nvidia "${LibTorch_CUDA_PREFIX}/..")
  # The wheels have NCCL beside the toolkit; a machine with a toolkit of its own has it there or in the system.
  find_path(
    LibTorch_NCCL_INCLUDE_DIR nccl.h
    PATHS "${_nvidia}/nccl/include" "${LibTorch_CUDA_PREFIX}/include" NO_CACHE
  )
  # The wheels carry no unversioned .so links, so libraries are named with their version.
  file(GLOB _cudart "${LibTorch_CUDA_PREFIX}/lib/libcudart.so*" "${LibTorch_CUDA_PREFIX}/lib64/libcudart.so*")
  if(NOT LibTorch_torch_cuda_LIBRARY OR NOT LibTorch_c10_cuda_LIBRARY)
    message(FATAL_ERROR "CUDA was requested, but LibTorch in '${LibTorch_PREFIX}' is built without it")
  elseif(NOT EXISTS "${LibTorch_CUDA_PREFIX}/include/cuda_runtime_api.h" OR NOT _cudart)
    message(FATAL_ERROR "CUDA was requested, but '${LibTorch_CUDA_PREFIX}' lacks include/cuda_runtime_api.h or "
                        "libcudart: run scripts/setup --cuda, or name a toolkit by -DGNN_CUDA_ROOT=PATH")
  elseif(NOT LibTorch_NCCL_INCLUDE_DIR)
    message(FATAL_ERROR "CUDA was requested, but there is no nccl.h: run scripts/setup --cuda, or put NCCL into "
                        "'${LibTorch_CUDA_PREFIX}/include'")
  endif()
  list(GET _cudart 0 _cudart)
  get_filename_component(_cudart_dir "${_cudart}" DIRECTORY)
  add_library(LibTorch::cuda INTERFACE IMPORTED)
  set_target_properties(
    LibTorch::cuda
    PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${LibTorch_CUDA_PREFIX}/include;${LibTorch_NCCL_INCLUDE_DIR}"
      INTERFACE_COMPILE_DEFINITIONS "USE_C10D_NCCL"
      # torch_cuda registers its kernels when it is loaded and exports nothing that we call by name.
      INTERFACE_LINK_LIBRARIES
        "LibTorch::cpu;-Wl,--no-as-needed;${LibTorch_torch_cuda_LIBRARY};${LibTorch_c10_cuda_LIBRARY};-Wl,--as-needed;${_cudart}"
      INTERFACE_LINK_OPTIONS "LINKER:--allow-shlib-undefined"
  )
  file(GLOB _nvidia_libs "${_nvidia}/*/lib")
  list(APPEND CMAKE_BUILD_RPATH "${_cudart_dir}" ${_nvidia_libs})
  if(GNN_WITH_CUDA_KERNELS AND NOT CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER "${LibTorch_CUDA_PREFIX}/bin/nvcc")
    # Machine code for Ampere and Ada, Hopper, and both lines of Blackwell; what is newer compiles from that of 100.
    set(CMAKE_CUDA_ARCHITECTURES "80-real;90-real;100;120-real" CACHE STRING "GPU architectures of our kernels")
    set(CMAKE_CUDA_FLAGS "-L${_cudart_dir} --expt-relaxed-constexpr" CACHE STRING "")
  endif()
endif()
