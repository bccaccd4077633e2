# How this build compiles .cu files. Every CMakeLists.txt with such sources includes this first: languages and
# source properties belong to one directory.
if(STRATA_CUDA STREQUAL "on")
  # CMake 3.25 does not know that nvcc takes C++20 (and nvcc does not take gnu++20).
  enable_language(CUDA)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  find_package(CUDAToolkit REQUIRED)
endif()

# Marks the .cu sources of a target: nvcc's, or C++ for the emulator.
function(strata_cuda_sources target)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "[.]cu$")
  if(STRATA_CUDA STREQUAL "on")
    set_target_properties(${target} PROPERTIES
      CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_RUNTIME_LIBRARY Shared)
    set(options --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra,-Werror -Werror=all-warnings)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${options}>")
  elseif(sources)
    set_source_files_properties(${sources} PROPERTIES LANGUAGE CXX)
  endif()
endfunction()
