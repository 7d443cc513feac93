# Python and the torch that is installed for it.
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)

# A CUDA build of torch, which pip installs on most machines, wants the CUDA toolkit unless this target exists. Nothing here uses CUDA.
if(NOT TARGET torch::cudart)
  add_library(torch::cudart INTERFACE IMPORTED)
endif()

# scikit-build-core has CMake look into site-packages, which finds it at once. Elsewhere Python is asked where it is.
find_package(Torch QUIET CONFIG)
if(NOT Torch_FOUND)
  # An installed backend must not load during the build.
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env TORCH_DEVICE_BACKEND_AUTOLOAD=0
      ${Python_EXECUTABLE} -c "import torch.utils; print(torch.utils.cmake_prefix_path)"
    OUTPUT_VARIABLE torch_prefix OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR
      "torch cannot be imported by ${Python_EXECUTABLE}. Install torch for this Python, and build without isolation "
      "(pip install --no-build-isolation).")
  endif()
  list(APPEND CMAKE_PREFIX_PATH "${torch_prefix}")
  find_package(Torch REQUIRED CONFIG)
endif()

# What every build of torch has, instead of TORCH_LIBRARIES: a library that is linked with libtorch_cuda loads with that build alone.
add_library(backend::torch INTERFACE IMPORTED)
target_link_libraries(backend::torch INTERFACE torch_cpu_library c10)
target_include_directories(backend::torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})

find_library(TORCH_PYTHON_LIBRARY torch_python PATHS "${TORCH_INSTALL_PREFIX}/lib" REQUIRED NO_DEFAULT_PATH)
