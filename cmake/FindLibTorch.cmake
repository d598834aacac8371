# LibTorch::cpu, and LibTorch::cuda where the CUDA libraries are there too.
#
# GNN_LIBTORCH_ROOT names where LibTorch is: a folder of installed wheels (holds torch/lib) or an unpacked
# official LibTorch zip (holds lib and include). Empty: the pinned wheels that scripts/setup installed.
# The wheel's own TorchConfig.cmake insists on a CUDA toolkit even for CPU programs, hence this file.

set(GNN_LIBTORCH_ROOT "" CACHE PATH "Folder of LibTorch: installed wheels, or an unpacked LibTorch zip")

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

set(_root "${GNN_LIBTORCH_ROOT}")
if(NOT _root)
  if(GNN_WITH_NCCL OR GNN_WITH_CUDA_KERNELS)
    _gnn_wheel_dir(_root cuda)
  else()
    _gnn_wheel_dir(_root torch)
  endif()
endif()

if(EXISTS "${_root}/torch/lib")
  set(LibTorch_PREFIX "${_root}/torch")
  set(LibTorch_CUDA_PREFIX "${_root}/nvidia/cu13")
else()
  set(LibTorch_PREFIX "${_root}")
  set(LibTorch_CUDA_PREFIX "")
endif()

find_path(
  LibTorch_INCLUDE_DIR ATen/ATen.h
  PATHS "${LibTorch_PREFIX}/include" NO_DEFAULT_PATH NO_CACHE
)
foreach(lib c10 torch_cpu)
  find_library(LibTorch_${lib}_LIBRARY ${lib} PATHS "${LibTorch_PREFIX}/lib" NO_DEFAULT_PATH NO_CACHE)
endforeach()
# Optional here; asked for below.
foreach(lib c10_cuda torch_cuda)
  find_library(LibTorch_${lib}_LIBRARY ${lib} PATHS "${LibTorch_PREFIX}/lib" NO_DEFAULT_PATH NO_CACHE)
endforeach()
# ProcessGroupGloo.hpp includes gloo's headers, which the wheel leaves out; Debian's declare the same classes.
find_path(LibTorch_GLOO_INCLUDE_DIR gloo/config.h PATHS "${LibTorch_PREFIX}/include" NO_CACHE)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  LibTorch
  REQUIRED_VARS LibTorch_torch_cpu_LIBRARY LibTorch_c10_LIBRARY LibTorch_INCLUDE_DIR LibTorch_GLOO_INCLUDE_DIR
  REASON_FAILURE_MESSAGE
    "run scripts/setup, or name an unpacked LibTorch by -DGNN_LIBTORCH_ROOT=PATH (looked in '${_root}')"
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
    set_property(
      TARGET LibTorch::cpu
      APPEND
      PROPERTY INTERFACE_LINK_OPTIONS "LINKER:-rpath-link,${LibTorch_CUDA_PREFIX}/lib"
    )
  endif()
  list(APPEND CMAKE_BUILD_RPATH ${_rpath})
endif()

if(LibTorch_torch_cuda_LIBRARY AND EXISTS "${LibTorch_CUDA_PREFIX}/include/cuda_runtime_api.h"
   AND EXISTS "${LibTorch_CUDA_PREFIX}/../nccl/include/nccl.h" AND NOT TARGET LibTorch::cuda)
  set(_nvidia "${LibTorch_CUDA_PREFIX}/..")
  # The wheels carry no unversioned .so links, so libraries are named with their version.
  file(GLOB _cudart "${LibTorch_CUDA_PREFIX}/lib/libcudart.so.*")
  list(GET _cudart 0 _cudart)
  add_library(LibTorch::cuda INTERFACE IMPORTED)
  set_target_properties(
    LibTorch::cuda
    PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${LibTorch_CUDA_PREFIX}/include;${_nvidia}/nccl/include"
      INTERFACE_COMPILE_DEFINITIONS "USE_C10D_NCCL"
      # torch_cuda registers its kernels when it is loaded and exports nothing that we call by name.
      INTERFACE_LINK_LIBRARIES
        "LibTorch::cpu;-Wl,--no-as-needed;${LibTorch_torch_cuda_LIBRARY};${LibTorch_c10_cuda_LIBRARY};-Wl,--as-needed;${_cudart}"
      INTERFACE_LINK_OPTIONS "LINKER:--allow-shlib-undefined"
  )
  file(GLOB _nvidia_libs "${_nvidia}/*/lib")
  list(APPEND CMAKE_BUILD_RPATH ${_nvidia_libs})
endif()

if((GNN_WITH_NCCL OR GNN_WITH_CUDA_KERNELS) AND NOT TARGET LibTorch::cuda)
  message(FATAL_ERROR "CUDA was asked for, but '${_root}' has no CUDA headers or NCCL: run scripts/setup --cuda")
endif()
if(GNN_WITH_CUDA_KERNELS AND NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER "${LibTorch_CUDA_PREFIX}/bin/nvcc")
  set(CMAKE_CUDA_ARCHITECTURES "80;90" CACHE STRING "GPU architectures of our kernels")
  set(CMAKE_CUDA_FLAGS "-L${LibTorch_CUDA_PREFIX}/lib --expt-relaxed-constexpr" CACHE STRING "")
endif()
