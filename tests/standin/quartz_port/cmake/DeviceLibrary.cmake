# The device's library, which csrc/device/ calls: the target sdk::runtime is all that the rest of the build knows of it.
find_package(quartz REQUIRED CONFIG)
add_library(sdk::runtime ALIAS quartz::quartz)

# It is shipped in the wheel, with the header that csrc/device/Handles.h includes.
set(sdk_in_wheel quartz)
install(IMPORTED_RUNTIME_ARTIFACTS quartz::quartz LIBRARY DESTINATION ${PROJECT_NAME}/lib RUNTIME DESTINATION ${PROJECT_NAME}/lib)
get_target_property(quartz_headers quartz::quartz INTERFACE_INCLUDE_DIRECTORIES)
install(DIRECTORY ${quartz_headers}/ DESTINATION ${PROJECT_NAME}/include FILES_MATCHING PATTERN "quartz.hpp")
