# What other projects need to build kernels for the device against the installed package: the headers of csrc/
# and a CMake package that finds these and the libraries. The package's functions include_paths() and library_paths() and its
# cmake_prefix_path say where they are.
set(package ${PROJECT_NAME})

install(DIRECTORY csrc/ DESTINATION ${package}/include/${package} FILES_MATCHING PATTERN "*.h")

# The headers of an SDK that is not in the wheel: the folders of sdk::runtime and of all that it links.
if(NOT sdk_in_wheel)
  set(sdk_include_folders "$<TARGET_PROPERTY:sdk::runtime,INTERFACE_INCLUDE_DIRECTORIES>")
endif()
configure_file(cmake/PackageConfig.cmake.in ${PROJECT_BINARY_DIR}/cmake/${package}Config.cmake @ONLY)
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/${package}Config.cmake INPUT ${PROJECT_BINARY_DIR}/cmake/${package}Config.cmake)
install(FILES ${PROJECT_BINARY_DIR}/${package}Config.cmake DESTINATION ${package}/share/cmake/${package})
if(DEFINED SKBUILD_PROJECT_VERSION)
  include(CMakePackageConfigHelpers)
  write_basic_package_version_file(${package}ConfigVersion.cmake VERSION ${SKBUILD_PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/${package}ConfigVersion.cmake DESTINATION ${package}/share/cmake/${package})
endif()
