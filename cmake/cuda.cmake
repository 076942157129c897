# Is there a CUDA toolkit, and how is device code compiled? Sets TWOHOP_HAS_CUDA. The CUDA runtime is linked statically and
# looks for the driver when the program runs: the same library works on machines without a GPU.
set(TWOHOP_CUDA AUTO CACHE STRING "Build the CUDA back end: AUTO (where a toolkit is found), ON or OFF")
set_property(CACHE TWOHOP_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NOT TWOHOP_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "TWOHOP_CUDA=${TWOHOP_CUDA}: accepted are AUTO, ON, OFF")
endif()

set(TWOHOP_HAS_CUDA FALSE)
# Sanitized builds are of host code: the device loop is sanitized on host threads, and a GPU's memory has no shadow.
if(TWOHOP_CUDA STREQUAL "ON" OR (TWOHOP_CUDA STREQUAL "AUTO" AND NOT TWOHOP_SANITIZE))
  find_package(CUDAToolkit 12.4 QUIET)
  # nvcc is often beside the toolkit and not in PATH.
  if(CUDAToolkit_FOUND AND NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  endif()
  if(CUDAToolkit_FOUND AND (CMAKE_CUDA_COMPILER OR DEFINED ENV{CUDACXX}))
    set(TWOHOP_HAS_CUDA TRUE)
  elseif(TWOHOP_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TWOHOP_CUDA=ON: no CUDA toolkit (12.4 or newer) with nvcc found; set CUDAToolkit_ROOT or CUDACXX")
  endif()
endif()
if(TWOHOP_HAS_CUDA)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90)  # 90: sm_90, and PTX for what comes after it
  endif()
  if(NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/scripts/nvcc-log)
    if(CCACHE)
      list(APPEND CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
    endif()
  endif()
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # nvcc has C++20 since 12.0, and CMake has known it since 3.26
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
  # -fmad=false: the same bits as the host's kernels. Constexpr functions of plan and device serve both sides.
  add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-fmad=false;-Xptxas=-v;--expt-relaxed-constexpr;-Werror=all-warnings>"
                      "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Werror,-Wno-unknown-pragmas,-ffp-contract=off>")
  # libcu++ for C++ files too (device/flags.hpp); since CUDA 13 its headers are in a folder of their own.
  foreach(folder ${CUDAToolkit_INCLUDE_DIRS})
    if(EXISTS ${folder}/cccl/cuda/atomic)
      target_include_directories(CUDA::cudart_static SYSTEM INTERFACE ${folder}/cccl)
    endif()
  endforeach()
  message(STATUS "CUDA ${CUDAToolkit_VERSION}: GPU back end for ${CMAKE_CUDA_ARCHITECTURES}")
else()
  message(STATUS "CUDA: the GPU back end is left out (TWOHOP_CUDA=${TWOHOP_CUDA})")
endif()
