# Python and the torch that is installed for it.
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)

if(NOT Torch_DIR)
  # A backend that is installed already must not load while the next one is being built.
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env TORCH_DEVICE_BACKEND_AUTOLOAD=0 ${Python_EXECUTABLE} -c "import torch.utils; print(torch.utils.cmake_prefix_path)"
    OUTPUT_VARIABLE torch_prefix OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "torch cannot be imported by ${Python_EXECUTABLE}. Install it there first, and build without isolation (pip install --no-build-isolation).")
  endif()
  list(APPEND CMAKE_PREFIX_PATH "${torch_prefix}")
endif()
find_package(Torch REQUIRED CONFIG)
find_library(TORCH_PYTHON_LIBRARY torch_python PATHS "${TORCH_INSTALL_PREFIX}/lib" REQUIRED NO_DEFAULT_PATH)
