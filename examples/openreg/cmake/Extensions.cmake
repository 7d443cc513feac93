# What other projects need to build kernels for the device against the installed package: the headers of csrc/ and of the SDK,
# and a CMake package that finds these and the libraries. The package's functions include_paths() and library_paths() and its
# cmake_prefix_path say where they are.
set(package ${PROJECT_NAME})

install(DIRECTORY csrc/ DESTINATION ${package}/include/${package} FILES_MATCHING PATTERN "*.h")
get_target_property(sdk sdk::runtime ALIASED_TARGET)
get_target_property(sdk_headers ${sdk} INTERFACE_INCLUDE_DIRECTORIES)
foreach(folder IN LISTS sdk_headers)
  install(DIRECTORY ${folder}/ DESTINATION ${package}/include FILES_MATCHING PATTERN "*.h")
endforeach()

configure_file(cmake/PackageConfig.cmake.in ${PROJECT_BINARY_DIR}/${package}Config.cmake @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/${package}Config.cmake DESTINATION ${package}/share/cmake/${package})
if(DEFINED SKBUILD_PROJECT_VERSION)
  include(CMakePackageConfigHelpers)
  write_basic_package_version_file(${package}ConfigVersion.cmake VERSION ${SKBUILD_PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/${package}ConfigVersion.cmake DESTINATION ${package}/share/cmake/${package})
endif()
