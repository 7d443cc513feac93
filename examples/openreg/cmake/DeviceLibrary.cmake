# The device's library, which csrc/device/ calls: the target sdk::runtime is all that the rest of the build knows of it.
# PORTING: call `use_sdk(LIBRARY mychip HEADER mychip.h)` instead of all that follows; cmake/UseSdk.cmake tells what it does.
add_subdirectory(third_party/openreg)

# What of it goes into the wheel: the library, by this name in the folder lib/, and its headers. A library that the user's
# machine has anyway is not installed; sdk_in_wheel is empty then.
set(sdk_in_wheel openreg)
install(TARGETS openreg LIBRARY DESTINATION ${PROJECT_NAME}/lib RUNTIME DESTINATION ${PROJECT_NAME}/lib)
install(DIRECTORY third_party/openreg/include/ DESTINATION ${PROJECT_NAME}/include FILES_MATCHING PATTERN "*.h")
